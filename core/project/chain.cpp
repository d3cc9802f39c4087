// SPDX-License-Identifier: Apache-2.0
// From left to right: the best split into a factor and the product of the others, which is split in
// turn. A split is exact, because the support of a product of two chainable factors is a disjoint
// union of blocks, each any matrix of rank at most the pair's.
#include <algorithm>
#include <cmath>

#include "core/project/low_rank.hpp"
#include "core/project/operands.hpp"
#include "core/types/overlap.hpp"
#include "core/types/rows.hpp"
#include "core/types/runs.hpp"

namespace magicube {
namespace {

using numbers = std::vector<double>;

numbers room_for(const kronecker_shape& shape) {
    return numbers(static_cast<size_t>(shape.value_count()));
}

// A matrix as a factor's values, and what lies outside its support.
struct supported {
    numbers values;
    double outside = 0;  // sum of squares
    double total = 0;    // sum of all squares
};

supported load_support(const context& ctx, const dense_view& m, const numbers& weights,
                       const kronecker_shape& k) {
    supported result;
    result.values = room_for(k);
    numbers outside(static_cast<size_t>(m.rows)), inside(outside);
    ctx.parallel(m.rows, 1, [&](int64_t begin, int64_t end) {
        numbers line(static_cast<size_t>(m.cols));
        for (int64_t row = begin; row < end; ++row) {
            load_row(m, 0, row, 0, m.cols, line.data());
            for (size_t col = 0; col < line.size(); ++col) line[col] *= weights[col];
            const int64_t i = row / (k.b * k.d), j = row / k.d % k.b, l = row % k.d;
            const auto at = static_cast<size_t>(row);
            for (int64_t x = 0; x < k.c; ++x) {
                double& number = line[static_cast<size_t>((i * k.c + x) * k.d + l)];
                result.values[static_cast<size_t>(k.value_index(i, j, x, l))] = number;
                inside[at] += number * number;
                number = 0;
            }
            for (const double number : line) outside[at] += number * number;
        }
    });
    result.outside = sum_of(outside);
    result.total = result.outside + sum_of(inside);
    return result;
}

// One split of a product's values into those of its factors.
class chain_split {
  public:
    chain_split(const kronecker_shape& left, const kronecker_shape& right)
        : left_(left),
          right_(right),
          pair_(pair_of(left, right)),
          groups_(right.a / left.a),
          residues_(left.d / right.d) {}

    // Block i of the left factor, residue y of its rows in one of the right factor's blocks, block
    // u of the right factor in one of the left's, residue l.
    int64_t blocks() const { return left_.a * residues_ * groups_ * right_.d; }

    // Returns the square of the error.
    double run(const context& ctx, const numbers& product, numbers& left, numbers& right) const {
        numbers lost(static_cast<size_t>(blocks()));
        ctx.parallel(blocks(), 1, [&](int64_t begin, int64_t end) {
            numbers block(static_cast<size_t>(left_.b * right_.c));
            numbers first(static_cast<size_t>(left_.b * pair_.rank));
            numbers second(static_cast<size_t>(pair_.rank * right_.c));
            for (int64_t index = begin; index < end; ++index) {
                const place at(*this, index);
                gather(at, product, block);
                lost[static_cast<size_t>(index)] = best_low_rank(
                    block.data(), left_.b, right_.c, pair_.rank, first.data(), second.data());
                scatter(at, first, second, left, right);
            }
        });
        return sum_of(lost);
    }

  private:
    struct place {
        int64_t i, y, u, l;

        place(const chain_split& split, int64_t index)
            : i(index / (split.residues_ * split.groups_ * split.right_.d)),
              y(index / (split.groups_ * split.right_.d) % split.residues_),
              u(index / split.right_.d % split.groups_),
              l(index % split.right_.d) {}
    };

    void gather(const place& at, const numbers& product, numbers& block) const {
        double* to = block.data();
        for (int64_t j = 0; j < left_.b; ++j) {
            const double* from =
                product.data() +
                pair_.product.value_index(at.i, j * residues_ + at.y, at.u * right_.c, at.l);
            for (int64_t k = 0; k < right_.c; ++k) *to++ = from[k * right_.d];
        }
    }

