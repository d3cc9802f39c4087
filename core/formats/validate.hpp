// SPDX-License-Identifier: Apache-2.0
// Checks of matrices. Errors name the argument, the place, the value and the rule.
#pragma once

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"
#include "core/types/view.hpp"

namespace magicube {

// Sizes, strides, alignment, required pointers: what holds for every descriptor from its creation
// on. Reads no array. Errors name the fields as the functions that make descriptors call them.
void validate_sizes(const dense_view& matrix);
void validate_sizes(const csr_view& matrix);
void validate_sizes(const bsr_view& matrix);
void validate_sizes(const sr_bcrs_view& matrix);
void validate_sizes(const vnm_view& matrix);
void validate_sizes(const sparse_view& matrix);

// Contents of index arrays. Check the matrix as the caller gave it (a CSR before as_sr_bcrs), so
// that the error speaks of the caller's arrays.
void validate_pattern(const context& ctx, const csr_view& matrix, const char* argument);
void validate_pattern(const context& ctx, const bsr_view& matrix, const char* argument);
void validate_pattern(const context& ctx, const sr_bcrs_view& matrix, const char* argument);
void validate_pattern(const context& ctx, const vnm_view& matrix, const char* argument);
void validate_pattern(const context& ctx, const sparse_view& matrix, const char* argument);

// Contents of values: int12 within its range; zero the elements that the element mask calls absent,
// and those of columns that V:n:M repeats. The pattern is valid; null values are.
void validate_values(const context& ctx, const dense_view& matrix, const char* argument);
void validate_values(const context& ctx, const vnm_view& matrix, const char* argument);
void validate_values(const context& ctx, const sparse_view& matrix, const char* argument);

// Every value is finite; integers always are.
void require_finite(const context& ctx, const dense_view& matrix, const char* argument);

// What scales must be, besides finite.
enum class scale_rule { finite, not_zero, positive };

// Contents of a batch of arrays of `length` scales, `batch_stride` elements apart (0: one for all).
// Looks at them only where the context validates.
void validate_scales(const context& ctx, const float* scales, int64_t length, int64_t batch_count,
                     int64_t batch_stride, scale_rule rule, const char* argument);

struct matrix_shape {
    int64_t rows;
    int64_t cols;
    int64_t batch_count;
};

inline matrix_shape shape_of(const dense_view& m) {
    return {m.rows, m.cols, m.batch_count};
}
inline matrix_shape shape_of(const sparse_common& m) {
    return {m.rows, m.cols, m.batch_count};
}

// Same rows, columns and batch count.
void require_same_shape(const matrix_shape& shape, const char* argument, const matrix_shape& wanted,
                        const char* wanted_argument);

// Whether two matrices of the batch share an element. Batches may interleave: [row][batch][col] is
// a batch with stride cols and ld batch_count * cols.
bool batch_overlaps(const dense_view& matrix);

}  // namespace magicube
