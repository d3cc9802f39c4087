// SPDX-License-Identifier: Apache-2.0
#include "core/formats/kronecker/kronecker.hpp"

#include <algorithm>

#include "core/common/checked.hpp"
#include "core/common/pointers.hpp"

namespace magicube {
namespace {

// How error messages call factor i.
std::string factor_name(const kronecker_view& view, int64_t i) {
    return view.chain ? text("factors[", i, "]") : "the factor";
}

void check_shape(const kronecker_shape& shape, dtype type, const std::string& prefix) {
    const struct {
        const char* name;
        int64_t size;
    } sizes[] = {{"a", shape.a}, {"b", shape.b}, {"c", shape.c}, {"d", shape.d}};
    for (const auto& [name, size] : sizes)
        require_value(size >= 1, prefix, name, " is ", size, "; it must be at least 1");
    const auto product = [&](int64_t x, int64_t y, const char* what) {
        return checked_mul(x, y, text(prefix, what).c_str());
    };
    product(product(shape.a, shape.b, "a * b"), shape.d, "rows, a * b * d,");
    product(product(shape.a, shape.c, "a * c"), shape.d, "columns, a * c * d,");
    const int64_t blocks =
        product(product(shape.a, shape.b, "a * b"), shape.c, "values, a * b * c,");
    const int64_t count = product(blocks, shape.d, "values, a * b * c * d,");
    product(count, std::max<int64_t>(element_alignment(type), 1), "values in bytes");
}

}  // namespace

std::string text_of(const kronecker_shape& s) {
    return text('(', s.a, ", ", s.b, ", ", s.c, ", ", s.d, ')');
}

void validate_sizes(const kronecker_view& view) {
    require_known(view.type, "type");
    require_value(!view.factors.empty(), "count is 0; a chain has at least one factor");
    int64_t values = 0;
    for (int64_t i = 0; i < view.count(); ++i) {
        const auto& factor = view.factors[static_cast<size_t>(i)];
        check_shape(factor, view.type, view.chain ? text("factors[", i, "].") : "");
        values = checked_add(values, factor.value_count(), "the number of values of all factors");
        require_aligned(factor.values, element_alignment(view.type),
                        view.chain ? text("values[", i, "]").c_str() : "values");
        if (i == 0) continue;
        const auto& left = view.factors[static_cast<size_t>(i - 1)];
        require_value(left.cols() == factor.rows(), "factors[", i, "] = ", text_of(factor), " has ",
                      factor.rows(), " rows; it must have ", left.cols(),
                      ", the columns of factors[", i - 1, "] = ", text_of(left));
    }
    checked_mul(values, element_alignment(view.type), "the values of all factors in bytes");
}

void require_values(const kronecker_view& view, const char* argument) {
    for (int64_t i = 0; i < view.count(); ++i) {
        require_value(view.factors[static_cast<size_t>(i)].values != nullptr, argument, ": ",
                      factor_name(view, i), " has null values; they are required here");
    }
}

const kronecker_factor& only_factor(const kronecker_view& view, const char* argument) {
    require_value(view.count() == 1, argument, " is a chain of ", view.count(),
                  " factors; this call takes one factor");
    return view.factors.front();
}

kronecker_pair pair_of(const kronecker_shape& left, const kronecker_shape& right) {
    kronecker_pair pair;
    if (right.a % left.a != 0 || left.d % right.d != 0) return pair;
    const int64_t groups = right.a / left.a;  // of the right factor's columns, in one block of left
    if (left.c % groups != 0) return pair;
    pair.chainable = true;
    pair.rank = left.c / groups;
    pair.redundant = pair.rank >= std::min(left.b, right.c);
    const char* what = "the product of two factors";
    pair.product = {left.a, checked_mul(left.b, left.d / right.d, what),
                    checked_mul(groups, right.c, what), right.d};
    return pair;
}

kronecker_shape product_shape(const kronecker_view& view, const char* argument) {
    kronecker_shape product = view.factors.front();
    for (int64_t i = 1; i < view.count(); ++i) {
        const auto& factor = view.factors[static_cast<size_t>(i)];
        const auto& before = view.factors[static_cast<size_t>(i - 1)];
        require_value(pair_of(before, factor).chainable, argument, ": factors[", i - 1,
                      "] = ", text_of(before), " and factors[", i, "] = ", text_of(factor),
                      " are not chainable; their product is no Kronecker-sparse factor (a of the "
                      "first must divide a of the second, d of the second d of the first, and the "
                      "quotient of the a's the first's c)");
        product = pair_of(product, factor).product;
    }
    return product;
}

std::vector<kronecker_shape> butterfly_shapes(int64_t log2_size) {
    require_value(log2_size >= 1 && log2_size <= 62, "log2_size is ", log2_size,
                  "; it must be from 1 to 62");
    std::vector<kronecker_shape> shapes;
    for (int64_t l = 0; l < log2_size; ++l)
        shapes.push_back({int64_t{1} << l, 2, 2, int64_t{1} << (log2_size - 1 - l)});
    return shapes;
}

std::vector<kronecker_shape> monarch_shapes(int64_t rows, int64_t cols, int64_t blocks,
                                            int64_t step, int64_t rank) {
    const struct {
        const char* name;
        int64_t size;
    } sizes[] = {
        {"rows", rows}, {"cols", cols}, {"blocks", blocks}, {"step", step}, {"rank", rank}};
    for (const auto& [name, size] : sizes)
        require_value(size >= 1, name, " is ", size, "; it must be at least 1");
    require_value(rows % step == 0, "step is ", step, "; it must divide rows = ", rows);
    require_value(cols % blocks == 0, "blocks is ", blocks, "; it must divide cols = ", cols);
    return {{1, rows / step, checked_mul(blocks, rank, "blocks * rank"), step},
            {blocks, checked_mul(rank, step, "rank * step"), cols / blocks, 1}};
}

}  // namespace magicube
