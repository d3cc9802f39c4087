// SPDX-License-Identifier: Apache-2.0
// Column k of the left factor times row k of the right one fills a rectangle: the rows of the one's
// support times the columns of the other's. Where any two rectangles are disjoint or the same, the
// product is a free matrix of rank at most n in each rectangle that n values of k share, and each
// is decomposed on its own (Le, Riccietti, Gribonval, arXiv 2112.00386).
#include <cmath>
#include <map>

#include "core/common/checked.hpp"
#include "core/formats/validate.hpp"
#include "core/project/low_rank.hpp"
#include "core/project/operands.hpp"
#include "core/types/overlap.hpp"
#include "core/types/rows.hpp"

namespace magicube {
namespace {

using numbers = std::vector<double>;
using indices = std::vector<int64_t>;

struct rectangle {
    indices rows;
    indices cols;
    indices shared_by;  // the values of k
};

// A matrix of fp64 in memory of its own.
struct wide_matrix {
    int64_t cols;
    numbers values;

    wide_matrix(int64_t rows, int64_t width)
        : cols(width), values(static_cast<size_t>(checked_mul(rows, width, "a matrix"))) {}
    double* row(int64_t i) { return values.data() + i * cols; }
};

wide_matrix load(const context& ctx, const dense_view& m) {
    wide_matrix result(m.rows, m.cols);
    ctx.parallel(m.rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) load_row(m, 0, i, 0, m.cols, result.row(i));
    });
    return result;
}

void store(const context& ctx, wide_matrix& from, const dense_view& m) {
    // int4 is no floating type, so that rows share no byte.
    ctx.parallel(m.rows, 1, [&](int64_t begin, int64_t end) {
        std::vector<float> floats(static_cast<size_t>(m.cols));
        for (int64_t i = begin; i < end; ++i) store_row(m, i, from.row(i), floats.data());
    });
}

void require_uint8(const dense_view& m, const char* argument) {
    require_value(m.type == dtype::uint8, argument, " is of type ", name_of(m.type),
                  "; it must be uint8");
}

void require_factor(const dense_view& m, const char* argument, const dense_view& support,
                    const char* support_name) {
    require_value(is_floating(m.type), argument, " is of type ", name_of(m.type),
                  "; it must be a floating type");
    require_same_shape(shape_of(m), argument, shape_of(support), support_name);
}

void check_operands(const support_operands& o, const column_weights& weights) {
    require_uint8(o.left_support, "left_support");
    require_uint8(o.right_support, "right_support");
    require_value(o.left_support.rows == o.weight.rows, "left_support has ", o.left_support.rows,
                  " rows; weight has ", o.weight.rows);
    require_value(o.right_support.cols == o.weight.cols, "right_support has ", o.right_support.cols,
                  " columns; weight has ", o.weight.cols);
    require_value(o.left_support.cols == o.right_support.rows, "left_support has ",
                  o.left_support.cols, " columns; it must have ", o.right_support.rows,
                  ", the rows of right_support");
    require_value(o.left_support.batch_count == 1, "left_support is a batch of ",
                  o.left_support.batch_count, "; it must be one matrix");
    require_value(o.right_support.batch_count == 1, "right_support is a batch of ",
                  o.right_support.batch_count, "; it must be one matrix");
    require_factor(o.left, "left", o.left_support, "left_support");
    require_factor(o.right, "right", o.right_support, "right_support");
    const struct {
        const dense_view& view;
        const char* name;
    } outputs[] = {{o.left, "left"}, {o.right, "right"}};
    for (const auto& [view, name] : outputs) {
        check_no_overlap(view, name, o.weight, "weight");
        check_no_overlap(view, name, o.left_support, "left_support");
        check_no_overlap(view, name, o.right_support, "right_support");
        if (weights.given) check_no_overlap(view, name, *weights.given, "weights");
    }
    check_no_overlap(o.right, "right", o.left, "left");
}

