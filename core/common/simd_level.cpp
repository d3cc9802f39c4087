// SPDX-License-Identifier: Apache-2.0
#include "core/common/simd_level.hpp"

#include <algorithm>
#include <atomic>

namespace magicube {
namespace {

std::atomic<simd_level> limit{simd_level::avx512_vnni};

simd_level detect() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512vnni");
    if (avx2 && avx512) return simd_level::avx512_vnni;
    if (avx2) return simd_level::avx2;
#endif
    return simd_level::portable;
}

}  // namespace

simd_level usable_level() {
    static const simd_level detected = detect();
    return std::min(detected, limit.load(std::memory_order_relaxed));
}

void limit_level(simd_level highest) {
    limit.store(highest, std::memory_order_relaxed);
}

}  // namespace magicube
