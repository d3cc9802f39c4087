// SPDX-License-Identifier: Apache-2.0
// How the operands of each pair of types meet in MMAs. The dense operand is the MMA's A (columns of
// B x gathered rows), the sparse values its B (gathered rows x 8 rows of A), so that all of the MMA
// works at V = 8. ldmatrix.trans brings 16 bytes of 8 gathered rows as 8 x 8 elements of 16 bits,
// transposed; byte permutations finish the transposition of narrower elements. Which slots the 8
// rows of a matrix are is free: they are chosen so that a lane multiplies neighbouring slots, whose
// values it loads at once.
//
// An operands type has
//     accumulator, planes   sums of the MMAs, and how many of them make one sum of a product
//     slots, value_bits     of a step; of a value
//     chunks, chunk_columns, parts   squares of a lane: chunks chunk_columns apart, parts times
//     swizzle(slot)         the 16-byte chunk c of a row lies at c ^ swizzle: 8 rows of a matrix
//                           never share banks
//     step()                multiplies one step
//     sum(), arrange()      a sum of a product, and four of them as the square that is stored
#pragma once

#include "core/device/cuda/ptx.cuh"
#include "core/ops/spmm/cuda/columns.cuh"

namespace magicube::spmm::sm80 {

constexpr int row_bytes = 128;

template <int Sets, int Planes, int Chunks, class Accumulator>
using accumulators = Accumulator[Sets][Planes][Chunks][4];

__device__ __forceinline__ void load_chunk(uint32_t (&r)[4], uint32_t row, int chunk,
                                           uint32_t swizzle) {
    ptx::load_matrices_transposed(r, row + ((chunk * 16) ^ swizzle));
}

// Even and odd bytes of four registers: (slots 0 to 3, slots 4 to 7) of two neighbours.
__device__ __forceinline__ void split_bytes(const uint32_t (&r)[4], uint32_t (&even)[2],
                                            uint32_t (&odd)[2]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        even[i] = __byte_perm(r[2 * i], r[2 * i + 1], 0x6420);
        odd[i] = __byte_perm(r[2 * i], r[2 * i + 1], 0x7531);
    }
}

// Low and high bytes of eight neighbouring 16-bit values.
struct byte_planes {
    uint32_t low[2], high[2];

    __device__ explicit byte_planes(uint4 v) {
        const uint32_t r[4] = {v.x, v.y, v.z, v.w};
        split_bytes(r, low, high);
    }
};

// What operands of 8 and 16 bits share: steps of 32 slots, of which a lane multiplies eight, and
// squares of one part. Columns says where the MMA leaves them.
template <class Columns>
struct wide_operands : Columns {
    static constexpr int slots = 32, value_slots = 8;
    static constexpr int chunk_columns = 16, parts = 1;

    static __device__ __forceinline__ int swizzle(int slot) {
        return (slot & 1) | (slot >> 3 & 3) << 1;
    }
    static __device__ __forceinline__ int first_column(int lane, int) {
        return Columns::first_column(lane);
    }
};

// ---- B of 8 bits -------------------------------------------------------------------------------

enum class byte_values { s8, u8, s16, e4m3 };

// Lane (g, t) = (lane / 4, lane % 4) multiplies slots 8t to 8t + 7; matrix m of an ldmatrix holds
// slots 8t + 2m and 8t + 2m + 1. Columns 2g, 2g + 1 of a chunk are rows g, g + 8 of the MMA.
template <byte_values Values>
struct byte_operands : wide_operands<cuda::paired_columns> {
    static constexpr bool floating = Values == byte_values::e4m3;
    using accumulator = std::conditional_t<floating, float, int32_t>;
    static constexpr int planes = Values == byte_values::s16 ? 2 : 1;
    static constexpr int value_bits = Values == byte_values::s16 ? 16 : 8, chunks = 8;

    static __device__ __forceinline__ void multiply(accumulator (&d)[planes][4],
                                                    const uint32_t (&a)[4], uint4 v) {
        if constexpr (Values == byte_values::s8) {
            ptx::mma_s8_s8(d[0], a, v.x, v.y);
        } else if constexpr (Values == byte_values::u8) {
            ptx::mma_s8_u8(d[0], a, v.x, v.y);
        } else if constexpr (Values == byte_values::s16) {
            ptx::mma_s8_s8(d[0], a, v.z, v.w);
            ptx::mma_s8_u8(d[1], a, v.x, v.y);
        } else {
            ptx::mma_e4m3(d[0], a, v.x, v.y);
        }
    }
    static __device__ __forceinline__ uint4 load_values(uint32_t address) {
        if constexpr (Values == byte_values::s16) {
            const byte_planes p(ptx::load_shared_v4(address));
            return make_uint4(p.low[0], p.low[1], p.high[0], p.high[1]);
        } else {
            const uint2 v = ptx::load_shared_v2(address);
            return make_uint4(v.x, v.y, 0, 0);
        }
    }

