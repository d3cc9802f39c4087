// SPDX-License-Identifier: Apache-2.0
// Dequantisation on CUDA: real = scale * integer, element by element.
#pragma once

#include "core/device/context.hpp"
#include "core/quantize/scales.hpp"
#include "core/types/view.hpp"

namespace magicube::cuda {

// Arguments are checked; pointers are on the context's device. Stream-ordered.
void dequantize(const context& ctx, const dense_view& quantized, const scale_array& scales,
                const dense_view& real);

}  // namespace magicube::cuda
