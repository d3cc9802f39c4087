// SPDX-License-Identifier: Apache-2.0
// What the select kernel does for a warp's 32 columns with the rows of a unit, by type of operands:
// fragments of B from shared memory, sparse MMAs, and where these leave the sums.
#pragma once

#include "core/device/cuda/ptx.cuh"
#include "core/ops/vnm_mm/cuda/sm80/select_format.hpp"

namespace magicube::vnm_mm::sm80 {

constexpr int warp_columns = 32;

// Rows of B in shared memory, `Pitch` bytes apart; 16-byte chunk c of row r lies at c ^ (r % 8), or
// where several rows share 128 bytes, at c ^ (their number % the chunks of a row).
template <int Pitch>
__device__ __forceinline__ uint32_t chunk_address(uint32_t rows, int row, int chunk) {
    constexpr int together = Pitch < 128 ? 128 / Pitch : 1;
    return rows + row * Pitch + ((chunk ^ (row & 7) / together) << 4);
}

// Types of 8 bits: a unit is one step of 64 rows. A chunk of 16 columns feeds two MMAs, the even
// columns and the odd ones.
template <class Sum>
struct byte_operands {
    using sum = Sum;
    static constexpr int element_bytes = 1;
    static constexpr int steps = 1;
    static constexpr int squares = 4;  // MMAs along the warp's columns

    __device__ static void load_values(uint32_t (&a)[4], uint32_t values, int, int lane) {
        const uint4 loaded = ptx::load_shared_v4(values + lane * 16);
        a[0] = loaded.x, a[1] = loaded.y, a[2] = loaded.z, a[3] = loaded.w;
    }
    template <int Pitch>
    __device__ static void load(uint32_t (&b)[squares][4], uint32_t rows, int, int column,
                                int lane) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint32_t r[4];
                ptx::load_matrices_transposed(
                    r, chunk_address<Pitch>(rows, half * 32 + lane, column / 16 + c));
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    b[2 * c][half * 2 + i] = __byte_perm(r[2 * i], r[2 * i + 1], 0x6420);
                    b[2 * c + 1][half * 2 + i] = __byte_perm(r[2 * i], r[2 * i + 1], 0x7531);
                }
            }
        }
    }
    // Lane g * 4 + t has the columns 4t .. 4t + 3 of a chunk, in rows g and g + 8.
    template <class Store>
    __device__ static void each_pair(const Sum (&acc)[squares][4], int lane, const Store& store) {
#pragma unroll
        for (int c = 0; c < squares; c += 2)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                store(i / 2 * 8 + lane / 4, c * 8 + lane % 4 * 4 + i % 2 * 2, acc[c][i],
                      acc[c + 1][i]);
    }
};

struct s8_operands : byte_operands<int32_t> {
    template <int>
    __device__ static void multiply(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                                    uint32_t metadata) {
        ptx::mma_sparse_s8(d, a, b, metadata);
    }
};

struct e4m3_operands : byte_operands<float> {
    template <int>
    __device__ static void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                                    uint32_t metadata) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
        ptx::mma_sparse_e4m3(d, a, b, metadata);
#endif
    }
};

// Types of 16 bits: a unit is two steps of 32 rows; the metadata of the first comes from lanes
// t = 0 and 1, of the second from t = 2 and 3.
struct half_operands {
    using sum = float;
    static constexpr int element_bytes = 2;
    static constexpr int steps = 2;
    static constexpr int squares = 4;

    __device__ static void load_values(uint32_t (&a)[4], uint32_t values, int step, int lane) {
        const int row = lane % 16;
        ptx::load_matrices(a, values + row * 64 + (((step * 2 + lane / 16) ^ (row / 2 % 4)) << 4));
    }
    template <int Pitch>
    __device__ static void load(uint32_t (&b)[squares][4], uint32_t rows, int step, int column,
                                int lane) {
#pragma unroll
        for (int c = 0; c < squares; ++c)
            ptx::load_matrices_transposed(
                b[c], chunk_address<Pitch>(rows, step * 32 + lane, column / 8 + c));
    }
    template <class Store>
    __device__ static void each_pair(const float (&acc)[squares][4], int lane, const Store& store) {
#pragma unroll
        for (int c = 0; c < squares; ++c)
#pragma unroll
            for (int i = 0; i < 4; i += 2)
                store(i / 2 * 8 + lane / 4, c * 8 + lane % 4 * 2, acc[c][i], acc[c][i + 1]);
    }
};

struct fp16_operands : half_operands {
    template <int Step>
    __device__ static void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                                    uint32_t metadata) {
        ptx::mma_sparse_fp16<Step>(d, a, b, metadata);
    }
};

struct bf16_operands : half_operands {
    template <int Step>
    __device__ static void multiply(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                                    uint32_t metadata) {
        ptx::mma_sparse_bf16<Step>(d, a, b, metadata);
    }
};

}  // namespace magicube::vnm_mm::sm80
