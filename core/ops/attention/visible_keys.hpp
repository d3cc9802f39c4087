// SPDX-License-Identifier: Apache-2.0
// Which keys the queries of one block row may see: on the CPU, as the plan's copy of the pattern
// and an execution's arguments say.
#pragma once

#include <algorithm>

#include "core/ops/attention/allowed_keys.hpp"

namespace magicube::attention {

class visible_keys {
  public:
    visible_keys(const problem& p, const sr_bcrs_view& pattern, const arguments& args,
                 int64_t batch_, int64_t head_, int64_t block)
        : batch(batch_),
          head(head_),
          first(block * pattern.vector_length),
          count(std::min<int64_t>(pattern.vector_length, pattern.rows - first)),
          pattern_(pattern),
          keys_(keys_for(p, args.causal_offsets, args.key_lengths, batch_)) {
        const int64_t index = pattern.block_row_index(p.pattern_of(batch, head), block);
        begin = pattern.row_begin[index];
        end = pattern.row_end[index];
    }

    // Whether query first + i may see the key of a slot.
    bool allowed(int64_t slot, int64_t i) const {
        return keys_(first + i, pattern_.col_indices[slot]) && pattern_.exists(slot, i);
    }

    // The first slot of the block row whose key lies beyond the lengths or the causal rule for
    // query first + i: as columns ascend, all that follow do.
    int64_t limit_of(int64_t i) const {
        if (keys_.keys == allowed_keys::unlimited && keys_.reach == allowed_keys::unlimited)
            return end;
        const int32_t* cols = pattern_.col_indices;
        const auto* limit = std::partition_point(
            cols + begin, cols + end, [&](int32_t col) { return keys_(first + i, col); });
        return limit - cols;
    }

    int64_t batch;
    int64_t head;   // of the queries
    int64_t first;  // query
    int64_t count;  // of queries
    int64_t begin;  // slots
    int64_t end;

  private:
    const sr_bcrs_view& pattern_;
    const allowed_keys keys_;
};

}  // namespace magicube::attention
