// SPDX-License-Identifier: Apache-2.0
// The arithmetic of attention over int8 and int4 that both back ends share: attention.h defines it.
#pragma once

#include <cmath>

#include "core/ops/attention/attention.hpp"
#include "core/ops/epilogue.hpp"

namespace magicube::attention {

// Scales of one head: `head` counts through the batch, `length` is that of an array that goes by
// row or column.
MAGICUBE_HOST_DEVICE inline scale_reader scales_of_head(granularity per, const float* data,
                                                        int64_t head, int64_t length) {
    if (per == granularity::none) return {};
    if (per == granularity::tensor) return {data, 0, 1};
    return {data + head * length, 1, 1};
}

// What a query's score is an integer dot product times.
MAGICUBE_HOST_DEVICE inline float quantised_score(float scale, float q_scale, float k_scale,
                                                  int32_t dot) {
    return mul_rn(mul_rn(mul_rn(scale, q_scale), k_scale), static_cast<float>(dot));
}

// The integer that stands for a probability of 1 relative to the largest: 15, 255 or 65535.
MAGICUBE_HOST_DEVICE inline int32_t highest_probability(int bits) {
    return (1 << bits) - 1;
}

// Ties go to even. `largest` is finite and not below the score.
MAGICUBE_HOST_DEVICE inline int32_t quantised_probability(float score, float largest,
                                                          int32_t highest) {
    return static_cast<int32_t>(
        std::rint(highest * std::exp(static_cast<double>(score) - static_cast<double>(largest))));
}

// Of the exact sum of probabilities times V, and the exact sum of probabilities.
MAGICUBE_HOST_DEVICE inline float quantised_output(float v_scale, float sum, float total) {
    return mul_rn(v_scale, div_rn(sum, total));
}

// largest + log(total / highest).
MAGICUBE_HOST_DEVICE inline float quantised_statistic(float largest, float total, int32_t highest) {
    return static_cast<float>(static_cast<double>(largest) +
                              std::log(static_cast<double>(total) / highest));
}

}  // namespace magicube::attention
