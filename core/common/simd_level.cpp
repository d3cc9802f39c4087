// SPDX-License-Identifier: Apache-2.0
#include "core/common/simd_level.hpp"

#include <algorithm>
#include <atomic>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace magicube {
namespace {

std::atomic<simd_level> limit{highest_simd_level};

#if defined(__x86_64__)
// Linux lends a process the matrix registers if it asks: saving them takes 8 KiB a thread.
bool may_use_matrix_registers() {
#if defined(__linux__) && defined(SYS_arch_prctl)
    constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long tile_data = 18;               // XFEATURE_XTILEDATA
    // Not by __builtin_cpu_supports, to which not every compiler has told of them.
    constexpr unsigned leaf = 7, amx_tile = 1U << 24, amx_int8 = 1U << 25,
                       both = amx_tile | amx_int8;
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(leaf, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & both) == both &&
           syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
    return false;
#endif
}
#endif

simd_level detect() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512vnni");
    if (avx2 && avx512)
        return may_use_matrix_registers() ? simd_level::amx_int8 : simd_level::avx512_vnni;
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
