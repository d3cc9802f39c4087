// SPDX-License-Identifier: Apache-2.0
// Scratch of pruning: how a workspace is cut into arrays, and who works in which part.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/common/checked.hpp"
#include "core/common/thread_pool.hpp"
#include "core/device/context.hpp"

namespace magicube {

// Hands out arrays, one behind the other. Without memory it counts bytes alone, so that one
// function both measures a layout and makes it.
class arena {
  public:
    explicit arena(void* memory) : memory_(static_cast<char*>(memory)) {}

    template <class T>
    T* take(int64_t count) {
        const int64_t start = bytes_;
        const int64_t size = checked_mul(count, sizeof(T), "workspace");
        bytes_ = checked_add(bytes_, checked_mul(ceil_div(size, 16), 16, "workspace"), "workspace");
        return memory_ ? reinterpret_cast<T*>(memory_ + start) : nullptr;
    }
    int64_t bytes() const { return bytes_; }

  private:
    char* memory_;
    int64_t bytes_ = 0;
};

// How many threads work on so many items, each with scratch of its own.
inline int64_t worker_count(const context& ctx, int64_t items) {
    const int threads =
        ctx.threads > 0 ? std::min(ctx.threads, hardware_threads()) : hardware_threads();
    return std::clamp<int64_t>(threads, 1, std::max<int64_t>(items, 1));
}

// Calls body(worker, item) for every item; a worker is on one thread at a time.
template <class Body>
void for_each_item(const context& ctx, int64_t workers, int64_t items, const Body& body) {
    std::atomic<int64_t> next{0};
    ctx.parallel(workers, 1, [&](int64_t begin, int64_t end) {
        for (int64_t worker = begin; worker < end; ++worker) {
            for (int64_t item = next++; item < items; item = next++) body(worker, item);
        }
    });
}

}  // namespace magicube
