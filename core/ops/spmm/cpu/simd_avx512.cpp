// SPDX-License-Identifier: Apache-2.0
// cpu_simd with AVX-512 and its dot products of bytes and words (VNNI), which do not saturate.
#if defined(__x86_64__)
// GCC 12 warns of its own headers' deliberately undefined vectors.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "core/ops/spmm/cpu/simd_kernels.hpp"

namespace magicube::spmm::cpu {
namespace {

#define MAGICUBE_SIMD \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

MAGICUBE_SIMD inline __m512i load_vector(const void* from) {
    return _mm512_loadu_si512(from);
}

MAGICUBE_SIMD inline __m128i load_short(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

// 16 words, each in 32 bits.
MAGICUBE_SIMD inline __m512i widen_words(const void* from) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
}

template <class Lanes, int64_t Cols>
MAGICUBE_SIMD inline void load_word_rows(const char* b, const int32_t* cols, int64_t slots,
                                         typename Lanes::operand* group);
template <class Lanes, int64_t Cols>
MAGICUBE_SIMD inline void load_float_row(const char* b, const int32_t* cols, int64_t slots,
                                         typename Lanes::operand* group);

// Four rows of 64 bytes: lanes of the result are a byte of each.
MAGICUBE_SIMD inline void interleave_bytes(const char* const (&rows)[4], __m512i* group) {
    const __m512i row0 = load_vector(rows[0]), row1 = load_vector(rows[1]);
    const __m512i row2 = load_vector(rows[2]), row3 = load_vector(rows[3]);
    const __m512i low01 = _mm512_unpacklo_epi8(row0, row1);
    const __m512i high01 = _mm512_unpackhi_epi8(row0, row1);
    const __m512i low23 = _mm512_unpacklo_epi8(row2, row3);
    const __m512i high23 = _mm512_unpackhi_epi8(row2, row3);
    group[0] = _mm512_unpacklo_epi16(low01, low23);
    group[1] = _mm512_unpackhi_epi16(low01, low23);
    group[2] = _mm512_unpacklo_epi16(high01, high23);
    group[3] = _mm512_unpackhi_epi16(high01, high23);
}

// Rows of a whole tile of bytes as they are packed, the bits of Flip turned over.
template <int64_t Cols, int Flip>
MAGICUBE_SIMD void copy_rows(const char* b, int64_t step, int64_t rows, char* target) {
    for (int64_t r = 0; r < rows; ++r, b += step, target += Cols) {
        if constexpr (Cols == narrow_tile) {
            const __m128i row =
                _mm_xor_si128(load_short(b), _mm_set1_epi8(static_cast<char>(Flip)));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(target), row);
        } else {
            const __m512i dealt = _mm512_permutexvar_epi32(
                _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
                load_vector(b));
            _mm512_storeu_si512(target,
                                _mm512_xor_si512(dealt, _mm512_set1_epi8(static_cast<char>(Flip))));
        }
    }
}

// Four rows of 16 bytes.
MAGICUBE_SIMD inline __m512i interleave_short(const char* const (&rows)[4]) {
    // A row in each part; then its pieces of four bytes are dealt out, and turned.
    __m512i all = _mm512_castsi128_si512(load_short(rows[0]));
    all = _mm512_inserti32x4(all, load_short(rows[1]), 1);
    all = _mm512_inserti32x4(all, load_short(rows[2]), 2);
    all = _mm512_inserti32x4(all, load_short(rows[3]), 3);
    const __m512i dealt = _mm512_permutexvar_epi32(
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), all);
    return _mm512_shuffle_epi8(dealt, _mm512_broadcast_i32x4(_mm_setr_epi8(
                                          0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)));
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
    MAGICUBE_SIMD static void store(uint32_t* to, operand v) { store_sum(to, v); }
    MAGICUBE_SIMD static operand spread(uint32_t bits) {
        return _mm512_set1_epi32(static_cast<int>(bits));
    }
    MAGICUBE_SIMD static sum start(uint32_t bits) { return spread(bits); }
};

struct byte_lanes : integer_lanes {
    template <int64_t Cols>
    MAGICUBE_SIMD static void load_group(const char* b, const int32_t* cols, int64_t slots,
                                         operand* group) {
        const char* const rows[] = {b + cols[0] * Cols, b + cols[slots > 1 ? 1 : 0] * Cols,
                                    b + cols[slots > 2 ? 2 : 0] * Cols,
                                    b + cols[slots > 3 ? 3 : 0] * Cols};
        if constexpr (Cols == narrow_tile) {
            group[0] = interleave_short(rows);
        } else {
            interleave_bytes(rows, group);
        }
    }
};

