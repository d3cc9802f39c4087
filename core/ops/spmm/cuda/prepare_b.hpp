// SPDX-License-Identifier: Apache-2.0
// Brings B into the form that the staged kernels copy from: row-major, one, two or four bytes an
// element, base and rows aligned. Needed where the caller's B is column-major, int4 or not aligned
// to 16 bytes.
#pragma once

#include "core/device/context.hpp"
#include "core/types/view.hpp"

namespace magicube::spmm::cuda {

// Whether tensor copies can read B as it is.
bool is_staged(const dense_view& b);

// What prepare_b writes for B of this shape: its leading dimension, batch stride and bytes.
struct staged_shape {
    int64_t ld;            // elements
    int64_t batch_stride;  // elements; 0 if one matrix serves the batch
    int64_t element_bytes;
    int64_t bytes;
};
staged_shape shape_staged(dtype type, int64_t rows, int64_t cols, int64_t batch_count);

// Loads what prepare_b launches for matrices of a type, before that can be captured.
void load_prepare_b(const context& ctx, dtype type);

// Writes B into `target` and returns a view of it.
dense_view prepare_b(const context& ctx, const dense_view& b, void* target);

}  // namespace magicube::spmm::cuda
