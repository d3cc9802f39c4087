// SPDX-License-Identifier: Apache-2.0
// cpu_simd with AVX2 and FMA. Bytes are computed as words: vpmaddubsw would saturate.
#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "core/ops/spmm/cpu/simd_kernels.hpp"

namespace magicube::spmm::cpu {
namespace {

#define MAGICUBE_SIMD __attribute__((target("avx2,fma")))

MAGICUBE_SIMD inline __m256i load_vector(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}

MAGICUBE_SIMD inline void store_vector(void* to, __m256i v) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), v);
}

template <class Lanes, int64_t Cols>
MAGICUBE_SIMD inline void load_word_rows(const char* b, const int32_t* cols, int64_t slots,
                                         typename Lanes::operand* group);
template <class Lanes, int64_t Cols>
MAGICUBE_SIMD inline void load_float_row(const char* b, const int32_t* cols, int64_t slots,
                                         typename Lanes::operand* group);

struct word_lanes {
    using sum = __m256i;
    using operand = __m256i;
    static constexpr int width = 8;
    static constexpr int vectors = 2;

    MAGICUBE_SIMD static sum load_sum(const uint32_t* from) { return load_vector(from); }
    MAGICUBE_SIMD static void store_sum(uint32_t* to, sum v) { store_vector(to, v); }
    MAGICUBE_SIMD static sum add(sum a, sum b) { return _mm256_add_epi32(a, b); }
    MAGICUBE_SIMD static operand load(const uint32_t* from) { return load_vector(from); }
    MAGICUBE_SIMD static void store(uint32_t* to, operand v) { store_vector(to, v); }
    MAGICUBE_SIMD static operand spread(uint32_t bits) {
        return _mm256_set1_epi32(static_cast<int>(bits));
    }
    MAGICUBE_SIMD static sum start(uint32_t bits) { return spread(bits); }
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm256_add_epi32(total, _mm256_madd_epi16(a, b));
    }
    MAGICUBE_SIMD static operand low_words(operand a, operand b) {
        return _mm256_unpacklo_epi16(a, b);
    }
    MAGICUBE_SIMD static operand high_words(operand a, operand b) {
        return _mm256_unpackhi_epi16(a, b);
    }
    template <int64_t Cols>
    MAGICUBE_SIMD static void load_group(const char* b, const int32_t* cols, int64_t slots,
                                         operand* group) {
        load_word_rows<word_lanes, Cols>(b, cols, slots, group);
    }
};

struct float_lanes {
    using sum = __m256;
    using operand = __m256;
    static constexpr int width = 8;
    static constexpr int vectors = 2;

    MAGICUBE_SIMD static sum load_sum(const uint32_t* from) {
        return _mm256_castsi256_ps(load_vector(from));
    }
    MAGICUBE_SIMD static void store_sum(uint32_t* to, sum v) {
        store_vector(to, _mm256_castps_si256(v));
    }
    MAGICUBE_SIMD static sum add(sum a, sum b) { return _mm256_add_ps(a, b); }
    MAGICUBE_SIMD static operand load(const uint32_t* from) { return load_sum(from); }
    MAGICUBE_SIMD static void store(uint32_t* to, operand v) { store_sum(to, v); }
    MAGICUBE_SIMD static operand spread(uint32_t bits) {
        return _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(bits)));
    }
    MAGICUBE_SIMD static sum start(uint32_t bits) { return spread(bits); }
    MAGICUBE_SIMD static sum accumulate(sum total, operand a, operand b) {
        return _mm256_fmadd_ps(a, b, total);
    }
    template <int64_t Cols>
    MAGICUBE_SIMD static void load_group(const char* b, const int32_t* cols, int64_t slots,
                                         operand* group) {
        load_float_row<float_lanes, Cols>(b, cols, slots, group);
    }
};

// 16 vectors hold the sums of one row of a wide tile.
#define MAGICUBE_DIRECT(lanes, cols, kind) multiply_direct<lanes, cols, kind, 1>, nullptr
#include "core/ops/spmm/cpu/simd_kernels.inc"

// Unpacking takes halves of each 16-byte lane: neighbours of the result lie two pieces apart.
template <int64_t Cols>
constexpr product_kernels words = {{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15},
                                   gather<word_lanes, Cols, lane_kind::words>,
                                   multiply_rows<word_lanes, Cols>,
                                   {MAGICUBE_DIRECT(word_lanes, Cols, lane_kind::words)}};
#undef MAGICUBE_DIRECT

template <int64_t Cols>
constexpr tile_kernels tiles = {
    Cols, nullptr, nullptr, &words<Cols>, &floats<Cols>, &kept_floats<Cols>, select_finish<Cols>};

}  // namespace

const simd_kernels avx2_kernels = {"AVX2", tiles<wide_tile>, tiles<narrow_tile>};

}  // namespace magicube::spmm::cpu
#endif
