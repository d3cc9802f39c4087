// SPDX-License-Identifier: Apache-2.0
// One sparse attention with random operands, run by every implementation of every device and
// checked element by element against a model in long double, with the bytes around the outputs.
#pragma once

#include <string>

#include "core/ops/attention/attention.hpp"
#include "support/samples.hpp"

namespace support {

struct attention_case {
    kind in = kind::fp16;
    kind out = kind::fp16;
    int64_t lq = 37;
    int64_t lk = 70;
    int64_t dim = 20;
    int64_t batch = 1;
    int64_t q_heads = 1;
    int64_t kv_heads = 1;
    int64_t v = 8;
    int64_t s = 16;
    double density = 0.3;
    bool mask = false;
    magicube::attention::pattern_sharing patterns = magicube::attention::pattern_sharing::shared;
    bool heads_inside = false;  // tensors are (batch, length, heads, dim)
    int64_t gap = 0;            // elements between rows
    bool shared_kv = false;     // one K and V serve the batch
    bool causal = false;
    int64_t causal_offset = 0;
    bool causal_offsets = false;
    bool key_lengths = false;
    bool log_sum_exp = true;
    bool scale_given = false;   // else 1 / sqrt(dim)
    double magnitude = 2;       // of Q and K
    bool special_rows = false;  // queries with NaN, and with scores of +-infinity
    bool special_keys = false;  // keys with NaN, and with values of NaN and infinity
    // Of integers: bits of the softmax, and what shares a scale.
    int bits = 0;
    magicube::granularity q_scale = magicube::granularity::row;
    magicube::granularity k_scale = magicube::granularity::row;
    magicube::granularity v_scale = magicube::granularity::col;
    uint64_t seed = 1;
};

// Empty, or what was wrong first.
std::string run(const attention_case& test);

std::string describe(const attention_case& test);

}  // namespace support
