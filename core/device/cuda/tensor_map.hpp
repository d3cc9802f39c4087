// SPDX-License-Identifier: Apache-2.0
// Descriptors of the tensor copy engine. For .cu files only.
#pragma once

#include <cuda.h>

#include "core/types/view.hpp"

namespace magicube::cuda {

// Of a row-major matrix (or batch) whose base, rows and matrices are aligned to 16 bytes: boxes of
// box_rows x box_cols elements, 128 or 64 bytes wide, swizzled by as many, zeros beyond the edges.
CUtensorMap make_row_map(const dense_view& matrix, int box_cols, int box_rows);

// Of a matrix (or batch) of either order with such an alignment, to write boxes of 1024 bytes: of 8
// rows, 128 bytes of each, swizzled by 128 bytes, if it is row-major; of 8 elements of each column,
// one column after another, if not; elements of 16 bits or more then.
CUtensorMap make_store_map(const dense_view& matrix);

// Rows of `length` elements by batch and head; strides in elements, multiples of 16 bytes.
struct head_tensor {
    void* values;
    dtype type;
    int64_t length, rows, heads, batches;
    int64_t row_stride, head_stride, batch_stride;
};

// To read boxes of box_rows whole rows, which are 64 or 128 bytes wide, swizzled by as many, zeros
// beyond the last.
CUtensorMap make_head_map(const head_tensor& tensor, int box_rows);

}  // namespace magicube::cuda
