// SPDX-License-Identifier: Apache-2.0
// The inner loops of KroneckerMM's cpu_simd, one set for each level of instructions that a
// processor may have. All compute in fp32.
#pragma once

#include <cstdint>

#include "core/common/simd_level.hpp"
#include "core/ops/epilogue.hpp"
#include "core/types/view.hpp"

namespace magicube::kronecker_mm::cpu {

constexpr int64_t tile_lanes = 64;  // sums of a row
constexpr int64_t block_rows = 6;   // rows whose sums stay in registers

// sums[r][lane] = sum over k < terms of panel[k][lane] * x, where x is
//     rows[r][k]                            if the period is 1
//     rows[r][k * k_step + lane % period]   if lanes repeat with the period
struct block_product {
    const float* panel = nullptr;
    int64_t panel_step = tile_lanes;  // between k's
    const float* rows = nullptr;
    int64_t row_step = 0;
    int64_t k_step = 1;
    int64_t terms = 0;
    int64_t offset = 0;  // of lane 0 in the period, where that is longer than a vector
    int64_t period = 1;
    float* sums = nullptr;
    int64_t sums_step = tile_lanes;
};

using multiply_function = void (*)(const block_product&, int64_t rows);

// What follows the sums of a row: y = act(scale * sum + (beta * y + bias)) * reciprocal.
struct row_finish {
    const float* scale = nullptr;  // tile_lanes
    const float* bias = nullptr;
    float beta = 0;
    activation function = activation::none;
    float reciprocal = 1;
};

// Elements of `array`, `count` of them from `index` on, `step` apart.
struct strided_run {
    void* array;
    int64_t index;
    int64_t step;
    int64_t count;
};

using finish_function = void (*)(const row_finish&, const float* sums, const strided_run& y);
// Fills tile_lanes floats, zeros after the last element.
using load_function = void (*)(const strided_run& x, float* out);

struct simd_kernels {
    const char* name;
    int64_t width;  // floats of a vector
    // Lanes that all get one number, and lanes that repeat with a period: 1, 2, 4, ... up to the
    // width, or a multiple of the width. Null for another period.
    multiply_function (*select_multiply)(int64_t period);
    finish_function (*select_finish)(dtype y_type);
    load_function (*select_load)(dtype x_type);
};

extern const simd_kernels portable_kernels;
#if defined(__x86_64__)
extern const simd_kernels avx2_kernels;
extern const simd_kernels avx512_kernels;
#endif

const simd_kernels& kernels_of(simd_level level);

}  // namespace magicube::kronecker_mm::cpu
