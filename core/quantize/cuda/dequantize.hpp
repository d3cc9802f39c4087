// SPDX-License-Identifier: Apache-2.0
// Dequantisation on CUDA: real = scale * integer, element by element.
#pragma once

#include "core/device/context.hpp"
#include "core/types/view.hpp"

namespace magicube::cuda {

// Which scale an element takes: index = batch * batch_stride + row * row_step + col * col_step.
struct scale_index {
    int64_t batch_stride = 0;
    int64_t row_step = 0;
    int64_t col_step = 0;
};

// Arguments are checked; pointers are on the context's device. Stream-ordered.
void dequantize(const context& ctx, const dense_view& quantized, const float* scales,
                const scale_index& scale, const dense_view& real);

}  // namespace magicube::cuda
