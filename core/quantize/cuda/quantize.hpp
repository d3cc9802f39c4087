// SPDX-License-Identifier: Apache-2.0
// Quantisation on CUDA. Arguments are checked but for where pointers lie.
#pragma once

#include "core/quantize/quantize.hpp"

namespace magicube::cuda {

// Bytes of scratch for percentile and mse, for a matrix that is not empty.
size_t quantize_workspace(const dense_view& real, const quantize_params& params);

// Scales of matrix b start at scales + b * scale_stride. Stream-ordered.
void quantize(const context& ctx, const dense_view& real, const quantize_params& params,
              const dense_view& quantized, float* scales, int64_t scale_stride, void* workspace);

}  // namespace magicube::cuda
