// SPDX-License-Identifier: Apache-2.0
// Which SIMD instructions the CPU's kernels may use, found at run time.
#pragma once

namespace magicube {

enum class simd_level { portable, avx2, avx512_vnni };

constexpr const char* name_of(simd_level level) {
    return level == simd_level::portable ? "portable"
           : level == simd_level::avx2   ? "AVX2"
                                         : "AVX-512 VNNI";
}

// The highest level that this processor has, and not above the limit.
simd_level usable_level();

// For tests: levels above it are not used by plans and sizes made from now on.
void limit_level(simd_level highest);

}  // namespace magicube