    template <int Sets>
    static __device__ __forceinline__ void step(
        accumulators<Sets, planes, chunks, accumulator>& acc, uint32_t rows, uint32_t values,
        uint32_t set_offset) {
        const int lane = threadIdx.x & 31;
        const uint32_t row = rows + (lane % 8 / 2 * 8 + lane / 8 * 2 + lane % 2) * row_bytes;
        const uint32_t own_swizzle = lane % 8 * 16;
        uint4 v[Sets];
#pragma unroll
        for (int s = 0; s < Sets; ++s) v[s] = load_values(values + s * set_offset);
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            uint32_t r[4], even[2], odd[2];
            load_chunk(r, row, c, own_swizzle);
            split_bytes(r, even, odd);
            const uint32_t a[4] = {even[0], odd[0], even[1], odd[1]};
#pragma unroll
            for (int s = 0; s < Sets; ++s) {
                // An array of this chunk's planes, which registers make free.
                accumulator d[planes][4];
#pragma unroll
                for (int i = 0; i < planes * 4; ++i) d[i / 4][i % 4] = acc[s][i / 4][c][i % 4];
                multiply(d, a, v[s]);
#pragma unroll
                for (int i = 0; i < planes * 4; ++i) acc[s][i / 4][c][i % 4] = d[i / 4][i % 4];
            }
        }
    }

    template <class Sum>
    static __device__ __forceinline__ Sum sum(const accumulator (&acc)[planes][chunks][4], int,
                                              int c, int q) {
        if constexpr (planes == 2) return Sum{acc[0][c][q]} * 256 + acc[1][c][q];
        return acc[0][c][q];
    }
};

// ---- B of 16 bits ------------------------------------------------------------------------------

// A step is two MMAs deep; the second multiplies slots 8t + 4 to 8t + 7.
template <bool Bf16>
struct half_operands : wide_operands<cuda::exchanged_columns> {
    static constexpr bool floating = true;
    using accumulator = float;
    static constexpr int planes = 1;
    static constexpr int value_bits = 16, chunks = 4;

    template <int Sets>
    static __device__ __forceinline__ void step(
        accumulators<Sets, planes, chunks, accumulator>& acc, uint32_t rows, uint32_t values,
        uint32_t set_offset) {
        const int lane = threadIdx.x & 31;
        const uint32_t row = rows + (lane % 8 / 2 * 8 + lane / 16 * 2 + lane % 2) * row_bytes;
        const uint32_t own_swizzle = lane % 8 * 16;
        uint4 v[Sets];
#pragma unroll
        for (int s = 0; s < Sets; ++s) v[s] = ptx::load_shared_v4(values + s * set_offset);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int c = 0; c < chunks; ++c) {
                uint32_t a[4];
                load_chunk(a, row + half * 4 * row_bytes, 2 * c + (lane >> 3 & 1), own_swizzle);
#pragma unroll
                for (int s = 0; s < Sets; ++s) {
                    const uint32_t b0 = half == 0 ? v[s].x : v[s].z;
                    const uint32_t b1 = half == 0 ? v[s].y : v[s].w;
                    if constexpr (Bf16) {
                        ptx::mma_bf16(acc[s][0][c], a, b0, b1);
                    } else {
                        ptx::mma_fp16(acc[s][0][c], a, b0, b1);
                    }
                }
            }
        }
    }

    template <class Sum>
    static __device__ __forceinline__ Sum sum(const float (&acc)[planes][chunks][4], int, int c,
                                              int q) {
        return acc[0][c][q];
    }
};

// Four MMAs of bytes: high x high, both cross products into one sum, low x low.
struct s16s16_operands : wide_operands<cuda::exchanged_columns> {
    static constexpr bool floating = false;
    using accumulator = int32_t;
    static constexpr int planes = 3;
    static constexpr int value_bits = 16, chunks = 4;

