// SPDX-License-Identifier: Apache-2.0
// KroneckerMM's cpu_simd with AVX-512.
#if defined(__x86_64__)
#include <immintrin.h>

#include "core/ops/kronecker_mm/cpu/simd_kernels.hpp"

namespace magicube::kronecker_mm::cpu {
namespace {

#define MAGICUBE_SIMD __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")))

struct lanes {
    using vector = __m512;
    static constexpr int64_t width = 16;
    static constexpr int vectors = 4;

    MAGICUBE_SIMD static vector zero() { return _mm512_setzero_ps(); }
    MAGICUBE_SIMD static vector load(const float* from) { return _mm512_loadu_ps(from); }
    MAGICUBE_SIMD static void store(float* to, vector v) { _mm512_storeu_ps(to, v); }
    MAGICUBE_SIMD static vector spread(float x) { return _mm512_set1_ps(x); }
    MAGICUBE_SIMD static vector multiply_add(vector a, vector b, vector c) {
        return _mm512_fmadd_ps(a, b, c);
    }
    template <int64_t Period>
    MAGICUBE_SIMD static vector repeat(const float* from) {
        if constexpr (Period == 2) {
            double both;
            std::memcpy(&both, from, sizeof(both));
            return _mm512_castpd_ps(_mm512_set1_pd(both));
        } else if constexpr (Period == 4) {
            return _mm512_maskz_broadcast_f32x4(0xffff, _mm_loadu_ps(from));
        } else {
            static_assert(Period == 8);
            return _mm512_maskz_broadcast_f32x8(0xffff, _mm256_loadu_ps(from));
        }
    }
};

#include "core/ops/kronecker_mm/cpu/simd_kernels.inc"

}  // namespace

const simd_kernels avx512_kernels = {"AVX-512", lanes::width, select_multiply, select_finish,
                                     select_load};

}  // namespace magicube::kronecker_mm::cpu
#endif
