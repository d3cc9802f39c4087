// SPDX-License-Identifier: Apache-2.0
// The scales of a matrix or batch, and how calibration finds them.
#pragma once

#include <algorithm>

#include "core/device/context.hpp"
#include "core/types/granularity.hpp"
#include "core/types/view.hpp"

namespace magicube {

// Same numbers as magicubeCalibration_t; capi asserts it.
enum class calibration : int { absmax = 0, percentile = 1, mse = 2, given = 3 };

// The scale of element (row, col) of a matrix of the batch is
// data[batch * batch_stride + row * row_step + col * col_step]; null data stands for 1.
struct scale_array {
    const float* data = nullptr;
    int64_t batch_stride = 0;
    int64_t row_step = 0;
    int64_t col_step = 0;

    scale_array() = default;
    scale_array(const float* scales, granularity per, int64_t stride)
        : data(scales),
          batch_stride(stride),
          row_step(per == granularity::row ? 1 : 0),
          col_step(per == granularity::col ? 1 : 0) {}

    // Those of `count` elements of one stored line, from element `along` of it on.
    void load(int64_t batch, bool by_row, int64_t line, int64_t along, int64_t count,
              float* out) const {
        if (!data) {
            std::fill_n(out, count, 1.0f);
            return;
        }
        const int64_t line_step = by_row ? row_step : col_step;
        const int64_t along_step = by_row ? col_step : row_step;
        const float* first = data + batch * batch_stride + line * line_step + along * along_step;
        for (int64_t i = 0; i < count; ++i) out[i] = first[i * along_step];
    }
};

// One matrix of a batch, and its place in `scratch` as fp32, where the members of every group are
// neighbours, group after group.
struct group_copy {
    dense_view from, to;

    group_copy(const dense_view& real, int64_t batch, granularity per, void* scratch) : from(real) {
        from.batch_count = 1;
        from.values =
            static_cast<char*>(real.values) + storage_bytes(real.type, batch * real.batch_stride);
        to = from;
        to.type = dtype::fp32;
        to.values = scratch;
        to.storage = per == granularity::col ? order::col : order::row;
        to.ld = to.inner();
        to.batch_stride = 0;
    }
};

// Writes the scales of one matrix of the batch, one a group. `scratch` holds rows * cols floats
// for percentile and mse.
void find_scales(const context& ctx, const dense_view& real, int64_t batch, granularity per,
                 calibration how, double percentile, dtype target, float* scales, float* scratch);

}  // namespace magicube