    template <int Sets>
    static __device__ __forceinline__ void step(
        accumulators<Sets, planes, chunks, accumulator>& acc, uint32_t rows, uint32_t values,
        uint32_t set_offset) {
        const int lane = threadIdx.x & 31;
        const uint32_t row = rows + (lane % 8 / 2 * 8 + lane / 8 * 2 + lane % 2) * row_bytes;
        const uint32_t own_swizzle = lane % 8 * 16;
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            uint32_t first[4], second[4];  // columns g and g + 8 of eight slots, 16 bits each
            load_chunk(first, row, 2 * c, own_swizzle);
            load_chunk(second, row, 2 * c + 1, own_swizzle);
            uint32_t low[2][2], high[2][2];
            split_bytes(first, low[0], high[0]);
            split_bytes(second, low[1], high[1]);
            const uint32_t a_low[4] = {low[0][0], low[1][0], low[0][1], low[1][1]};
            const uint32_t a_high[4] = {high[0][0], high[1][0], high[0][1], high[1][1]};
#pragma unroll
            for (int s = 0; s < Sets; ++s) {
                const byte_planes v(ptx::load_shared_v4(values + s * set_offset));
                ptx::mma_s8_s8(acc[s][0][c], a_high, v.high[0], v.high[1]);
                ptx::mma_s8_u8(acc[s][1][c], a_high, v.low[0], v.low[1]);
                ptx::mma_u8_s8(acc[s][1][c], a_low, v.high[0], v.high[1]);
                ptx::mma_u8_u8(acc[s][2][c], a_low, v.low[0], v.low[1]);
            }
        }
    }

    template <class Sum>
    static __device__ __forceinline__ Sum sum(const int32_t (&acc)[planes][chunks][4], int, int c,
                                              int q) {
        return (Sum{acc[0][c][q]} * 256 + acc[1][c][q]) * 256 + acc[2][c][q];
    }
};

// ---- B of 4 bits -------------------------------------------------------------------------------

// An element of 16 bits is four columns. Lane (g, t) multiplies slots 8t to 8t + 7 and 32 + 8t to
// 32 + 8t + 7 in the order in which nibbles of two registers interleave: matrices 0 and 1 hold even
// slots, 2 and 3 odd ones. Columns 4g, 4g + 1 are the rows of one MMA, 4g + 2, 4g + 3 of another.
struct s4_operands : cuda::paired_columns {
    static constexpr bool floating = false;
    using accumulator = int32_t;
    static constexpr int planes = 2;  // here the parts
    static constexpr int slots = 64, value_bits = 4;
    static constexpr int chunks = 8, chunk_columns = 32, parts = 2;
    static constexpr int value_slots = 8;

    static __device__ __forceinline__ int swizzle(int slot) {
        return (slot >> 1 & 1) | (slot >> 3 & 3) << 1;
    }
    static __device__ __forceinline__ int first_column(int lane, int part) {
        return lane / 4 * 4 + 2 * part;
    }

    // Low nibbles of both, then high nibbles, interleaved.
    static __device__ __forceinline__ void split_nibbles(uint32_t even_slots, uint32_t odd_slots,
                                                         uint32_t& low, uint32_t& high) {
        constexpr uint32_t mask = 0x0f0f0f0f;
        low = (even_slots & mask) | (odd_slots << 4 & ~mask);
        high = (even_slots >> 4 & mask) | (odd_slots & ~mask);
    }

    template <int Sets>
    static __device__ __forceinline__ void step(
        accumulators<Sets, planes, chunks, accumulator>& acc, uint32_t rows, uint32_t values,
        uint32_t set_offset) {
        const int lane = threadIdx.x & 31;
        const int matrix = lane / 8;
        const int slot = lane % 8 / 2 * 8 + lane % 2 * 2 + matrix / 2 + matrix % 2 * 4;
        const uint32_t row = rows + slot * row_bytes;
        const uint32_t own_swizzle = lane % 8 * 16;
        constexpr uint32_t half_step = Sets * 8 * 32 / 2;  // bytes of 32 slots' values
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            uint32_t a[2][4];  // of both parts
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint32_t r[4];
                load_chunk(r, row + half * 32 * row_bytes, c, own_swizzle);
                uint32_t first[2], second[2];  // columns 4g, 4g + 1 and 4g + 2, 4g + 3
                split_bytes(r, first, second);
                split_nibbles(first[0], first[1], a[0][2 * half], a[0][2 * half + 1]);
                split_nibbles(second[0], second[1], a[1][2 * half], a[1][2 * half + 1]);
            }
#pragma unroll
            for (int s = 0; s < Sets; ++s) {
                const uint32_t b0 = ptx::load_shared_u32(values + s * set_offset);
                const uint32_t b1 = ptx::load_shared_u32(values + s * set_offset + half_step);
                ptx::mma_s4_s4(acc[s][0][c], a[0], b0, b1);
                ptx::mma_s4_s4(acc[s][1][c], a[1], b0, b1);
            }
        }
    }

    template <class Sum>
    static __device__ __forceinline__ Sum sum(const int32_t (&acc)[planes][chunks][4], int part,
                                              int c, int q) {
        return acc[part][c][q];
    }
};

using s8_operands = byte_operands<byte_values::s8>;
using u8_operands = byte_operands<byte_values::u8>;
using s16s8_operands = byte_operands<byte_values::s16>;
using e4m3_operands = byte_operands<byte_values::e4m3>;
using fp16_operands = half_operands<false>;
using bf16_operands = half_operands<true>;

}  // namespace magicube::spmm::sm80
