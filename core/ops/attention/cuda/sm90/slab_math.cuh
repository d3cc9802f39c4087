// SPDX-License-Identifier: Apache-2.0
// The two products of attention for one step, 32 gathered keys and 8 queries, and the exponentials
// between them, by the type of Q, K and V.
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

using spmm::sm90::hole_numbers;
using spmm::sm90::ring_view;
using spmm::sm90::step_slots;

constexpr uint32_t bits_of_integers = 0x4b400000;  // of ptx::float_of_integers

// Where a step's rows of K and V are found, and the scales of K's rows.
struct step_source {
    const ring_view& keys;
    uint32_t values_ahead;
    uint32_t scales;  // of the row of K at shared address 0
};

// int8: probabilities are integers from 0 to 255, the sums exact.
template <int Dim>
struct integer_math : spmm::cuda::paired_columns {
    static constexpr bool integers = true;
    static constexpr int dim = Dim, row_bytes = Dim, chunks = Dim / 16, tiles = Dim / 16;
    static constexpr int query_words = Dim / 16;  // of a lane
    // The exponent of 2 that the highest score gets: 180 as a probability. Half a bit more stays
    // below 255.
    static constexpr float unit_log2 = 7.4918531f;
    using sum = int32_t;
    using rows = int;
    using place = uint32_t;  // of the lane's own row of K, the first chunk

    // What sums of a product start from. In registers of their own, else each step would make them
    // again: the compiler must not see that they are constants.
    struct constants {
        int32_t start[4];
        static __device__ __forceinline__ constants read(uint32_t address) {
            const uint4 v = ptx::load_shared_v4(address);
            return {{static_cast<int32_t>(v.x), static_cast<int32_t>(v.y),
                     static_cast<int32_t>(v.z), static_cast<int32_t>(v.w)}};
        }
    };

