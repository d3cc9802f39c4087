// SPDX-License-Identifier: Apache-2.0
// Which keys the queries of one block row may see: on the CPU, as the plan's copy of the pattern
// and an execution's arguments say.
#pragma once

#include <algorithm>
#include <limits>

#include "core/ops/attention/attention.hpp"

namespace magicube::attention {

class visible_keys {
  public:
    visible_keys(const problem& p, const sr_bcrs_view& pattern, const arguments& args,
                 int64_t batch_, int64_t head_, int64_t block)
        : batch(batch_),
          head(head_),
          first(block * pattern.vector_length),
          count(std::min<int64_t>(pattern.vector_length, pattern.rows - first)),
          pattern_(pattern) {
        const int64_t index = pattern.block_row_index(p.pattern_of(batch, head), block);
        begin = pattern.row_begin[index];
        end = pattern.row_end[index];
        if (p.key_lengths) keys_ = args.key_lengths[batch];
        if (p.causal) {
            reach_ =
                saturating_sum(p.causal_offset, p.causal_offsets ? args.causal_offsets[batch] : 0);
        }
    }

    // Whether query first + i may see the key of a slot.
    bool allowed(int64_t slot, int64_t i) const {
        return within(pattern_.col_indices[slot], i) && pattern_.exists(slot, i);
    }

    // The first slot of the block row whose key lies beyond the lengths or the causal rule for
    // query first + i: as columns ascend, all that follow do.
    int64_t limit_of(int64_t i) const {
        if (keys_ == unlimited && reach_ == unlimited) return end;
        const int32_t* cols = pattern_.col_indices;
        const auto* limit = std::partition_point(cols + begin, cols + end,
                                                 [&](int32_t col) { return within(col, i); });
        return limit - cols;
    }

    int64_t batch;
    int64_t head;   // of the queries
    int64_t first;  // query
    int64_t count;  // of queries
    int64_t begin;  // slots
    int64_t end;

  private:
    static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

    // Where the sum saturates, the exact one would also allow all keys or none.
    static int64_t saturating_sum(int64_t a, int64_t b) {
        int64_t sum = 0;
        if (!__builtin_add_overflow(a, b, &sum)) return sum;
        return a > 0 ? unlimited : std::numeric_limits<int64_t>::min();
    }

    bool within(int64_t key, int64_t i) const { return key < keys_ && key - (first + i) <= reach_; }

    const sr_bcrs_view& pattern_;
    int64_t keys_ = unlimited;
    int64_t reach_ = unlimited;  // a query sees keys up to its own place plus this
};

}  // namespace magicube::attention
