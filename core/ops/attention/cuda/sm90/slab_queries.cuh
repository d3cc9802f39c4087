// SPDX-License-Identifier: Apache-2.0
// 8 queries of a warp of the slab kernel: their rows of Q, statistics and sums. A lane (g, t) has
// queries 2t and 2t + 1.
#pragma once

#include "core/ops/attention/cuda/one_query.cuh"
#include "core/ops/attention/cuda/sm90/slab_math.cuh"

namespace magicube::attention::sm90 {

constexpr float ln_2 = 0.69314718f;
constexpr float no_reference = -3e38f;  // below any score but infinity and its neighbours

// Which query head of which matrix a tile belongs to.
struct head_place {
    int64_t batch, head;
};

// How many of a bundle's 8 queries, from the first on, do not see a key.
struct key_limit {
    int32_t keys;   // no query sees keys from there on
    int32_t reach;  // query i sees keys up to this + i

    __device__ key_limit(const cuda::kernel_arguments& call, const allowed_keys& allowed,
                         int64_t query) {
        constexpr int64_t most = INT32_MAX - 16;
        keys = static_cast<int32_t>(max(int64_t{0}, min(allowed.keys, call.pattern.cols)));
        reach = static_cast<int32_t>(
            max(int64_t{-16}, min(saturating_sum(query, allowed.reach), most)));
    }
    __device__ __forceinline__ int hidden_from(int32_t key) const {
        return key >= keys ? 8 : max(0, min(key - reach, 8));
    }
};

template <class Math>
struct query_bundle {
    static constexpr int probability_words = Math::integers ? 2 : 4;
    using sum = typename Math::sum;

    uint32_t q[Math::query_words];
    sum o[Math::tiles][4];
    sum total[4];        // of queries 2t and 2t + 1; of integers twice, else of the lane's keys
    float reference[2];  // of the exponentials, in bits; no_reference before the first key
    float q_scale[2];    // integers: of the two queries; floats: softmax scale times log2(e)

    // irregular: set where one_query has to compute the queries, since scales or scores are not
    // finite or the scale is not positive. So for take.
    __device__ void start(const slab_arguments& args, const head_place& at, int64_t first,
                          bool& irregular) {
        const int lane = threadIdx.x & 31;
        const auto& call = args.call;
        const int64_t last = call.pattern.rows - 1;
        const int64_t own = min(first + lane / 4, last);
        const int64_t row = call.q.row(at.batch, at.head, own);
        constexpr int element_bytes = Math::integers ? 1 : 2;
        const auto* words = reinterpret_cast<const uint32_t*>(
            static_cast<const uint8_t*>(call.q.values) + row * element_bytes);
#pragma unroll
        for (int i = 0; i < Math::query_words; ++i) q[i] = words[4 * i + lane % 4];
#pragma unroll
        for (int i = 0; i < Math::tiles * 4; ++i) o[i / 4][i % 4] = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) total[i] = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            reference[i] = no_reference;
            if constexpr (Math::integers) {
                const auto scales =
                    scales_of_head(call.shape.q_scale, call.q_scale,
                                   at.batch * call.shape.q_heads + at.head, call.pattern.rows);
                q_scale[i] = scales[min(first + lane % 4 * 2 + i, last)];
            } else {
                q_scale[i] = call.scale.get() * log2_e;
            }
        }
        irregular |=
            !(q_scale[0] > 0 && q_scale[0] < INFINITY && q_scale[1] > 0 && q_scale[1] < INFINITY);
    }

    // Hides the scores of keys g, g + 8, g + 16 and g + 24 from so many of the first queries.
    static __device__ __forceinline__ void hide(float (&s)[2][4], const int (&hidden)[4]) {
        const int first = (threadIdx.x & 3) * 2;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (first + i % 2 < hidden[i / 2]) s[i / 4][i % 4] = -INFINITY;
    }

    // Scores become probabilities, and the sums are scaled to a new reference where one is due.
    __device__ __forceinline__ void take(const float (&s)[2][4], uint32_t (&p)[probability_words],
                                         bool& irregular) {
        float highest[2] = {fmaxf(fmaxf(s[0][0], s[0][2]), fmaxf(s[1][0], s[1][2])) * q_scale[0],
                            fmaxf(fmaxf(s[0][1], s[0][3]), fmaxf(s[1][1], s[1][3])) * q_scale[1]};
        if (__any_sync(~0u, highest[0] > reference[0] + Math::slack ||
                                highest[1] > reference[1] + Math::slack))
            refer_to(highest, irregular);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float shift[2] = {Math::unit_log2 - reference[0], Math::unit_log2 - reference[1]};
            float e[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                e[i] = ptx::exp2_fast(fma_rn(s[half][i], q_scale[i % 2], shift[i % 2]));
                if constexpr (!Math::integers) total[i % 2] += e[i];
            }
            Math::pack(e, p, half);
        }
    }

  private:
    __device__ __forceinline__ void refer_to(float (&highest)[2], bool& irregular) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int step = 4; step < 32; step *= 2)
                highest[i] = fmaxf(highest[i], __shfl_xor_sync(~0u, highest[i], step));
            irregular |= highest[i] == INFINITY;
            if (!(highest[i] > reference[i]) || !(highest[i] < INFINITY)) {
                highest[i] = 1.0f;  // the factor
                continue;
            }
            const float factor = ptx::exp2_fast(reference[i] - highest[i]);
            reference[i] = highest[i];
            highest[i] = factor;
        }