    // Where a step's keys lie: lane i has that of slot i.
    static __device__ __forceinline__ rows load_rows(uint32_t list, int lane) {
        return ptx::load_shared_s16(list + lane * 2);
    }
    // Bit i: slot i is a hole.
    static __device__ __forceinline__ uint32_t holes(rows row) {
        return __ballot_sync(~0u, row >= hole_numbers);
    }
    // The row numbers of slots g, g + 8, g + 16 and g + 24.
    static __device__ __forceinline__ void numbers_of(rows row, int lane, int (&numbers)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) numbers[i] = __shfl_sync(~0u, row, i * 8 + lane / 4);
    }

    static __device__ __forceinline__ place find(const step_source& from, rows row) {
        return from.keys.address<true>(row);
    }

    // Dot products times the scales of K's rows; the float that the sums start from is taken off by
    // the same fma, which leaves less than one integer's error. The MMAs are 16 deep, since an
    // ldmatrix brings 16 elements of 32 keys in the order of two such A's.
    static __device__ __forceinline__ void scores(float (&s)[2][4], const step_source& from,
                                                  place base, int lane, const constants& known,
                                                  const uint32_t (&q)[query_words]) {
        const uint32_t own = ptx::load_shared_u32(from.scales + (base / row_bytes) * 4);
        int32_t acc[2][4];
#pragma unroll
        for (int i = 0; i < 8; ++i) acc[i / 4][i % 4] = known.start[i % 4];
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            uint32_t k[4];
            ptx::load_matrices(k, base ^ (c * 16));
#pragma unroll
            for (int h = 0; h < 2; ++h) ptx::mma_s8_s8_k16(acc[h], k[2 * h], k[2 * h + 1], q[c]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float scale = __uint_as_float(__shfl_sync(~0u, own, i * 8 + lane / 4));
            const float offset = -ptx::float_of_integers * scale;
#pragma unroll
            for (int j = 0; j < 2; ++j)
                s[i / 2][i % 2 * 2 + j] =
                    fma_rn(__int_as_float(acc[i / 2][i % 2 * 2 + j]), scale, offset);
        }
    }

    // Rounded to integers, which are the low bits; too high ones spill over into others.
    struct exponentials {
        uint32_t bits[2][4];
        bool over;

        __device__ __forceinline__ exponentials(const float (&s)[2][4], const float (&q_scale)[2],
                                                const float (&shift)[2]) {
            uint32_t all = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const float e =
                    ptx::exp2_fast(fma_rn(s[i / 4][i % 4], q_scale[i % 2], shift[i % 2]));
                bits[i / 4][i % 4] = __float_as_uint(e + ptx::float_of_integers);
                all |= bits[i / 4][i % 4];
            }
            over = all > (bits_of_integers | 255);
        }
    };

    // Probabilities of a step as the second product takes them.
    struct probabilities {
        uint32_t words[2];

        __device__ __forceinline__ explicit probabilities(const exponentials& e) {
#pragma unroll
            for (int h = 0; h < 2; ++h)
                words[h] = ptx::transpose_matrix(
                    __byte_perm(__byte_perm(e.bits[h][0], e.bits[h][2], 0x0040),
                                __byte_perm(e.bits[h][1], e.bits[h][3], 0x0040), 0x5410));
        }
    };

    // The sum of the probabilities: a lane has that of query g over its keys.
    struct totals {
        uint32_t sum;

        __device__ __forceinline__ void add(const exponentials&, const probabilities& p) {
            sum = __dp4a(p.words[1], 0x01010101u, __dp4a(p.words[0], 0x01010101u, sum));
        }
        // By those of queries 2t and 2t + 1.
        __device__ __forceinline__ void scale(const float (&factor)[2]) {
            const int lane = threadIdx.x & 31;
            const float even = __shfl_sync(~0u, factor[0], lane / 8);
            const float odd = __shfl_sync(~0u, factor[1], lane / 8);
            const auto whole = static_cast<float>(of_query());
            // Rounded once, as one number.
            sum = lane % 4 == 0 ? __float2uint_rn(whole * (lane & 4 ? odd : even)) : 0;
        }
        // Of queries 2t and 2t + 1.
        __device__ __forceinline__ void read(float (&total)[2]) const {
            const uint32_t whole = of_query();
#pragma unroll
            for (int i = 0; i < 2; ++i)
                total[i] =
                    static_cast<float>(__shfl_sync(~0u, whole, (threadIdx.x & 3) * 8 + i * 4));
        }

      private:
        __device__ __forceinline__ uint32_t of_query() const {
            const uint32_t pair = sum + __shfl_xor_sync(~0u, sum, 1);
            return pair + __shfl_xor_sync(~0u, pair, 2);
        }
    };

    static __device__ __forceinline__ void accumulate(sum (&o)[tiles][4], const step_source& from,
                                                      place base, const probabilities& p) {
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            uint32_t v[4];
            ptx::load_matrices_transposed(v, (base + from.values_ahead) ^ (c * 16));
            const uint32_t a[4] = {__byte_perm(v[0], v[1], 0x6240), __byte_perm(v[0], v[1], 0x7351),
                                   __byte_perm(v[2], v[3], 0x6240),
                                   __byte_perm(v[2], v[3], 0x7351)};
            ptx::mma_s8_u8(o[c], a, p.words[0], p.words[1]);
        }
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
    using operands = spmm::sm90::half_operands<Bf16>;
    using sum = float;
    using rows = typename operands::rows;
    // Of the rows of K and V that the lane points at, in each half of 16 keys.
    struct place {
        uint32_t keys[2], values[2];
    };
    struct constants {
        static __device__ __forceinline__ constants read(uint32_t) { return {}; }
    };

    // Lanes 0 to 7 and 16 to 23, and the others again, have the rows of a half's 16 keys.
    static __device__ __forceinline__ rows load_rows(uint32_t list, int lane) {
        return operands::load_rows(list, lane);
    }
    static __device__ __forceinline__ uint32_t holes(rows row) {
        return __byte_perm(__ballot_sync(~0u, row.x >= hole_numbers),
                           __ballot_sync(~0u, row.y >= hole_numbers), 0x6420);
    }
    static __device__ __forceinline__ void numbers_of(rows row, int lane, int (&numbers)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            numbers[i] = __shfl_sync(~0u, i < 2 ? row.x : row.y, i % 2 * 16 + lane / 4);
    }

    // For rows of V, odd matrices hold the 8 elements further; for those of K, the upper two, so
    // that both come in the order of an A.
    static __device__ __forceinline__ place find(const step_source& from, rows row) {
        const int lane = threadIdx.x & 31;
        place at;
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const uint32_t base = from.keys.address<true>(h == 0 ? row.x : row.y);
            at.values[h] = (base + from.values_ahead) ^ (lane & 8) * 2;
            at.keys[h] = __shfl_sync(~0u, base, (lane & 7) | (lane & 8) * 2) ^ (lane & 16);
        }
        return at;
    }

    static __device__ __forceinline__ void scores(float (&s)[2][4], const step_source&,
                                                  const place& at, int, const constants&,
                                                  const uint32_t (&q)[query_words]) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int i = 0; i < 4; ++i) s[h][i] = 0;
