// SPDX-License-Identifier: Apache-2.0
// The matrix instructions of a warp, on registers as the PTX manual lays them out.
#pragma once

#include <cstdint>

#include "emulation/device.hpp"

namespace emulated {

enum class number { s4, u4, s8, u8, e4m3, e5m2, f16, bf16, tf32 };

// ldmatrix: `count` (1, 2 or 4) 8x8 matrices of 16-bit elements; lane l's address is that of row
// l % 8 of matrix l / 8.
void load_matrices(uint32_t* registers, int count, bool transposed, uint32_t address, site at);
// stmatrix
void store_matrices(const uint32_t* registers, int count, bool transposed, uint32_t address,
                    site at);
// movmatrix
uint32_t transpose_matrix(uint32_t fragment, site at);

// mma.m16n8, k of `halves` times 128 bits of a row (2: m16n8k16 of f16, m16n8k32 of s8, m16n8k64
// of s4, m16n8k8 of tf32; 1: half as deep). a has 2 * halves registers, b `halves`.
void multiply(number a_type, number b_type, int halves, int32_t* d, const uint32_t* a,
              const uint32_t* b, site at);
void multiply(number a_type, number b_type, int halves, float* d, const uint32_t* a,
              const uint32_t* b, site at);

// mma.sp::ordered_metadata with a structured by 2:4: a has 4 registers, b 4 (m16n8k32 of f16 and
// bf16, m16n8k64 of bytes).
void multiply_sparse(number a_type, number b_type, int32_t* d, const uint32_t* a, const uint32_t* b,
                     uint32_t metadata, int selector, site at);
void multiply_sparse(number a_type, number b_type, float* d, const uint32_t* a, const uint32_t* b,
                     uint32_t metadata, int selector, site at);

}  // namespace emulated
