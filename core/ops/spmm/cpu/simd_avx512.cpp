// SPDX-License-Identifier: Apache-2.0
// cpu_simd with AVX-512 and its dot products of bytes and words (VNNI), which do not saturate.
#if defined(__x86_64__)
#include <immintrin.h>

#include <type_traits>

#include "core/ops/spmm/cpu/simd_kernels.hpp"

namespace magicube::spmm::cpu {
namespace {

#define MAGICUBE_SIMD \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

MAGICUBE_SIMD inline __m512i load_vector(const void* from) {
    return _mm512_loadu_si512(from);
}

struct integer_lanes {
    using sum = __m512i;
    using operand = __m512i;
    static constexpr int width = 16;
    static constexpr int vectors = 4;

    MAGICUBE_SIMD static sum load_sum(const uint32_t* from) { return load_vector(from); }
    MAGICUBE_SIMD static void store_sum(uint32_t* to, sum v) { _mm512_storeu_si512(to, v); }
    MAGICUBE_SIMD static sum add(sum a, sum b) { return _mm512_add_epi32(a, b); }
    MAGICUBE_SIMD static operand load(const uint32_t* from) { return load_vector(from); }
    MAGICUBE_SIMD static operand spread(uint32_t bits) {
        return _mm512_set1_epi32(static_cast<int>(bits));
    }
    MAGICUBE_SIMD static sum start(uint32_t bits) { return spread(bits); }
};

struct signed_byte_lanes : integer_lanes {
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm512_dpbusd_epi32(total, b, a);
    }
};

struct unsigned_byte_lanes : integer_lanes {
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm512_dpbusd_epi32(total, a, b);
    }
};

struct word_lanes : integer_lanes {
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm512_dpwssd_epi32(total, a, b);
    }
    MAGICUBE_SIMD static operand low_words(operand a, operand b) {
        return _mm512_unpacklo_epi16(a, b);
    }
    MAGICUBE_SIMD static operand high_words(operand a, operand b) {
        return _mm512_unpackhi_epi16(a, b);
    }
};

struct float_lanes {
    using sum = __m512;
    using operand = __m512;
    static constexpr int width = 16;
    static constexpr int vectors = 4;

    MAGICUBE_SIMD static sum load_sum(const uint32_t* from) { return _mm512_loadu_ps(from); }
    MAGICUBE_SIMD static void store_sum(uint32_t* to, sum v) { _mm512_storeu_ps(to, v); }
    MAGICUBE_SIMD static sum add(sum a, sum b) { return _mm512_add_ps(a, b); }
    MAGICUBE_SIMD static operand load(const uint32_t* from) { return load_sum(from); }
    MAGICUBE_SIMD static operand spread(uint32_t bits) {
        return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(bits)));
    }
    MAGICUBE_SIMD static sum start(uint32_t bits) { return spread(bits); }
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm512_fmadd_ps(a, b, total);
    }
};

MAGICUBE_SIMD void gather_bytes(const char* b, const int32_t* cols, int64_t slots,
                                uint32_t* panel) {
    for (int64_t slot = 0; slot < slots; slot += 4, panel += tile_cols) {
        __m512i row[4];
        for (int64_t i = 0; i < 4; ++i) {
            // Past the end any row does: A has zeros there.
            const int64_t at = slot + i < slots ? slot + i : slot;
            row[i] = load_vector(b + cols[at] * tile_cols);
        }
        const __m512i low01 = _mm512_unpacklo_epi8(row[0], row[1]);
        const __m512i high01 = _mm512_unpackhi_epi8(row[0], row[1]);
        const __m512i low23 = _mm512_unpacklo_epi8(row[2], row[3]);
        const __m512i high23 = _mm512_unpackhi_epi8(row[2], row[3]);
        _mm512_storeu_si512(panel, _mm512_unpacklo_epi16(low01, low23));
        _mm512_storeu_si512(panel + 16, _mm512_unpackhi_epi16(low01, low23));
        _mm512_storeu_si512(panel + 32, _mm512_unpacklo_epi16(high01, high23));
        _mm512_storeu_si512(panel + 48, _mm512_unpackhi_epi16(high01, high23));
    }
}

#include "core/ops/spmm/cpu/simd_kernels.inc"

// Unpacking takes parts of each 16-byte lane: neighbours of the result lie four pieces apart.
#define MAGICUBE_BYTE_ORDER \
    { 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15 }
constexpr product_kernels signed_bytes = {MAGICUBE_BYTE_ORDER, gather_bytes,
                                          multiply_rows<signed_byte_lanes>};
constexpr product_kernels unsigned_bytes = {MAGICUBE_BYTE_ORDER, gather_bytes,
                                            multiply_rows<unsigned_byte_lanes>};
#undef MAGICUBE_BYTE_ORDER
constexpr product_kernels words = {{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15},
                                   gather_words_by<word_lanes>,
                                   multiply_rows<word_lanes>};

}  // namespace

const simd_kernels avx512_vnni_kernels = {"AVX-512 VNNI", &signed_bytes, &unsigned_bytes,
                                          &words,         &floats,       select_finish};

}  // namespace magicube::spmm::cpu
#endif