#pragma unroll
            for (int c = 0; c < tiles; ++c) {
                uint32_t k[4];
                ptx::load_matrices(k, at.keys[h] ^ (c * 32));
                operands::multiply(s[h], k, q[2 * c], q[2 * c + 1]);
            }
        }
    }

    struct exponentials {
        float e[2][4];
        float sums[2];  // over the lane's keys
        bool over;

        __device__ __forceinline__ exponentials(const float (&s)[2][4], const float (&q_scale)[2],
                                                const float (&shift)[2]) {
            constexpr float most = 16384.0f;  // fp16 ends at 65504
#pragma unroll
            for (int i = 0; i < 8; ++i)
                e[i / 4][i % 4] =
                    ptx::exp2_fast(fma_rn(s[i / 4][i % 4], q_scale[i % 2], shift[i % 2]));
#pragma unroll
            for (int i = 0; i < 2; ++i) sums[i] = e[0][i] + e[0][i + 2] + (e[1][i] + e[1][i + 2]);
            over = !(sums[0] < most && sums[1] < most);
        }
    };

    struct probabilities {
        uint32_t words[4];

        __device__ __forceinline__ explicit probabilities(const exponentials& p) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const auto& e = p.e[i / 2];
                const int first = i % 2 * 2;
                words[i] = ptx::transpose_matrix(Bf16 ? ptx::pack_bf16(e[first], e[first + 1])
                                                      : ptx::pack_fp16(e[first], e[first + 1]));
            }
        }
    };

    // A lane has those of queries 2t and 2t + 1 over its keys.
    struct totals {
        float sums[2];

        __device__ __forceinline__ void add(const exponentials& e, const probabilities&) {
#pragma unroll
            for (int i = 0; i < 2; ++i) sums[i] += e.sums[i];
        }
        __device__ __forceinline__ void scale(const float (&factor)[2]) {
#pragma unroll
            for (int i = 0; i < 2; ++i) sums[i] *= factor[i];
        }
        __device__ __forceinline__ void read(float (&total)[2]) const {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                total[i] = sums[i];
#pragma unroll
                for (int step = 4; step < 32; step *= 2)
                    total[i] += __shfl_xor_sync(~0u, total[i], step);
            }
        }
    };

    static __device__ __forceinline__ void accumulate(sum (&o)[tiles][4], const step_source&,
                                                      const place& at, const probabilities& p) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int c = 0; c < tiles; ++c) {
                uint32_t a[4];
                ptx::load_matrices_transposed(a, at.values[h] ^ (c * 32));
                operands::multiply(o[c], a, p.words[2 * h], p.words[2 * h + 1]);
            }
        }
    }
    static __device__ __forceinline__ sum scaled(sum x, float factor) {
        return x * factor;
    }
};

}  // namespace magicube::attention::sm90
