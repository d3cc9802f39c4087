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

// What is added to scores in bits before their exponentials: of the highest one possible before the
// first key, so that any key calls for another.
constexpr float no_shift = 3e38f;

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
    static constexpr bool together = Dim == 64;  // registers hold steps of two lists
    static constexpr int dim = Dim, row_bytes = Dim, chunks = Dim / 16, tiles = Dim / 16;
    static constexpr int query_words = Dim / 16;  // of a lane
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
    template <int Count, class Bundles>
    static __device__ __forceinline__ void scores(int first, float (&s)[Count][2][4],
                                                  const step_source& from, place base, int lane,
                                                  const constants& known, const Bundles& bundles) {
        const uint32_t own = ptx::load_shared_u32(from.scales + (base / row_bytes) * 4);
        int32_t acc[Count][2][4];
#pragma unroll
        for (int i = 0; i < Count * 8; ++i) acc[i / 8][i / 4 % 2][i % 4] = known.start[i % 4];
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            uint32_t k[4];
            ptx::load_matrices(k, base ^ (c * 16));
#pragma unroll
            for (int i = 0; i < Count * 2; ++i)
                ptx::mma_s8_s8_k16(acc[i / 2][i % 2], k[i % 2 * 2], k[i % 2 * 2 + 1],
                                   bundles[first + i / 2].q[c]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float scale = __uint_as_float(__shfl_sync(~0u, own, i * 8 + lane / 4));
            const float offset = -ptx::float_of_integers * scale;
#pragma unroll
            for (int j = 0; j < Count * 2; ++j) {
                const int at = i % 2 * 2 + j % 2;
                s[j / 2][i / 2][at] = fma_rn(__int_as_float(acc[j / 2][i / 2][at]), scale, offset);
            }
        }
    }

    // Rounded to integers, which are the low bits; too high ones spill over into others.
    struct exponentials {
        uint32_t bits[2][4];
        bool over;

        exponentials() = default;
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

        probabilities() = default;
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
        // Halves those of queries 2t and 2t + 1 so many times.
        __device__ __forceinline__ void scale(const int (&halvings)[2]) {
            const int lane = threadIdx.x & 31;
            const int even = __shfl_sync(~0u, halvings[0], lane / 8);
            const int odd = __shfl_sync(~0u, halvings[1], lane / 8);
            sum = static_cast<uint32_t>(scaled(static_cast<int32_t>(sum), lane & 4 ? odd : even));
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

    template <int Count, class Bundles>
    static __device__ __forceinline__ void accumulate(int first, Bundles& bundles,
                                                      const step_source& from, place base,
                                                      const probabilities (&p)[Count]) {
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            uint32_t v[4];
            ptx::load_matrices_transposed(v, (base + from.values_ahead) ^ (c * 16));
            const uint32_t a[4] = {__byte_perm(v[0], v[1], 0x6240), __byte_perm(v[0], v[1], 0x7351),
                                   __byte_perm(v[2], v[3], 0x6240),
                                   __byte_perm(v[2], v[3], 0x7351)};
#pragma unroll
            for (int b = 0; b < Count; ++b)
                ptx::mma_s8_u8(bundles[first + b].o[c], a, p[b].words[0], p[b].words[1]);
        }
    }

    // References move by whole bits, so that sums follow by shifts, and where a score gets more
    // than this.
    static constexpr float most_log2 = 7.9943534f;  // 255
    using factor = int;
    // From the highest score, in bits: the new shift, and how often that halves the sums. A later
    // one puts it between 127 and 255.
    static __device__ __forceinline__ factor move(float highest, float first_log2, float& shift) {
        if (shift == no_shift) {
            shift = first_log2 - highest;
            return 0;
        }
        const float bits = ceilf(shift + highest - most_log2);
        shift -= bits;
        return static_cast<int>(fminf(bits, 31.0f));
    }
    // Halves so many times, to the nearest.
    static __device__ __forceinline__ sum scaled(sum x, factor halvings) {
        const int last = min(halvings, 1);
        return ((x >> (halvings - last)) + last) >> last;
    }
    static constexpr factor unscaled = 0;
};

// fp16 and bf16: probabilities are rounded to the type, the sums are fp32.
template <bool Bf16>
struct half_math : spmm::cuda::exchanged_columns {
    static constexpr bool integers = false;
    static constexpr bool together = true;
    static constexpr int dim = 64, row_bytes = 128, tiles = 4;
    static constexpr int query_words = 8;
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

    template <int Count, class Bundles>
    static __device__ __forceinline__ void scores(int first, float (&s)[Count][2][4],
                                                  const step_source&, const place& at, int,
                                                  const constants&, const Bundles& bundles) {
#pragma unroll
        for (int i = 0; i < Count * 8; ++i) s[i / 8][i / 4 % 2][i % 4] = 0;
#pragma unroll
        for (int i = 0; i < 2 * tiles; ++i) {
            const int h = i / tiles, c = i % tiles;
            uint32_t k[4];
            ptx::load_matrices(k, at.keys[h] ^ (c * 32));
#pragma unroll
            for (int b = 0; b < Count; ++b)
                operands::multiply(s[b][h], k, bundles[first + b].q[2 * c],
                                   bundles[first + b].q[2 * c + 1]);
        }
    }

    struct exponentials {
        float e[2][4];
        float sums[2];  // over the lane's keys
        bool over;

        exponentials() = default;
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

        probabilities() = default;
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

    template <int Count, class Bundles>
    static __device__ __forceinline__ void accumulate(int first, Bundles& bundles,
                                                      const step_source&, const place& at,
                                                      const probabilities (&p)[Count]) {
#pragma unroll
        for (int i = 0; i < 2 * tiles; ++i) {
            const int h = i / tiles, c = i % tiles;
            uint32_t a[4];
            ptx::load_matrices_transposed(a, at.values[h] ^ (c * 32));
#pragma unroll
            for (int b = 0; b < Count; ++b)
                operands::multiply(bundles[first + b].o[c], a, p[b].words[2 * h],
                                   p[b].words[2 * h + 1]);
        }
    }

    static constexpr float most_log2 = 0;
    using factor = float;
    // From the highest score, in bits: the new shift, which puts it at 1, and what that scales the
    // sums by.
    static __device__ __forceinline__ factor move(float highest, float, float& shift) {
        const float before = shift;
        shift = -highest;
        return ptx::exp2_fast(shift - before);
    }
    static __device__ __forceinline__ sum scaled(sum x, factor by) {
        return x * by;
    }
    static constexpr factor unscaled = 1;
};

}  // namespace magicube::attention::sm90