    void scatter(const place& at, const numbers& first, const numbers& second, numbers& left,
                 numbers& right) const {
        const double* from = first.data();
        for (int64_t j = 0; j < left_.b; ++j) {
            double* to =
                left.data() + left_.value_index(at.i, j, at.u * pair_.rank, at.y * right_.d + at.l);
            for (int64_t x = 0; x < pair_.rank; ++x) to[x * left_.d] = *from++;
        }
        from = second.data();
        for (int64_t x = 0; x < pair_.rank; ++x) {
            double* to = right.data() +
                         right_.value_index(at.i * groups_ + at.u, x * residues_ + at.y, 0, at.l);
            for (int64_t k = 0; k < right_.c; ++k) to[k * right_.d] = *from++;
        }
    }

    const kronecker_shape& left_;
    const kronecker_shape& right_;
    kronecker_pair pair_;
    int64_t groups_;
    int64_t residues_;
};

// Element i of the result is the product of factors i to the last.
std::vector<kronecker_shape> products_from(const kronecker_view& chain) {
    std::vector<kronecker_shape> products(chain.factors.begin(), chain.factors.end());
    for (size_t i = products.size() - 1; i-- > 0;)
        products[i] = pair_of(products[i], products[i + 1]).product;
    return products;
}

void check_operands(const dense_view& weight, const column_weights& weights,
                    const kronecker_view& chain) {
    require_value(is_floating(chain.type), "chain is of type ", name_of(chain.type),
                  "; it must be of a floating type");
    require_values(chain, "chain");
    require_value(weight.rows == chain.rows() && weight.cols == chain.cols(), "weight is ",
                  weight.rows, " x ", weight.cols, "; it must be ", chain.rows(), " x ",
                  chain.cols(), ", the size of the chain");
    for (size_t i = 0; i < chain.factors.size(); ++i) {
        const auto& factor = chain.factors[i];
        const auto values = array_view(factor.values, chain.type, factor.value_count());
        const std::string name = text("chain's values[", i, "]");
        check_no_overlap(values, name.c_str(), weight, "weight");
        if (weights.given) check_no_overlap(values, name.c_str(), *weights.given, "weights");
        for (size_t j = 0; j < i; ++j) {
            const auto& other = chain.factors[j];
            check_no_overlap(values, name.c_str(),
                             array_view(other.values, chain.type, other.value_count()),
                             text("chain's values[", j, "]").c_str());
        }
    }
}

// The last factor in columns as they were before weighting.
void undo_weights(const kronecker_shape& k, const numbers& weights, numbers& values) {
    for (size_t at = 0; at < values.size(); ++at) {
        const auto index = static_cast<int64_t>(at);
        const int64_t i = index / (k.b * k.c * k.d), x = index / k.d % k.c, l = index % k.d;
        values[at] /= weights[static_cast<size_t>((i * k.c + x) * k.d + l)];
    }
}

}  // namespace

projection_report project_chain(const context& ctx, const dense_view& weight,
                                const column_weights& weights, const kronecker_view& chain) {
    require_cpu(ctx, "the projection onto a chain");
    product_shape(chain, "chain");  // throws where neighbours are not chainable
    check_operands(weight, weights, chain);
    check_weight(ctx, weight);
    const numbers scale = read_weights(ctx, weights, weight.cols);
    const auto products = products_from(chain);
    const size_t last = products.size() - 1;

    auto [rest, outside, total] = load_support(ctx, weight, scale, products.front());
    std::vector<numbers> factors;
    numbers squares;
    for (size_t i = 0; i < last; ++i) {
        numbers left = room_for(chain.factors[i]), right = room_for(products[i + 1]);
        squares.push_back(
            chain_split(chain.factors[i], products[i + 1]).run(ctx, rest, left, right));
        factors.push_back(std::move(left));
        rest.swap(right);
    }
    if (squares.empty()) squares.push_back(0);
    squares.front() += outside;
    undo_weights(products.back(), scale, rest);
    require_fits(rest, chain.type, text("factors[", last, "]").c_str());
    factors.push_back(std::move(rest));

    for (size_t i = 0; i <= last; ++i) {
        const std::vector<float> rounded(factors[i].begin(), factors[i].end());
        store_run(chain.type, chain.factors[i].values, 0, chain.factors[i].value_count(),
                  rounded.data());
    }
    projection_report report;
    report.norm = std::sqrt(total);
    for (const double square : squares) report.lost.push_back(std::sqrt(square));
    return report;
}

}  // namespace magicube
