// SPDX-License-Identifier: Apache-2.0
// Which keys the queries of one matrix of the batch may see, whatever the pattern says.
#pragma once

#include <limits>

#include "core/ops/attention/attention.hpp"

namespace magicube::attention {

struct allowed_keys {
    static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

    int64_t keys = unlimited;   // keys up to here exist
    int64_t reach = unlimited;  // a query sees keys up to its own place plus this

    MAGICUBE_HOST_DEVICE bool operator()(int64_t query, int64_t key) const {
        return key < keys && key - query <= reach;
    }
};

// Where the sum saturates, the exact one would also allow all keys or none.
MAGICUBE_HOST_DEVICE constexpr int64_t saturating_sum(int64_t a, int64_t b) {
    if (b > 0 && a > std::numeric_limits<int64_t>::max() - b)
        return std::numeric_limits<int64_t>::max();
    if (b < 0 && a < std::numeric_limits<int64_t>::min() - b)
        return std::numeric_limits<int64_t>::min();
    return a + b;
}

// The arrays are read only where the problem names them.
MAGICUBE_HOST_DEVICE inline allowed_keys keys_for(const problem& p, const int64_t* causal_offsets,
                                                  const int64_t* key_lengths, int64_t batch) {
    allowed_keys allowed;
    if (p.key_lengths) allowed.keys = key_lengths[batch];
    if (p.causal)
        allowed.reach =
            saturating_sum(p.causal_offset, p.causal_offsets ? causal_offsets[batch] : 0);
    return allowed;
}

}  // namespace magicube::attention
