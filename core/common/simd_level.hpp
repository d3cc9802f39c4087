// SPDX-License-Identifier: Apache-2.0
// Which SIMD instructions the CPU's kernels may use, found at run time.
#pragma once

namespace magicube {

// amx_int8: avx512_vnni and the matrix registers.
enum class simd_level { portable, avx2, avx512_vnni, amx_int8 };

constexpr simd_level all_simd_levels[] = {simd_level::portable, simd_level::avx2,
                                          simd_level::avx512_vnni, simd_level::amx_int8};
constexpr simd_level highest_simd_level = simd_level::amx_int8;

constexpr const char* name_of(simd_level level) {
    return level == simd_level::portable      ? "portable"
           : level == simd_level::avx2        ? "AVX2"
           : level == simd_level::avx512_vnni ? "AVX-512 VNNI"
                                              : "AMX int8";
}

// The highest level that this processor has, and not above the limit.
simd_level usable_level();

// For tests: levels above it are not used by plans and sizes made from now on.
void limit_level(simd_level highest);

}  // namespace magicube
