// SPDX-License-Identifier: Apache-2.0
// Row kernels with AVX2 and FMA. Bytes are computed as words: vpmaddubsw would saturate.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/ops/cpu/row_kernels.hpp"
#include "core/ops/epilogue.hpp"

namespace magicube {
namespace {

#define MAGICUBE_SIMD __attribute__((target("avx2,fma")))

MAGICUBE_SIMD inline float multiply_add(float a, float b, float c) {
    return fma_rn(a, b, c);
}

struct word_lanes {
    using sum = __m256i;
    using operand = __m256i;
    static constexpr int width = 8;
    static constexpr int rows = 2;
    static constexpr bool biased = false;

    MAGICUBE_SIMD static sum zero() { return _mm256_setzero_si256(); }
    MAGICUBE_SIMD static operand load(const uint32_t* from) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    }
    MAGICUBE_SIMD static operand right(operand b) { return b; }
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm256_add_epi32(total, _mm256_madd_epi16(a, b));
    }
    MAGICUBE_SIMD static void store_four(uint32_t* to, const sum (&four)[4], uint32_t) {
        const sum parts = _mm256_hadd_epi32(_mm256_hadd_epi32(four[0], four[1]),
                                            _mm256_hadd_epi32(four[2], four[3]));
        const __m128i all =
            _mm_add_epi32(_mm256_castsi256_si128(parts), _mm256_extracti128_si256(parts, 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), all);
    }
};

struct high_lanes : word_lanes {
    MAGICUBE_SIMD static operand right(operand b) { return _mm256_srai_epi16(b, 8); }
};

struct low_lanes : word_lanes {
    MAGICUBE_SIMD static operand right(operand b) {
        return _mm256_and_si256(b, _mm256_set1_epi16(0xff));
    }
};

struct float_lanes {
    using sum = __m256;
    using operand = __m256;
    static constexpr int width = 8;
    static constexpr int rows = 2;
    static constexpr int vectors = 2;
    static constexpr bool biased = false;

    MAGICUBE_SIMD static sum zero() { return _mm256_setzero_ps(); }
    MAGICUBE_SIMD static operand load(const uint32_t* from) {
        return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
    }
    MAGICUBE_SIMD static operand right(operand b) { return b; }
    MAGICUBE_SIMD static sum spread(float value) { return _mm256_set1_ps(value); }
    MAGICUBE_SIMD static sum load_sum(const float* from) { return _mm256_loadu_ps(from); }
    MAGICUBE_SIMD static void store_sum(float* to, sum v) { _mm256_storeu_ps(to, v); }
    MAGICUBE_SIMD static sum larger(sum a, sum b) { return _mm256_max_ps(a, b); }
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm256_fmadd_ps(a, b, total);
    }
    MAGICUBE_SIMD static void store_four(uint32_t* to, const sum (&four)[4], uint32_t) {
        const sum parts =
            _mm256_hadd_ps(_mm256_hadd_ps(four[0], four[1]), _mm256_hadd_ps(four[2], four[3]));
        const __m128 all =
            _mm_add_ps(_mm256_castps256_ps128(parts), _mm256_extractf128_ps(parts, 1));
        _mm_storeu_ps(reinterpret_cast<float*>(to), all);
    }
};

MAGICUBE_SIMD void load_halves(const half* from, int64_t count, float* out) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(from[i]);
}

MAGICUBE_SIMD void store_halves(half* to, int64_t count, const float* x) {
    for (int64_t i = 0; i < count; ++i) to[i] = half(x[i]);
}

#include "core/ops/cpu/row_kernels.inc"

}  // namespace

const row_kernels avx2_rows = integer_kernels(nullptr);

}  // namespace magicube
#endif
