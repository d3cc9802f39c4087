// SPDX-License-Identifier: Apache-2.0
// Comparison of a result with the library's CPU reference.
#pragma once

#include <string>
#include <vector>

#include "data.hpp"
#include "magicube/magicube.h"
#include "sparse_data.hpp"
#include "spmm_case.hpp"

namespace bench {

struct host_operands {
    const sparse_data& a;
    const dense_data& b;
    const std::vector<float>&a_scale, &b_scale;  // empty without scales
    float alpha;
};

// Recomputes the given block rows on the CPU. Products of integers must agree in every bit, others
// within a bound from the sum of the magnitudes. The first difference in words, or empty.
std::string find_mistake(magicubeHandle_t cpu, const spmm_case& c, const host_operands& operands,
                         const dense_data& result, const std::vector<int64_t>& block_rows);

}  // namespace bench
