// SPDX-License-Identifier: Apache-2.0
// What a call runs on and how: the core's side of a handle.
#pragma once

#include <cstdint>

#include "core/common/error.hpp"
#include "core/common/thread_pool.hpp"

struct CUstream_st;

namespace magicube {

// Same numbers as the enums of handle.h and types.h; capi asserts it.
enum class device_kind : int { cpu = 1, cuda = 2 };
enum class pointer_mode : int { host = 0, device = 1 };
enum class validation : int { basic = 0, full = 1 };

constexpr const char* name_of(device_kind device) {
    return device == device_kind::cpu ? "CPU" : "CUDA";
}

struct context {
    device_kind device = device_kind::cpu;
    int ordinal = 0;
    CUstream_st* stream = nullptr;
    pointer_mode scalars = pointer_mode::host;
    bool deterministic = false;
    int threads = 0;  // 0: all of the pool
    validation level = validation::full;

    bool on_cpu() const { return device == device_kind::cpu; }
    bool validates() const { return on_cpu() && level == validation::full; }
    void parallel(int64_t count, int64_t grain, range_body body) const {
        parallel_for(count, grain, threads, body);
    }
};

// For operations that have no CUDA code yet.
inline void require_cpu(const context& ctx, const char* operation) {
    require(ctx.on_cpu(), status::not_supported, operation,
            " has no CUDA implementation in this version; use a handle on MAGICUBE_DEVICE_CPU");
}

}  // namespace magicube
