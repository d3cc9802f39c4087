// SPDX-License-Identifier: Apache-2.0
// One sparse softmax with random scores, run by every implementation of every device and checked
// element by element, with the bytes around the output.
#pragma once

#include <string>

#include "core/ops/softmax/softmax.hpp"
#include "support/samples.hpp"

namespace support {

struct softmax_case {
    kind in = kind::fp32;
    kind out = kind::fp32;
    int64_t m = 37;
    int64_t n = 70;
    int64_t v = 8;
    int64_t s = 16;
    double density = 0.3;
    bool mask = false;
    int64_t batch = 1;
    int64_t pattern_batch = 1;
    batch_kind batching = batch_kind::one_pattern;
    int64_t stride_gap = 0;  // elements between the value arrays of a batch, beside their length
    float alpha = 1;
    magicube::granularity row_scale = magicube::granularity::none;
    magicube::granularity col_scale = magicube::granularity::none;
    bool bias = false;
    bool per_matrix = false;    // batch strides of the scales and the bias
    bool special_rows = false;  // rows of -infinity, with NaN, with +infinity
    bool in_place = false;
    uint64_t seed = 1;
};

// Empty, or what was wrong first.
std::string run(const softmax_case& test);

std::string describe(const softmax_case& test);

}  // namespace support