// The rectangles that are not empty, in the order of the least k of each.
std::vector<rectangle> find_rectangles(wide_matrix left, wide_matrix right, int64_t rows) {
    std::vector<rectangle> found;
    std::map<std::pair<indices, indices>, size_t> known;
    for (int64_t k = 0; k < left.cols; ++k) {
        std::pair<indices, indices> sides;
        for (int64_t i = 0; i < rows; ++i)
            if (left.row(i)[k] != 0) sides.first.push_back(i);
        for (int64_t j = 0; j < right.cols; ++j)
            if (right.row(k)[j] != 0) sides.second.push_back(j);
        if (sides.first.empty() || sides.second.empty()) continue;
        const auto [at, is_new] = known.emplace(sides, found.size());
        if (is_new) found.push_back({std::move(sides.first), std::move(sides.second), {}});
        found[at->second].shared_by.push_back(k);
    }
    return found;
}

// Which rectangle each element lies in, or -1; throws where two meet.
indices owners_of(const std::vector<rectangle>& rectangles, int64_t rows, int64_t cols) {
    indices owners(static_cast<size_t>(checked_mul(rows, cols, "weight")), -1);
    for (size_t r = 0; r < rectangles.size(); ++r) {
        for (const int64_t row : rectangles[r].rows) {
            for (const int64_t col : rectangles[r].cols) {
                int64_t& owner = owners[static_cast<size_t>(row * cols + col)];
                require_value(owner < 0, "left_support and right_support: the rectangles of k = ",
                              owner < 0 ? 0 : rectangles[static_cast<size_t>(owner)].shared_by[0],
                              " and k = ", rectangles[r].shared_by[0], " meet at [", row, ", ", col,
                              "] and differ; any two must be disjoint or the same");
                owner = static_cast<int64_t>(r);
            }
        }
    }
    return owners;
}

// Fills the rectangle's part of both factors and returns the square of the error.
double fill(const rectangle& r, wide_matrix& w, wide_matrix& left, wide_matrix& right) {
    const size_t rows = r.rows.size(), cols = r.cols.size(), rank = r.shared_by.size();
    numbers block(rows * cols), first(rows * rank), second(rank * cols);
    for (size_t i = 0; i < rows; ++i)
        for (size_t j = 0; j < cols; ++j) block[i * cols + j] = w.row(r.rows[i])[r.cols[j]];
    const double lost =
        best_low_rank(block.data(), static_cast<int64_t>(rows), static_cast<int64_t>(cols),
                      static_cast<int64_t>(rank), first.data(), second.data());
    for (size_t x = 0; x < rank; ++x) {
        const int64_t k = r.shared_by[x];
        for (size_t i = 0; i < rows; ++i) left.row(r.rows[i])[k] = first[i * rank + x];
        for (size_t j = 0; j < cols; ++j) right.row(k)[r.cols[j]] = second[x * cols + j];
    }
    return lost;
}

}  // namespace

projection_report project_supports(const context& ctx, const support_operands& o,
                                   const column_weights& weights) {
    require_cpu(ctx, "the projection onto two supports");
    check_weight(ctx, o.weight);
    check_operands(o, weights);
    const numbers scale = read_weights(ctx, weights, o.weight.cols);
    const auto rectangles =
        find_rectangles(load(ctx, o.left_support), load(ctx, o.right_support), o.weight.rows);
    const indices owners = owners_of(rectangles, o.weight.rows, o.weight.cols);

    wide_matrix w = load(ctx, o.weight);
    double total = 0, lost = 0;
    for (size_t at = 0; at < owners.size(); ++at) {
        double& number = w.values[at];
        number *= scale[at % scale.size()];
        total += number * number;
        if (owners[at] < 0) lost += number * number;
    }
    wide_matrix left(o.left.rows, o.left.cols), right(o.right.rows, o.right.cols);
    numbers squares(rectangles.size());
    ctx.parallel(static_cast<int64_t>(squares.size()), 1, [&](int64_t begin, int64_t end) {
        for (auto r = static_cast<size_t>(begin); r < static_cast<size_t>(end); ++r)
            squares[r] = fill(rectangles[r], w, left, right);
    });
    for (size_t at = 0; at < right.values.size(); ++at)
        right.values[at] /= scale[at % scale.size()];
    require_fits(right.values, o.right.type, "right");
    store(ctx, left, o.left);
    store(ctx, right, o.right);
    projection_report report;
    report.norm = std::sqrt(total);
    report.lost = {std::sqrt(lost + sum_of(squares))};
    return report;
}

}  // namespace magicube
