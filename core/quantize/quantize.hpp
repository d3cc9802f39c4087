// SPDX-License-Identifier: Apache-2.0
// Symmetric quantisation and its inverse. The two matrices must not share memory.
#pragma once

#include <cstddef>

#include "core/device/context.hpp"
#include "core/quantize/scales.hpp"
#include "core/types/granularity.hpp"
#include "core/types/view.hpp"

namespace magicube {

struct quantize_params {
    granularity per = granularity::tensor;
    calibration how = calibration::absmax;
    double percentile = 100.0;
    int64_t scale_batch_stride = -1;  // -1: densely packed
};

// Checks types, shapes and params, and returns the bytes of scratch that quantize needs.
size_t quantize_workspace(const context& ctx, const dense_view& real, const quantize_params& params,
                          const dense_view& quantized);

// Arguments are those of quantize_workspace; the rest is checked here.
void quantize(const context& ctx, const dense_view& real, const quantize_params& params,
              const dense_view& quantized, float* scales, void* workspace, size_t workspace_size);

// real = scale * integer. Of params, `per` and scale_batch_stride count.
void dequantize(const context& ctx, const dense_view& quantized, const quantize_params& params,
                const float* scales, const dense_view& real);

}  // namespace magicube
