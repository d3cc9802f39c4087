// SPDX-License-Identifier: Apache-2.0
// How the stream kernel takes a record's values and row numbers and multiplies them with gathered
// rows of B, by the kind of its operands. Fragments: the rows of B are the MMA's A (columns of B x
// gathered rows), the values its B (gathered rows x 8 rows of A).
#pragma once

#include <type_traits>

#include "core/ops/spmm/cuda/columns.cuh"
#include "core/ops/spmm/cuda/stream/stream_rows.cuh"

namespace magicube::spmm::stream {

__device__ __forceinline__ void load_four(uint32_t* words, uint32_t address) {
    const uint4 v = ptx::load_shared_v4(address);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
}

// One byte an element of B: an ldmatrix brings 16 columns of 32 gathered rows, and one prmt a
// register finishes the transposition.
template <operand_kind Kind>
struct byte_operands : cuda::paired_columns {
    static constexpr int planes = planes_of(Kind);
    using element = uint8_t;
    using accumulator = std::conditional_t<Kind == operand_kind::e4m3, float, int32_t>;
    struct record {
        uint32_t v[Kind == operand_kind::s4 ? 2 : 4 * planes];
        uint32_t rows;
    };

    static __device__ __forceinline__ void load(record& r, uint32_t slot, int lane) {
        if constexpr (Kind == operand_kind::s4) {
            const uint2 v = ptx::load_shared_v2(slot + lane * 8);
            r.v[0] = v.x, r.v[1] = v.y;
        } else {
#pragma unroll
            for (int p = 0; p < planes; ++p) load_four(r.v + 4 * p, slot + p * 512 + lane * 16);
        }
        r.rows = ptx::load_shared_u32(slot + record_value_bytes(Kind) + lane * 4);
    }

    static __device__ __forceinline__ void multiply(accumulator (&d)[planes][4],
                                                    const uint32_t (&a)[4], const record& r,
                                                    int half) {
        if constexpr (Kind == operand_kind::s4) {
            // Nibbles as the high ones of bytes: 16 times the value.
            const uint32_t v = r.v[half];
            ptx::mma_s8_s8(d[0], a, v << 4 & 0xf0f0f0f0, v & 0xf0f0f0f0);
        } else if constexpr (Kind == operand_kind::e4m3) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
            ptx::mma_e4m3(d[0], a, r.v[2 * half], r.v[2 * half + 1]);
#endif
        } else if constexpr (Kind == operand_kind::u8) {
            ptx::mma_s8_u8(d[0], a, r.v[2 * half], r.v[2 * half + 1]);
        } else {
            ptx::mma_s8_s8(d[0], a, r.v[2 * half], r.v[2 * half + 1]);
        }
        if constexpr (planes == 2)
            ptx::mma_s8_u8(d[1], a, r.v[4 + 2 * half], r.v[4 + 2 * half + 1]);
    }

    template <int Chunks>
    static __device__ __forceinline__ void step(accumulator (&acc)[Chunks][planes][4],
                                                uint32_t rows, const record& r) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = static_cast<int>(half == 0 ? r.rows & 0xffff : r.rows >> 16);
            uint32_t q[Chunks][4];
#pragma unroll
            for (int c = 0; c < Chunks; ++c)
                ptx::load_matrices_transposed(q[c], rows + unit_place<Chunks>(row, c) * unit_bytes);
#pragma unroll
            for (int c = 0; c < Chunks; ++c) {
                const uint32_t a[4] = {
                    __byte_perm(q[c][0], q[c][1], 0x6420), __byte_perm(q[c][0], q[c][1], 0x7531),
                    __byte_perm(q[c][2], q[c][3], 0x6420), __byte_perm(q[c][2], q[c][3], 0x7531)};
                multiply(acc[c], a, r, half);
            }
        }
    }
};

// Two bytes an element: an ldmatrix brings 16 columns of 16 gathered rows.
template <operand_kind Kind>
struct half_operands : cuda::exchanged_columns {
    static constexpr int planes = 1;
    using element = uint16_t;
    using accumulator = float;
    struct record {
        uint32_t v[8];
        uint32_t rows[2];
    };

    static __device__ __forceinline__ void load(record& r, uint32_t slot, int lane) {
#pragma unroll
        for (int p = 0; p < 2; ++p) load_four(r.v + 4 * p, slot + p * 512 + lane * 16);
        const uint2 rows =
            ptx::load_shared_v2(slot + record_value_bytes(Kind) + (lane / 16 * 8 + lane % 8) * 8);
        r.rows[0] = rows.x, r.rows[1] = rows.y;
    }

    template <int Chunks>
    static __device__ __forceinline__ void step(accumulator (&acc)[Chunks][planes][4],
                                                uint32_t rows, const record& r) {
        const int odd = threadIdx.x >> 3 & 1;  // 8 columns further for odd matrices
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const int row =
                static_cast<int>(q % 2 == 0 ? r.rows[q / 2] & 0xffff : r.rows[q / 2] >> 16);
#pragma unroll
            for (int c = 0; c < Chunks; ++c) {
                uint32_t a[4];
                ptx::load_matrices_transposed(
                    a, rows + unit_place<2 * Chunks>(row, 2 * c + odd) * unit_bytes);
                if constexpr (Kind == operand_kind::bf16) {
                    ptx::mma_bf16(acc[c][0], a, r.v[2 * q], r.v[2 * q + 1]);
                } else {
                    ptx::mma_fp16(acc[c][0], a, r.v[2 * q], r.v[2 * q + 1]);
                }
            }
        }
    }
};

template <operand_kind Kind>
using operands_of = std::conditional_t<is_half(Kind), half_operands<Kind>, byte_operands<Kind>>;

}  // namespace magicube::spmm::stream
