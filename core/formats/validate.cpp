// SPDX-License-Identifier: Apache-2.0
#include "core/formats/validate.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/formats/cuda/validate.hpp"
#include "core/formats/row_cursor.hpp"

namespace magicube {
namespace {

// Matrices at the start of the batch that have all values there are.
int64_t distinct_matrices(int64_t batch_count, int64_t stride) {
    return stride == 0 ? std::min<int64_t>(batch_count, 1) : batch_count;
}

template <class View>
int64_t distinct_matrices(const View& matrix) {
    if constexpr (std::is_same_v<View, sr_bcrs_view>) {
        if (matrix.different_patterns) return matrix.batch_count;
    }
    if (matrix.value_count() == 0) return 0;
    return distinct_matrices(matrix.batch_count, matrix.values_stride);
}

template <class View>
void check_int12(const context& ctx, const View& matrix, const char* argument) {
    const auto* values = static_cast<const int16_t*>(matrix.values);
    const int64_t rows = checked_mul(matrix.rows, distinct_matrices(matrix), "rows of the batch");
    ctx.parallel(rows, 256, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            row_cursor<View> row(matrix, i / matrix.rows, i % matrix.rows);
            for (; !row.done(); row.next()) {
                const int16_t value = values[row.position()];
                require_value(value >= -2048 && value <= 2047, argument, ": values[",
                              row.position(), "] is ", value, "; int12 is from -2048 to 2047");
            }
        }
    });
}

template <dtype T>
void check_absent(const sr_bcrs_view& matrix, int64_t batch, int64_t slot, const char* argument) {
    for (int64_t v = 0; v < matrix.vector_length; ++v) {
        if (matrix.exists(slot, v)) continue;
        const int64_t position = matrix.value_index(batch, slot, v);
        const auto value = element<T>::load(matrix.values, position);
        require_value(value == 0, argument, ": values[", position, "] is ", value,
                      "; it must be 0, for the element mask calls element ", v, " of slot ", slot,
                      " absent");
    }
}

void check_absent(const context& ctx, const sr_bcrs_view& matrix, const char* argument) {
    visit(matrix.type, [&](auto type) {
        const int64_t block_rows = matrix.block_rows();
        const int64_t entries =
            checked_mul(block_rows, distinct_matrices(matrix), "block rows of the batch");
        ctx.parallel(entries, 64, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t batch = i / block_rows;
                const int64_t entry = matrix.block_row_index(batch, i % block_rows);
                for (int64_t s = matrix.row_begin[entry]; s < matrix.row_end[entry]; ++s) {
                    check_absent<decltype(type)::value>(matrix, batch, s, argument);
                }
            }
        });
    });
}

}  // namespace

void validate_sizes(const sparse_view& matrix) {
    std::visit([](const auto& view) { validate_sizes(view); }, matrix);
}

void validate_pattern(const context& ctx, const sparse_view& matrix, const char* argument) {
    if (!ctx.on_cpu()) return cuda::validate_copy(ctx, matrix, false, argument);
    std::visit([&](const auto& view) { validate_pattern(ctx, view, argument); }, matrix);
}

void validate_values(const context& ctx, const sparse_view& matrix, const char* argument) {
    if (!ctx.on_cpu()) return cuda::validate_copy(ctx, matrix, true, argument);
    const sparse_common& common = common_of(matrix);
    if (!common.values) return;
    if (common.type == dtype::int12) {
        std::visit([&](const auto& view) { check_int12(ctx, view, argument); }, matrix);
    }
    const auto* sr_bcrs = std::get_if<sr_bcrs_view>(&matrix);
    if (sr_bcrs && sr_bcrs->element_mask) check_absent(ctx, *sr_bcrs, argument);
    if (const auto* vnm = std::get_if<vnm_view>(&matrix)) validate_values(ctx, *vnm, argument);
}

void validate_scales(const context& ctx, const float* scales, int64_t length, int64_t batch_count,
                     int64_t batch_stride, scale_rule rule, const char* argument) {
    if (!ctx.validates() || length == 0) return;
    const int64_t arrays = distinct_matrices(batch_count, batch_stride);
    for (int64_t batch = 0; batch < arrays; ++batch) {
        for (int64_t i = batch * batch_stride; i < batch * batch_stride + length; ++i) {
            require_value(std::isfinite(scales[i]), argument, "[", i, "] is ", scales[i],
                          "; it must be finite");
            require_value(rule != scale_rule::not_zero || scales[i] != 0, argument, "[", i,
                          "] is 0; it must not be");
            require_value(rule != scale_rule::positive || scales[i] > 0, argument, "[", i, "] is ",
                          scales[i], "; it must be positive");
        }
    }
}

}  // namespace magicube
