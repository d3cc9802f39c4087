// SPDX-License-Identifier: Apache-2.0
// One SpMM with random operands, run by every implementation of every device and checked element by
// element, with the bytes around the output.
#pragma once

#include <string>

#include "core/ops/spmm/spmm.hpp"
#include "support/samples.hpp"
#include "support/vnm_sample.hpp"

namespace support {

struct spmm_case {
    kind a = kind::int8;
    kind b = kind::int8;
    kind c = kind::fp32;
    int64_t m = 37;
    int64_t k = 70;
    int64_t n = 37;
    int64_t v = 8;
    int64_t s = 16;
    int64_t group = 0;                      // M of an A in V:N:M; 0: A is in SR-BCRS
    selection columns = selection::random;  // of an A in V:N:M
    bool poisoned = false;  // NaN and infinity in rows of B whose columns no block row selects
    double density = 0.3;
    int64_t long_block_row = -1;  // that holds nine vectors of ten; -1: none
    bool extreme = false;  // integers at the ends of their ranges, one sign a row and a column
    bool mask = false;
    bool offsets32 = false;
    bool b_col = false;
    bool c_col = false;
    int64_t gap = 3;
    int64_t batch = 1;
    int64_t a_batch = 1;
    batch_kind batching = batch_kind::one_pattern;
    bool b_shared = false;
    float alpha = 1;
    float beta = 0;
    magicube::granularity a_scale = magicube::granularity::none;
    magicube::granularity b_scale = magicube::granularity::none;
    bool bias = false;
    bool c_scale = false;
    bool scales_per_matrix = false;  // batch strides of the scales and the bias
    magicube::activation function = magicube::activation::none;
    magicube::value_mode values = magicube::value_mode::fixed;
    int64_t value_shift = 0;  // elements that values of each call lie beyond an aligned address
    int64_t n_max = 0;        // 0: n
    int threads = 0;
    uint64_t seed = 1;
};

// The case with operands of a pair of types and the output that holds its sums.
spmm_case case_of(magicube::precision_pair pair);

// Whether there are matrices like the case's A: a vector or a stride of int4 is whole bytes.
bool allowed(const spmm_case& test);

// Empty, or what was wrong first.
std::string run(const spmm_case& test);

std::string describe(const spmm_case& test);

}  // namespace support
