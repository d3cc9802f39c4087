// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/common/pointers.hpp"
#include "core/formats/validate.hpp"

namespace magicube {
namespace {

// Elements from the first to one past the last of one matrix.
int64_t extent(const dense_view& matrix) {
    if (matrix.rows == 0 || matrix.cols == 0) return 0;
    return checked_add(checked_mul(matrix.outer() - 1, matrix.ld, "the matrix's size"),
                       matrix.inner(), "the matrix's size");
}

// Calls body(batch, line) for every stored row or column, in parallel.
template <class Body>
void for_each_line(const context& ctx, const dense_view& matrix, const Body& body) {
    if (matrix.empty()) return;
    const int64_t grain = std::max<int64_t>(1, 65536 / matrix.inner());
    const int64_t matrices = matrix.batch_stride == 0 ? 1 : matrix.batch_count;
    const int64_t lines = checked_mul(matrices, matrix.outer(), "lines of the batch");
    ctx.parallel(lines, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) body(i / matrix.outer(), i % matrix.outer());
    });
}

template <class Value>
[[noreturn]] void report_value(const dense_view& matrix, int64_t batch, int64_t line, int64_t i,
                               Value value, const char* rule, const char* argument) {
    const bool by_row = matrix.storage == order::row;
    fail(status::invalid_value, argument, "[", by_row ? line : i, ", ", by_row ? i : line,
         "] (batch ", batch, ") is ", value, "; ", rule);
}

// Least x >= 0 for which a * x mod m lies in [low, high], where 0 <= low <= high < m; -1 if there
// is none or a * x would pass 64 bits. As Euclid's algorithm, it halves the numbers every other
// step.
int64_t first_multiple_within(int64_t a, int64_t m, int64_t low, int64_t high) {
    if (low == 0) return 0;
    a %= m;
    if (a == 0) return -1;
    if (a > m - a) return first_multiple_within(m - a, m, m - high, m - low);
    const int64_t x = ceil_div(low, a);
    if (x <= high / a) return x;
    // No multiple of a lies within: turns around the circle, y of them, must bring one there.
    const int64_t turns = first_multiple_within(m % a, a, (a - high % a) % a, (a - low % a) % a);
    int64_t sum = 0;
    if (turns < 0 || __builtin_mul_overflow(m, turns, &sum) ||
        __builtin_add_overflow(sum, low, &sum)) {
        return -1;
    }
    return ceil_div(sum, a);
}

}  // namespace

void validate_sizes(const dense_view& matrix) {
    require_known(matrix.type, "type");
    require_value(matrix.rows >= 0, "rows is ", matrix.rows, "; it must be at least 0");
    require_value(matrix.cols >= 0, "cols is ", matrix.cols, "; it must be at least 0");
    const bool by_row = matrix.storage == order::row;
    require_value(matrix.ld >= matrix.inner(), "ld is ", matrix.ld, "; it must be at least ",
                  by_row ? "cols" : "rows", " = ", matrix.inner(), " for order ",
                  by_row ? "ROW" : "COL");
    const bool int4 = matrix.type == dtype::int4;
    require_value(!int4 || matrix.ld % 2 == 0, "ld is ", matrix.ld, "; it must be even for int4");
    require_value(matrix.batch_count >= 0, "count is ", matrix.batch_count,
                  "; it must be at least 0");
    require_value(matrix.batch_stride >= 0, "stride is ", matrix.batch_stride,
                  "; it must be at least 0");
    require_value(!int4 || matrix.batch_stride % 2 == 0, "stride is ", matrix.batch_stride,
                  "; it must be even for int4");
    int64_t elements = extent(matrix);
    if (matrix.batch_count > 1) {
        const char* what = "count times stride";
        elements = checked_add(
            elements, checked_mul(matrix.batch_count - 1, matrix.batch_stride, what), what);
    }
    const int64_t unit = element_alignment(matrix.type);
    checked_mul(elements, unit, "the size of values in bytes");
    require_value(matrix.values || matrix.empty() || matrix.read_only,
                  "values is null; it is required where the matrix is not empty (", matrix.rows,
                  " x ", matrix.cols, ")");
    require_aligned(matrix.values, unit, "values");
}

void validate_values(const context& ctx, const dense_view& matrix, const char* argument) {
    if (matrix.type != dtype::int12 || !matrix.values) return;
    const auto* values = static_cast<const int16_t*>(matrix.values);
    for_each_line(ctx, matrix, [&](int64_t batch, int64_t line) {
        const int16_t* start = values + batch * matrix.batch_stride + line * matrix.ld;
        for (int64_t i = 0; i < matrix.inner(); ++i) {
            if (start[i] >= -2048 && start[i] <= 2047) continue;
            report_value(matrix, batch, line, i, start[i], "int12 is from -2048 to 2047", argument);
        }
    });
}

void require_finite(const context& ctx, const dense_view& matrix, const char* argument) {
    if (!is_floating(matrix.type) || !matrix.values) return;
    visit(matrix.type, [&](auto type) {
        using access = element<decltype(type)::value>;
        for_each_line(ctx, matrix, [&](int64_t batch, int64_t line) {
            const int64_t start = batch * matrix.batch_stride + line * matrix.ld;
            bool finite = true;  // without a branch, so that it vectorises
            for (int64_t i = 0; i < matrix.inner(); ++i) {
                const auto value = static_cast<float>(access::load(matrix.values, start + i));
                finite &= (bits_of(value) & 0x7f800000) != 0x7f800000;
            }
            for (int64_t i = 0; !finite && i < matrix.inner(); ++i) {
                const auto value = static_cast<float>(access::load(matrix.values, start + i));
                if (std::isfinite(value)) continue;
                report_value(matrix, batch, line, i, value, "it must be finite", argument);
            }
        });
    });
}

void require_same_shape(const matrix_shape& shape, const char* argument, const matrix_shape& wanted,
                        const char* wanted_argument) {
    require_value(shape.rows == wanted.rows && shape.cols == wanted.cols, argument, " is ",
                  shape.rows, " x ", shape.cols, "; it must be ", wanted.rows, " x ", wanted.cols,
                  " as ", wanted_argument, " is");
    require_value(shape.batch_count == wanted.batch_count, argument, " is a batch of ",
                  shape.batch_count, "; it must be one of ", wanted.batch_count, " as ",
                  wanted_argument, " is");
}

bool batch_overlaps(const dense_view& matrix) {
    if (matrix.batch_count < 2 || matrix.empty()) return false;
    const int64_t size = extent(matrix);
    const int64_t stride = matrix.batch_stride;
    if (stride >= size) return false;
    const int64_t inner = matrix.inner();
    // Matrices d apart in the batch share an element if d * stride is below the size and, less
    // whole lines, within (-inner, inner): d - 1 strides lie between low and high then.
    if (stride < inner) return true;
    if (matrix.ld - inner < inner) return true;  // no line fits between two others
    const int64_t farthest = std::min(matrix.batch_count - 1, (size - 1) / stride);
    const int64_t rest = stride % matrix.ld;
    const auto less_rest = [&](int64_t place) {
        return place >= rest ? place - rest : place - rest + matrix.ld;
    };
    const int64_t low = less_rest(inner == 1 ? 0 : matrix.ld - inner + 1);
    const int64_t high = less_rest(inner - 1);
    if (low > high) return true;  // the neighbour, d = 1
    const int64_t strides = first_multiple_within(stride, matrix.ld, low, high);
    return strides >= 0 && strides < farthest;
}

}  // namespace magicube
