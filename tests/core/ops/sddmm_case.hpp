// SPDX-License-Identifier: Apache-2.0
// One SDDMM with random operands, run by every implementation of every device and checked element
// by element, with the bytes around the output.
#pragma once

#include <string>

#include "core/ops/sddmm/sddmm.hpp"
#include "support/samples.hpp"

namespace support {

struct sddmm_case {
    kind type = kind::int8;
    kind out = kind::fp32;
    int64_t m = 37;
    int64_t n = 70;
    int64_t k = 37;
    int64_t v = 8;
    int64_t s = 16;
    double density = 0.3;
    bool mask = false;
    bool offsets32 = false;
    bool a_col = false;
    bool b_col = false;
    int64_t gap = 3;
    int64_t batch = 1;
    int64_t pattern_batch = 1;
    batch_kind batching = batch_kind::one_pattern;
    bool a_shared = false;
    bool b_shared = false;
    int64_t out_gap = 0;  // beside the values of one matrix; 0: the default stride
    float alpha = 1;
    magicube::granularity a_scale = magicube::granularity::none;
    magicube::granularity b_scale = magicube::granularity::none;
    bool out_scale = false;
    bool scales_per_matrix = false;
    int64_t k_max = 0;  // 0: k
    uint64_t seed = 1;
};

// Empty, or what was wrong first.
std::string run(const sddmm_case& test);

std::string describe(const sddmm_case& test);

}  // namespace support
