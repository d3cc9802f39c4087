// SPDX-License-Identifier: Apache-2.0
// The two products of attention for one step: 32 gathered keys and 8 queries, by the type of Q, K
// and V.
//
// Scores: the keys are the MMA's A, the queries its B; lane (g, t) gets keys g and g + 8 of each
// 16, queries 2t and 2t + 1. Probabilities, in that place, become the B of the second MMA by one
// transposition of 8 x 8 a half of 16 keys; rows of V are its A.
#pragma once

#include "core/device/cuda/ptx.cuh"
#include "core/ops/attention/cuda/sm90/slab_launch.hpp"
#include "core/ops/spmm/cuda/columns.cuh"
#include "core/ops/spmm/cuda/sm90/slab_operands.cuh"

namespace magicube::attention::sm90 {

using spmm::sm90::ring_view;
using spmm::sm90::step_slots;

// int8: probabilities are integers from 0 to 255, the sums exact.
template <int Dim>
struct integer_math : spmm::cuda::paired_columns {
    static constexpr bool integers = true;
    static constexpr int dim = Dim, row_bytes = Dim, chunks = Dim / 16, tiles = Dim / 16;
    static constexpr int query_words = Dim / 16;  // of a lane
    // A probability of 1 relative to the reference. With scores up to half a bit above the
    // reference it stays below 255.
    static constexpr float unit_log2 = 7.4918531f;  // 180
    static constexpr float slack = 0.5f;
    using sum = int32_t;
    using rows = int;

    // Where a step's keys lie.
    static __device__ __forceinline__ rows load_rows(uint32_t list, int lane) {
        return ptx::load_shared_s16(list + lane * 2);
    }

    // Dot products times key_scale; the float that the sums start from is taken off by the same
    // fma, which leaves less than one integer's error.
    static __device__ __forceinline__ void scores(float (&s)[2][4], const ring_view& keys, rows row,
                                                  const float (&key_scale)[4],
                                                  const uint32_t (&q)[query_words]) {
        const uint32_t base = keys.address<true>(row);
        int32_t acc[2][4];
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[i / 4][i % 4] = __float_as_int(ptx::float_of_integers);
#pragma unroll
        for (int c = 0; c < chunks; c += 2) {
            uint32_t low[4], high[4];
            ptx::load_matrices(low, base ^ (c * 16));
            ptx::load_matrices(high, base ^ ((c + 1) * 16));
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const uint32_t a[4] = {low[2 * e], low[2 * e + 1], high[2 * e], high[2 * e + 1]};
                ptx::mma_s8_s8(acc[e], a, q[c], q[c + 1]);
            }
        }
#pragma unroll
        for (int i = 0; i < 8; ++i)
            s[i / 4][i % 4] = fma_rn(__int_as_float(acc[i / 4][i % 4]), key_scale[i / 2],
                                     -ptx::float_of_integers * key_scale[i / 2]);
    }

    // The exponentials of one half of 16 keys, for queries 2t and 2t + 1 and keys g and g + 8.
    static __device__ __forceinline__ void pack(const float (&e)[4], uint32_t (&p)[2], int half) {
        uint32_t bits[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) bits[i] = __float_as_uint(e[i] + ptx::float_of_integers);
        p[half] = ptx::transpose_matrix(__byte_perm(__byte_perm(bits[0], bits[2], 0x0040),
                                                    __byte_perm(bits[1], bits[3], 0x0040), 0x5410));
    }

    template <int Words>
    static __device__ __forceinline__ void accumulate(sum (&o)[tiles][4], sum (&total)[4],
                                                      const ring_view& keys, rows row,
                                                      uint32_t values_ahead,
                                                      const uint32_t (&p)[Words]) {
        const uint32_t base = keys.address<true>(row) + values_ahead;
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            uint32_t v[4];
            ptx::load_matrices_transposed(v, base ^ (c * 16));
            const uint32_t a[4] = {__byte_perm(v[0], v[1], 0x6240), __byte_perm(v[0], v[1], 0x7351),
                                   __byte_perm(v[2], v[3], 0x6240),
                                   __byte_perm(v[2], v[3], 0x7351)};
            ptx::mma_s8_u8(o[c], a, p[0], p[1]);
        }
        // What the sums add up is what the products saw.
        constexpr uint32_t ones[4] = {0x01010101u, 0x01010101u, 0x01010101u, 0x01010101u};
        ptx::mma_s8_u8(total, ones, p[0], p[1]);
    }
    static __device__ __forceinline__ sum scaled(sum x, float factor) {
        return __float2int_rn(__int2float_rn(x) * factor);
    }
};

// fp16 and bf16: probabilities are rounded to the type, the sums are fp32.
template <bool Bf16>
struct half_math : spmm::cuda::exchanged_columns {
    static constexpr bool integers = false;
    static constexpr int dim = 64, row_bytes = 128, tiles = 4;
    static constexpr int query_words = 8;
    static constexpr float unit_log2 = 0.0f;
    static constexpr float slack = 1.0f;
    using operands = spmm::sm90::half_operands<Bf16>;
    using sum = float;
    using rows = typename operands::rows;

    static __device__ __forceinline__ rows load_rows(uint32_t list, int lane) {
        return operands::load_rows(list, lane);
    }
    // Of 16 keys; odd matrices hold the 8 elements further.
    static __device__ __forceinline__ uint32_t base_of(const ring_view& keys, int row) {
        return keys.address<true>(row) ^ ((threadIdx.x & 8) << 1);
    }

    static __device__ __forceinline__ void scores(float (&s)[2][4], const ring_view& keys, rows row,
                                                  const float (&)[4],
                                                  const uint32_t (&q)[query_words]) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const uint32_t base = base_of(keys, h == 0 ? row.x : row.y);
#pragma unroll
            for (int i = 0; i < 4; ++i) s[h][i] = 0;
#pragma unroll
            for (int c = 0; c < tiles; ++c) {
                uint32_t k[4];
                ptx::load_matrices(k, base ^ (c * 32));
                const uint32_t a[4] = {k[0], k[2], k[1], k[3]};
                operands::multiply(s[h], a, q[2 * c], q[2 * c + 1]);
            }
        }
    }

    static __device__ __forceinline__ void pack(const float (&e)[4], uint32_t (&p)[4], int half) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            p[2 * half + i] = ptx::transpose_matrix(Bf16 ? ptx::pack_bf16(e[2 * i], e[2 * i + 1])
                                                         : ptx::pack_fp16(e[2 * i], e[2 * i + 1]));
    }

    static __device__ __forceinline__ void accumulate(sum (&o)[tiles][4], sum (&)[4],
                                                      const ring_view& keys, rows row,
                                                      uint32_t values_ahead,
                                                      const uint32_t (&p)[4]) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const uint32_t base = base_of(keys, h == 0 ? row.x : row.y) + values_ahead;
#pragma unroll
            for (int c = 0; c < tiles; ++c) {
                uint32_t a[4];
                ptx::load_matrices_transposed(a, base ^ (c * 32));
                operands::multiply(o[c], a, p[2 * h], p[2 * h + 1]);
            }
        }
    }
    static __device__ __forceinline__ sum scaled(sum x, float factor) {
        return x * factor;
    }
};

}  // namespace magicube::attention::sm90
