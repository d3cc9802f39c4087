// SPDX-License-Identifier: Apache-2.0
// KroneckerMM's cpu_simd with AVX2 and FMA.
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/ops/kronecker_mm/cpu/simd_kernels.hpp"

namespace magicube::kronecker_mm::cpu {
namespace {

#define MAGICUBE_SIMD __attribute__((target("avx2,fma")))

struct lanes {
    using vector = __m256;
    static constexpr int64_t width = 8;
    static constexpr int vectors = 2;

    MAGICUBE_SIMD static vector zero() { return _mm256_setzero_ps(); }
    MAGICUBE_SIMD static vector load(const float* from) { return _mm256_loadu_ps(from); }
    MAGICUBE_SIMD static void store(float* to, vector v) { _mm256_storeu_ps(to, v); }
    MAGICUBE_SIMD static vector spread(float x) { return _mm256_set1_ps(x); }
    MAGICUBE_SIMD static vector multiply_add(vector a, vector b, vector c) {
        return _mm256_fmadd_ps(a, b, c);
    }
    template <int64_t Period>
    MAGICUBE_SIMD static vector repeat(const float* from) {
        if constexpr (Period == 2) {
            double both;
            std::memcpy(&both, from, sizeof(both));
            return _mm256_castpd_ps(_mm256_set1_pd(both));
        } else {
            static_assert(Period == 4);
            const __m128 four = _mm_loadu_ps(from);
            return _mm256_set_m128(four, four);
        }
    }
};

#include "core/ops/kronecker_mm/cpu/simd_kernels.inc"

}  // namespace

const simd_kernels avx2_kernels = {"AVX2", lanes::width, select_multiply, select_finish,
                                   select_load};

}  // namespace magicube::kronecker_mm::cpu
#endif
