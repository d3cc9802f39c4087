// SPDX-License-Identifier: Apache-2.0
// How rows of the two operands meet in MMAs. A lane (g, t) = (lane / 4, lane % 4) loads 16 bytes of
// row g, those at 16t of a segment of 64 bytes. An MMA wants bytes 4t and 16 + 4t of its 32; since
// sums do not depend on the order of k, any two words of the lane's four serve, as long as both
// operands take the same ones. So loads of 16 bytes are the MMA's fragments as they are.
//
// An operands type has
//     accumulator, planes   sums of the MMAs, and how many of them make one sum of a product
//     multiply              adds a segment: `first` and `second` are the gathered rows g and g + 8
//                           of the MMA, `a` the row of A that is its column g
//     sum                   element q of a lane's four
#pragma once

#include <type_traits>

#include "core/device/cuda/ptx.cuh"
#include "core/types/dtype.hpp"

namespace magicube::sddmm::sm80 {

// Two 32-byte halves of a segment, each one MMA. Type is the elements'.
template <dtype Type>
struct whole_operands {
    using accumulator = std::conditional_t<Type == dtype::int8, int32_t, float>;
    static constexpr int planes = 1;

    static __device__ __forceinline__ void mma(accumulator (&d)[4], const uint32_t (&a)[4],
                                               uint32_t b0, uint32_t b1) {
        if constexpr (Type == dtype::int8) {
            ptx::mma_s8_s8(d, a, b0, b1);
        } else if constexpr (Type == dtype::fp16) {
            ptx::mma_fp16(d, a, b0, b1);
        } else if constexpr (Type == dtype::bf16) {
            ptx::mma_bf16(d, a, b0, b1);
        } else {
            ptx::mma_e4m3(d, a, b0, b1);
        }
    }
    static __device__ __forceinline__ void multiply(accumulator (&acc)[planes][4],
                                                    const uint4& first, const uint4& second,
                                                    const uint4& a) {
        const uint32_t low[4] = {first.x, second.x, first.y, second.y};
        const uint32_t high[4] = {first.z, second.z, first.w, second.w};
        mma(acc[0], low, a.x, a.y);
        mma(acc[0], high, a.z, a.w);
    }
    static __device__ __forceinline__ accumulator sum(const accumulator (&acc)[planes][4], int q) {
        return acc[0][q];
    }
};

using int8_operands = whole_operands<dtype::int8>;
using fp16_operands = whole_operands<dtype::fp16>;
using bf16_operands = whole_operands<dtype::bf16>;
using e4m3_operands = whole_operands<dtype::e4m3>;

// Nibbles become the upper halves of bytes, 16 times their value, so that no sign is to be
// extended; the sums are 256 times too large, which a shift undoes exactly.
struct int4_operands {
    using accumulator = int32_t;
    static constexpr int planes = 1;

    static __device__ __forceinline__ uint32_t even(uint32_t word) { return word << 4 & mask; }
    static __device__ __forceinline__ uint32_t odd(uint32_t word) { return word & mask; }
    static __device__ __forceinline__ void multiply_word(accumulator (&acc)[4], uint32_t first,
                                                         uint32_t second, uint32_t a) {
        const uint32_t bytes[4] = {even(first), even(second), odd(first), odd(second)};
        ptx::mma_s8_s8(acc, bytes, even(a), odd(a));
    }
    static __device__ __forceinline__ void multiply(accumulator (&acc)[planes][4],
                                                    const uint4& first, const uint4& second,
                                                    const uint4& a) {
        multiply_word(acc[0], first.x, second.x, a.x);
        multiply_word(acc[0], first.y, second.y, a.y);
        multiply_word(acc[0], first.z, second.z, a.z);
        multiply_word(acc[0], first.w, second.w, a.w);
    }
    static __device__ __forceinline__ int32_t sum(const accumulator (&acc)[planes][4], int q) {
        return acc[0][q] >> 8;
    }

  private:
    static constexpr uint32_t mask = 0xf0f0f0f0;
};

// A segment is 32 elements of 16 bits, split into bytes: high x high, both cross products into one
// sum, low x low.
struct int16_operands {
    using accumulator = int32_t;
    static constexpr int planes = 3;

    struct split {
        uint32_t low[2], high[2];
    };

    static __device__ __forceinline__ split split_bytes(const uint4& x) {
        return {{__byte_perm(x.x, x.y, 0x6420), __byte_perm(x.z, x.w, 0x6420)},
                {__byte_perm(x.x, x.y, 0x7531), __byte_perm(x.z, x.w, 0x7531)}};
    }

    static __device__ __forceinline__ void multiply(accumulator (&acc)[planes][4],
                                                    const uint4& first, const uint4& second,
                                                    const uint4& a) {
        const split x = split_bytes(first), y = split_bytes(second), z = split_bytes(a);
        const uint32_t high[4] = {x.high[0], y.high[0], x.high[1], y.high[1]};
        const uint32_t low[4] = {x.low[0], y.low[0], x.low[1], y.low[1]};
        ptx::mma_s8_s8(acc[0], high, z.high[0], z.high[1]);
        ptx::mma_s8_u8(acc[1], high, z.low[0], z.low[1]);
        ptx::mma_u8_s8(acc[1], low, z.high[0], z.high[1]);
        ptx::mma_u8_u8(acc[2], low, z.low[0], z.low[1]);
    }
    static __device__ __forceinline__ int64_t sum(const accumulator (&acc)[planes][4], int q) {
        return (int64_t{acc[0][q]} * 256 + acc[1][q]) * 256 + acc[2][q];
    }
};

}  // namespace magicube::sddmm::sm80
