// SPDX-License-Identifier: Apache-2.0
// Row kernels with AVX-512 and its dot products of bytes and words (VNNI), which do not saturate.
#if defined(__x86_64__)
// GCC 12 warns of its own headers' deliberately undefined vectors.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/ops/cpu/row_kernels.hpp"
#include "core/ops/epilogue.hpp"

namespace magicube {
namespace {

#define MAGICUBE_SIMD \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

MAGICUBE_SIMD inline float multiply_add(float a, float b, float c) {
    return fma_rn(a, b, c);
}

struct integer_lanes {
    using sum = __m512i;
    using operand = __m512i;
    static constexpr int width = 16;
    static constexpr int rows = 4;
    static constexpr bool biased = false;

    MAGICUBE_SIMD static sum zero() { return _mm512_setzero_si512(); }
    MAGICUBE_SIMD static operand load(const uint32_t* from) { return _mm512_loadu_si512(from); }
    MAGICUBE_SIMD static operand right(operand b) { return b; }
    MAGICUBE_SIMD static void store_four(uint32_t* to, const sum (&four)[4], uint32_t subtrahend) {
        const sum low = _mm512_add_epi32(_mm512_unpacklo_epi32(four[0], four[1]),
                                         _mm512_unpackhi_epi32(four[0], four[1]));
        const sum high = _mm512_add_epi32(_mm512_unpacklo_epi32(four[2], four[3]),
                                          _mm512_unpackhi_epi32(four[2], four[3]));
        const sum parts =
            _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
        const __m256i halves =
            _mm256_add_epi32(_mm512_castsi512_si256(parts), _mm512_extracti64x4_epi64(parts, 1));
        const __m128i all =
            _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                         _mm_sub_epi32(all, _mm_set1_epi32(static_cast<int>(subtrahend))));
    }
};

// The instruction multiplies unsigned bytes by signed ones: 128 is added to those of b.
struct byte_lanes : integer_lanes {
    static constexpr bool biased = true;
    MAGICUBE_SIMD static operand right(operand b) {
        return _mm512_xor_si512(b, _mm512_set1_epi8(-128));
    }
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm512_dpbusd_epi32(total, b, a);
    }
};

struct word_lanes : integer_lanes {
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm512_dpwssd_epi32(total, a, b);
    }
};

struct high_lanes : word_lanes {
    MAGICUBE_SIMD static operand right(operand b) { return _mm512_srai_epi16(b, 8); }
};

struct low_lanes : word_lanes {
    MAGICUBE_SIMD static operand right(operand b) {
        return _mm512_and_si512(b, _mm512_set1_epi16(0xff));
    }
};

struct float_lanes {
    using sum = __m512;
    using operand = __m512;
    static constexpr int width = 16;
    static constexpr int rows = 4;
    static constexpr int vectors = 4;
    static constexpr bool biased = false;

    MAGICUBE_SIMD static sum zero() { return _mm512_setzero_ps(); }
    MAGICUBE_SIMD static operand load(const uint32_t* from) { return _mm512_loadu_ps(from); }
    MAGICUBE_SIMD static operand right(operand b) { return b; }
    MAGICUBE_SIMD static sum spread(float value) { return _mm512_set1_ps(value); }
    MAGICUBE_SIMD static sum load_sum(const float* from) { return _mm512_loadu_ps(from); }
    MAGICUBE_SIMD static void store_sum(float* to, sum v) { _mm512_storeu_ps(to, v); }
    MAGICUBE_SIMD static sum larger(sum a, sum b) { return _mm512_max_ps(a, b); }
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm512_fmadd_ps(a, b, total);
    }
    MAGICUBE_SIMD static void store_four(uint32_t* to, const sum (&four)[4], uint32_t) {
        const sum low = _mm512_add_ps(_mm512_unpacklo_ps(four[0], four[1]),
                                      _mm512_unpackhi_ps(four[0], four[1]));
        const sum high = _mm512_add_ps(_mm512_unpacklo_ps(four[2], four[3]),
                                       _mm512_unpackhi_ps(four[2], four[3]));
        const sum parts = _mm512_add_ps(_mm512_shuffle_ps(low, high, _MM_SHUFFLE(1, 0, 1, 0)),
                                        _mm512_shuffle_ps(low, high, _MM_SHUFFLE(3, 2, 3, 2)));
        const __m256 halves =
            _mm256_add_ps(_mm512_castps512_ps256(parts), _mm512_extractf32x8_ps(parts, 1));
        const __m128 all =
            _mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
        _mm_storeu_ps(reinterpret_cast<float*>(to), all);
    }
};

MAGICUBE_SIMD inline __mmask16 first_lanes(int64_t count) {
    return static_cast<__mmask16>(count < 16 ? (1U << count) - 1 : 0xffffU);
}

MAGICUBE_SIMD void load_halves(const half* from, int64_t count, float* out) {
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 some = first_lanes(count - i);
        _mm512_mask_storeu_ps(out + i, some,
                              _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(some, from + i)));
    }
}

// NaN becomes the one that half's constructor gives.
MAGICUBE_SIMD void store_halves(half* to, int64_t count, const float* x) {
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 some = first_lanes(count - i);
        const __m512 v = _mm512_maskz_loadu_ps(some, x + i);
        const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        const __m256i bits = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_mask_storeu_epi16(to + i, some,
                                 _mm256_mask_mov_epi16(bits, nan, _mm256_set1_epi16(0x7fff)));
    }
}

#include "core/ops/cpu/row_kernels.inc"

}  // namespace

const row_kernels avx512_vnni_rows = integer_kernels(dots<byte_lanes>);

}  // namespace magicube
#endif