#pragma unroll
        for (int i = 0; i < Math::tiles * 4; ++i)
            o[i / 4][i % 4] = Math::scaled(o[i / 4][i % 4], highest[i % 2]);
#pragma unroll
        for (int i = 0; i < 4; ++i) total[i] = Math::scaled(total[i], highest[i % 2]);
    }
};

// Divides by the sums and writes. Returns a bit for each query that is still to be computed, by
// one_query, since its sums are not finite.
template <class Math>
__device__ __forceinline__ uint32_t write_bundle(const slab_arguments& args, const head_place& at,
                                                 int64_t first, bool irregular,
                                                 query_bundle<Math>& queries) {
    const int lane = threadIdx.x & 31;
    const auto& call = args.call;
    const scale_reader v_scale =
        scales_of_head(call.shape.v_scale, call.v_scale,
                       at.batch * call.shape.kv_heads + call.kv_head_of(at.head), Math::dim);
    float factor[2];
    bool some[2], inside[2], again[2];
    int64_t row[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        auto total = static_cast<float>(queries.total[i]);
        for (int step = 4; !Math::integers && step < 32; step *= 2)
            total += __shfl_xor_sync(~0u, total, step);
        const int64_t query = first + lane % 4 * 2 + i;
        inside[i] = query < call.pattern.rows;
        row[i] = call.out.row(at.batch, at.head, inside[i] ? query : 0);
        some[i] = queries.reference[i] > no_reference;
        again[i] = irregular || !(total < INFINITY);  // NaN where a score was
        factor[i] = div_rn(1.0f, total);
        if (call.log_sum_exp && inside[i] && lane / 4 == 0) {
            const float statistic = (queries.reference[i] - Math::unit_log2) * ln_2 + logf(total);
            call.log_sum_exp[call.statistic_index(at.batch, at.head, query)] =
                some[i] ? statistic : -INFINITY;
        }
    }
#pragma unroll
    for (int tile = 0; tile < Math::tiles; ++tile) {
        const int d = tile * 16 + Math::first_column(lane);
        typename Math::sum sums[2][2];
        Math::arrange(queries.o[tile], sums);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float y[2];
#pragma unroll
            for (int b = 0; b < 2; ++b) {
                const auto sum = static_cast<float>(sums[i][b]);
                again[i] |= !(fabsf(sum) < INFINITY);
                y[b] = some[i] ? sum * factor[i] * v_scale[d + b] : 0.0f;
            }
            if (!inside[i]) continue;
            if (args.paired_out && call.shape.out_type == dtype::fp16) {
                *reinterpret_cast<uint32_t*>(static_cast<half*>(call.out.values) + row[i] + d) =
                    ptx::pack_fp16(y[0], y[1]);
            } else {
#pragma unroll
                for (int b = 0; b < 2; ++b)
                    magicube::cuda::store_element(call.out.values, call.shape.out_type,
                                                  row[i] + d + b, y[b]);
            }
        }
    }
    uint32_t queries_left = 0;
    const uint32_t even = __ballot_sync(~0u, again[0] && inside[0]);
    const uint32_t odd = __ballot_sync(~0u, again[1] && inside[1]);
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if ((i % 2 == 0 ? even : odd) & 0x11111111u << (i / 2)) queries_left |= 1u << i;
    return queries_left;
}

}  // namespace magicube::attention::sm90
