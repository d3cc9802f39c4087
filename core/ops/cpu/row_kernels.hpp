// SPDX-License-Identifier: Apache-2.0
// Arithmetic on rows of numbers that SDDMM, softmax and attention are made of on the CPU, one set
// for each level of instructions that a processor may have. The sets agree to the bit in integers
// and conversions, and within rounding errors in sums of floats.
#pragma once

#include <cstdint>

#include "core/common/simd_level.hpp"
#include "core/types/dtype.hpp"

namespace magicube {

// Rows of dot products are whole groups of this many bytes, rows of floats of this many numbers.
constexpr int64_t row_group_bytes = 64;
constexpr int64_t row_group_floats = 16;

// Rows that the kernels may be given at once: the largest vector length.
constexpr int64_t most_rows = 64;

// Rows of one operand of dot products: row i starts i * pitch units of four bytes from the first.
struct dot_rows {
    const uint32_t* first;
    int64_t pitch;
};

// sums[r * sums_pitch + s] = the first `units` units of a's row r times those of b's row cols[s].
// It writes whole groups of four sums. 32-bit integers, modulo 2^32, or floats.
using dots_function = void (*)(const dot_rows& a, int64_t rows, const dot_rows& b,
                               const int32_t* cols, int64_t count, int64_t units, uint32_t* sums,
                               int64_t sums_pitch);

struct row_kernels {
    dots_function byte_dots;  // of int8; null: bytes are computed as words
    dots_function word_dots;  // of int16
    dots_function high_dots;  // of int16 and the other's high byte, signed
    dots_function low_dots;   // of int16 and the other's low byte, unsigned
    dots_function float_dots;

    // sums[r][d] = weights[r][s] * b[cols[s]][d], added up over s in ascending order; pitches are
    // elements between rows, width is whole groups.
    void (*weighted_sums)(const float* weights, int64_t weight_pitch, int64_t rows, const float* b,
                          const int32_t* cols, int64_t count, int64_t width, float* sums);

    // The largest of whole groups; NaN if one of them is NaN or +infinity.
    float (*largest)(const float* x, int64_t count);
    // x becomes exp(x - largest), within 1.5 units in the last place; returns their sum. x is at
    // most `largest`, which is finite.
    double (*exponentials)(float* x, int64_t count, float largest);

    // x[i] = fma(factor * factors[i], x[i], addends[i]) * after; null: 1 and +0.
    void (*scale)(float* x, int64_t count, float factor, const float* factors, const float* addends,
                  float after);

    // Elements first, first + 1 ... of any type but int4, as floats; int32 is rounded.
    void (*load)(dtype type, const void* array, int64_t first, int64_t count, float* out);
    // Rounds, saturates and stores to elements first, first + step ... of any type but int32.
    void (*store)(dtype type, void* array, int64_t first, int64_t step, int64_t count,
                  const float* x);
};

extern const row_kernels portable_rows;
#if defined(__x86_64__)
extern const row_kernels avx2_rows;
extern const row_kernels avx512_vnni_rows;
#endif

const row_kernels& rows_of(simd_level level);

}  // namespace magicube
