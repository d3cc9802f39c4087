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
    ctx.parallel(matrix.batch_count * matrix.outer(), grain, [&](int64_t begin, int64_t end) {
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

// Whether shifting a matrix by this many elements lays it over itself.
bool overlaps_shifted(const dense_view& matrix, int64_t shift) {
    const int64_t lines = shift / matrix.ld;
    const int64_t rest = shift % matrix.ld;
    if (rest < matrix.inner() && lines < matrix.outer()) return true;
    return matrix.ld - rest < matrix.inner() && lines + 1 < matrix.outer();
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
        const char* what = "the batch's size";
        elements = checked_add(
            elements, checked_mul(matrix.batch_count - 1, matrix.batch_stride, what), what);
    }
    const int64_t unit = int4 ? 1 : storage_bits(matrix.type) / 8;
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
    if (stride < matrix.inner()) return true;
    if (overlaps_shifted(matrix, stride)) return true;
    const int64_t span = checked_mul(matrix.batch_count - 1, stride, "the batch's size");
    if (span + matrix.inner() <= matrix.ld) return false;  // batches lie side by side in a line
    for (int64_t shift = stride; shift <= span && shift < size; shift += stride) {
        if (overlaps_shifted(matrix, shift)) return true;
    }
    return false;
}

}  // namespace magicube