struct signed_byte_lanes : byte_lanes {
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm512_dpbusd_epi32(total, b, a);
    }
};

struct unsigned_byte_lanes : byte_lanes {
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
    template <int64_t Cols>
    MAGICUBE_SIMD static void load_group(const char* b, const int32_t* cols, int64_t slots,
                                         operand* group) {
        if constexpr (Cols == narrow_tile) {
            // A row is half a vector: words of both are spread over 32 bits each, and joined.
            const __m512i even = widen_words(b + cols[0] * Cols * 2);
            const __m512i odd = widen_words(b + cols[slots > 1 ? 1 : 0] * Cols * 2);
            group[0] = _mm512_or_si512(even, _mm512_slli_epi32(odd, 16));
        } else {
            load_word_rows<word_lanes, Cols>(b, cols, slots, group);
        }
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
    MAGICUBE_SIMD static void store(uint32_t* to, operand v) { store_sum(to, v); }
    MAGICUBE_SIMD static operand spread(uint32_t bits) {
        return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(bits)));
    }
    MAGICUBE_SIMD static sum start(uint32_t bits) { return spread(bits); }
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm512_fmadd_ps(a, b, total);
    }
    template <int64_t Cols>
    MAGICUBE_SIMD static void load_group(const char* b, const int32_t* cols, int64_t slots,
                                         operand* group) {
        load_float_row<float_lanes, Cols>(b, cols, slots, group);
    }
};

#define MAGICUBE_DIRECT(lanes, cols, kind) \
    multiply_direct<lanes, cols, kind, 1>, multiply_direct<lanes, cols, kind, 2>
#include "core/ops/spmm/cpu/simd_amx.inc"
#include "core/ops/spmm/cpu/simd_kernels.inc"

template <class Lanes, int64_t Cols, lane_kind Kind>
constexpr product_kernels products(const uint8_t (&order)[wide_tile / piece_cols]) {
    product_kernels made{{},
                         gather<Lanes, Cols, Kind>,
                         multiply_rows<Lanes, Cols>,
                         {MAGICUBE_DIRECT(Lanes, Cols, Kind)}};
    // A narrow tile's rows are interleaved across the whole vector.
    for (uint8_t i = 0; i < wide_tile / piece_cols; ++i)
        made.piece_order[i] = Cols == narrow_tile ? i : order[i];
    if (Kind == lane_kind::biased_bytes) made.copy_rows = copy_rows<Cols, 0x80>;
    if (Kind == lane_kind::bytes) made.copy_rows = copy_rows<Cols, 0>;
    return made;
}
#undef MAGICUBE_DIRECT

template <int64_t Cols, bool SignedA>
constexpr product_kernels matrix_products(const uint8_t (&order)[wide_tile / piece_cols]) {
    auto made = products<unsigned_byte_lanes, Cols, lane_kind::bytes>(order);
    made.multiply_matrix = multiply_matrix<Cols, SignedA>;
    made.enter = enter_matrix;
    made.leave = leave_matrix;
    return made;
}

// Unpacking takes parts of each 16-byte lane: neighbours of the result lie four pieces apart.
constexpr uint8_t byte_order[] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
constexpr uint8_t word_order[] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
template <int64_t Cols>
constexpr auto signed_bytes =
    products<signed_byte_lanes, Cols, lane_kind::biased_bytes>(byte_order);
template <int64_t Cols>
constexpr auto unsigned_bytes = products<unsigned_byte_lanes, Cols, lane_kind::bytes>(byte_order);
template <int64_t Cols>
constexpr auto words = products<word_lanes, Cols, lane_kind::words>(word_order);

template <int64_t Cols>
constexpr tile_kernels tiles = {
    Cols,          &signed_bytes<Cols>, &unsigned_bytes<Cols>, &words<Cols>,
    &floats<Cols>, &kept_floats<Cols>,  select_finish<Cols>};

template <int64_t Cols>
constexpr auto signed_matrix = matrix_products<Cols, true>(byte_order);
template <int64_t Cols>
constexpr auto unsigned_matrix = matrix_products<Cols, false>(byte_order);

template <int64_t Cols>
constexpr tile_kernels with_matrix() {
    auto made = tiles<Cols>;
    made.signed_matrix = &signed_matrix<Cols>;
    made.unsigned_matrix = &unsigned_matrix<Cols>;
    return made;
}

}  // namespace

const simd_kernels amx_int8_kernels = {"AMX int8", with_matrix<wide_tile>(),
                                       with_matrix<narrow_tile>()};
const simd_kernels avx512_vnni_kernels = {"AVX-512 VNNI", tiles<wide_tile>, tiles<narrow_tile>};

}  // namespace magicube::spmm::cpu
#endif
