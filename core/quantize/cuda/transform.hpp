// SPDX-License-Identifier: Apache-2.0
// One pass over a dense matrix that writes another of the same shape, in any two orders, on CUDA.
#pragma once

#include "core/device/context.hpp"
#include "core/quantize/rounding.hpp"
#include "core/quantize/scales.hpp"
#include "core/types/view.hpp"

namespace magicube::cuda {

enum class number_op { copy, magnitude, quantize };

// to = op(from) for every number of all matrices of the batch; from is fp32, fp16 or bf16, to is
// fp32 or, for quantize, an integer type. scales counts for quantize alone.
void transform(const context& ctx, const dense_view& from, const dense_view& to, number_op op,
               const scale_array& scales);

}  // namespace magicube::cuda
