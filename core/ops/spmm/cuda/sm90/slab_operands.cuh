// SPDX-License-Identifier: Apache-2.0
// What the slab kernel does with one step of a bundle: gather 32 rows of B by ldmatrix, multiply by
// mma.sync. One struct for operands of 8 bits, one for 16.
//
// The dense operand is the MMA's A (columns of B x gathered rows), the sparse values its B
// (gathered rows x 8 rows of A), so that all of the MMA works at V = 8. A lane names one gathered
// row; ldmatrix.trans brings 16 bytes of each. For 8-bit types a register then holds 2 columns x 2
// rows, and one prmt a register finishes the transposition; the order of rows that this leaves is
// the order of the packed values.
#pragma once

#include "core/device/cuda/ptx.cuh"
#include "core/ops/spmm/cuda/columns.cuh"
#include "core/ops/spmm/cuda/sm90/slab_format.hpp"

namespace magicube::spmm::sm90 {

// A stage of a ring and the parity of its next phase.
struct ring_position {
    int stage;
    uint32_t parity;

    __device__ __forceinline__ void advance(int stages) {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

// The rows that a step can gather from; addresses in shared memory.
struct ring_view {
    int base;        // of the present slab
    int begin, end;  // the rows of zeros lie before

    __device__ __forceinline__ void advance(int bytes) {
        base += bytes;
        if (base >= end) base -= end - begin;
    }

    // Of the first chunk of the row that a record's number names; chunk c lies at the result ^ c *
    // 16.
    template <bool ZeroRows>
    __device__ __forceinline__ uint32_t address(int number) const {
        int at = base + number * 16;
        at = at < begin ? at + (end - begin) : at;
        if constexpr (ZeroRows)
            at = number >= hole_numbers
                     ? begin - zero_rows * widest_row_bytes + (number - hole_numbers) * 16
                     : at;
        return at;
    }
};

// Operands of 8 bits: an ldmatrix brings 16 columns of 32 gathered rows. UnsignedSets has bit s set
// if the values of set s are unsigned.
template <class Accumulator, int UnsignedSets, int RowBytes = widest_row_bytes>
struct byte_operands : cuda::paired_columns {
    using accumulator = Accumulator;
    using values = uint2;
    using rows = int;
    static constexpr int row_bytes = RowBytes;
    static constexpr int columns = row_bytes;
    static constexpr int chunks = row_bytes / 16;
    static constexpr int set_bytes = 256;

    static __device__ __forceinline__ values load_values(uint32_t set, int lane) {
        return ptx::load_shared_v2(set + lane * 8);
    }
    static __device__ __forceinline__ rows load_rows(uint32_t list, int lane) {
        return ptx::load_shared_s16(list + lane * 2);
    }

    template <int Set>
    static __device__ __forceinline__ void multiply(Accumulator (&d)[4], const uint32_t (&a)[4],
                                                    values b) {
        if constexpr (std::is_same_v<Accumulator, float>) {
            ptx::mma_e4m3(d, a, b.x, b.y);
        } else if constexpr (UnsignedSets >> Set & 1) {
            ptx::mma_s8_u8(d, a, b.x, b.y);
        } else {
            ptx::mma_s8_s8(d, a, b.x, b.y);
        }
    }

    template <int Sets>
    static __device__ __forceinline__ void step(Accumulator (&acc)[Sets][chunks][4],
                                                const ring_view& ring, rows row,
                                                const values (&v)[Sets]) {
        const uint32_t base = ring.address<std::is_same_v<Accumulator, float>>(row);
        uint32_t q[chunks][4];
#pragma unroll
        for (int c = 0; c < chunks; ++c) ptx::load_matrices_transposed(q[c], base ^ (c * 16));
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            const uint32_t a[4] = {
                __byte_perm(q[c][0], q[c][1], 0x6420), __byte_perm(q[c][0], q[c][1], 0x7531),
                __byte_perm(q[c][2], q[c][3], 0x6420), __byte_perm(q[c][2], q[c][3], 0x7531)};
            multiply<0>(acc[0][c], a, v[0]);
            if constexpr (Sets > 1) multiply<1>(acc[1][c], a, v[1]);
        }
    }
};

// Operands of 16 bits: a step is two MMAs deep, and an ldmatrix brings 16 columns of 16 gathered
// rows.
template <bool Bf16>
struct half_operands : cuda::exchanged_columns {
    using accumulator = float;
    using values = uint4;
    using rows = int2;
    static constexpr int row_bytes = widest_row_bytes;
    static constexpr int columns = row_bytes / 2;
    static constexpr int chunks = row_bytes / 32;
    static constexpr int set_bytes = 512;

    static __device__ __forceinline__ values load_values(uint32_t set, int lane) {
        return ptx::load_shared_v4(set + lane * 16);
    }
    static __device__ __forceinline__ rows load_rows(uint32_t list, int lane) {
        const int slot = lane / 16 * 8 + lane % 8;
        return make_int2(ptx::load_shared_s16(list + slot * 2),
                         ptx::load_shared_s16(list + slot * 2 + 32));
    }

    static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1) {
        if constexpr (Bf16) {
            ptx::mma_bf16(d, a, b0, b1);
        } else {
            ptx::mma_fp16(d, a, b0, b1);
        }
    }

    template <int Sets>
    static __device__ __forceinline__ void step(float (&acc)[Sets][chunks][4],
                                                const ring_view& ring, rows row,
                                                const values (&v)[Sets]) {
        const uint32_t half = (threadIdx.x & 8) << 1;  // 8 columns further for odd matrices
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const uint32_t base = ring.address<true>(h == 0 ? row.x : row.y) ^ half;
            uint32_t a[chunks][4];
#pragma unroll
            for (int c = 0; c < chunks; ++c) ptx::load_matrices_transposed(a[c], base ^ (c * 32));
#pragma unroll
            for (int c = 0; c < chunks; ++c)
#pragma unroll
                for (int s = 0; s < Sets; ++s)
                    multiply(acc[s][c], a[c], h == 0 ? v[s].x : v[s].z, h == 0 ? v[s].y : v[s].w);
        }
    }
};

}  // namespace magicube::spmm::sm90
