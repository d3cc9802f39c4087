// SPDX-License-Identifier: Apache-2.0
// One product with a Kronecker-sparse chain and random operands, run by every implementation of
// every device and checked element by element, with the bytes around the output.
#pragma once

#include <string>
#include <vector>

#include "core/ops/kronecker_mm/kronecker_mm.hpp"
#include "support/samples.hpp"

namespace support {

struct kronecker_mm_case {
    kind type = kind::fp32;
    kind y = kind::fp32;
    std::vector<magicube::kronecker_shape> factors = {{2, 3, 5, 4}};
    bool transpose = false;
    bool batch_last = false;
    bool x_col = false;
    bool y_col = false;
    int64_t n = 70;
    int64_t n_max = 0;  // 0: n
    int64_t gap = 3;
    int64_t batch = 1;
    bool x_shared = false;
    float alpha = 1;
    float beta = 0;
    magicube::granularity k_scale = magicube::granularity::none;
    magicube::granularity x_scale = magicube::granularity::none;
    bool bias = false;
    bool y_scale = false;
    bool scales_per_matrix = false;
    magicube::activation function = magicube::activation::none;
    magicube::value_mode values = magicube::value_mode::fixed;
    uint64_t seed = 1;
};

// Empty, or what was wrong first.
std::string run(const kronecker_mm_case& test);

std::string describe(const kronecker_mm_case& test);

}  // namespace support
