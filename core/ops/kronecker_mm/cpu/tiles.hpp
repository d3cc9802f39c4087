// SPDX-License-Identifier: Apache-2.0
// What the CPU's implementations of KroneckerMM share: tiles of vectors that pass through the whole
// chain in scratch memory of one thread, and the plan's copies of the factors' values.
#pragma once

#include <algorithm>
#include <atomic>

#include "core/ops/kronecker_mm/kronecker_mm.hpp"
#include "core/ops/plan_buffer.hpp"

namespace magicube::kronecker_mm::cpu {

// Scratch areas of a workspace: as many as threads may work at once.
inline int64_t slot_count(const problem& p, int64_t tile_width, int64_t parts = 1) {
    const int64_t tiles = checked_mul(ceil_div(p.n_max, tile_width),
                                      std::max<int64_t>(p.batch_count, 1), "problem's tiles");
    return std::min<int64_t>(hardware_threads(), checked_mul(tiles, parts, "problem's tiles"));
}

// Calls body(slot, task) for every task; calls with one slot follow one another.
template <class Body>
void for_each_task(const context& ctx, int64_t tasks, int64_t slots, const Body& body) {
    std::atomic<int64_t> next{0};
    ctx.parallel(std::min(slots, tasks), 1, [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot) {
            for (int64_t task = next++; task < tasks; task = next++) body(slot, task);
        }
    });
}

}  // namespace magicube::kronecker_mm::cpu
