// SPDX-License-Identifier: Apache-2.0
// 8 queries of a warp of the slab kernel: their rows of Q, statistics and sums. A lane (g, t) has
// queries 2t and 2t + 1.
#pragma once

#include "core/ops/attention/cuda/one_query.cuh"
#include "core/ops/attention/cuda/sm90/slab_math.cuh"

namespace magicube::attention::sm90 {

constexpr float ln_2 = 0.69314718f;
// What is added to scores in bits before their exponentials: of the highest one possible before the
// first key, so that any key calls for another.
constexpr float no_shift = 3e38f;

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
    __device__ __forceinline__ bool hides_none_to(int32_t key) const {
        return key <= reach && key < keys;
    }
    __device__ __forceinline__ int hidden_from(int32_t key) const {
        return key >= keys ? 8 : max(0, min(key - reach, 8));
    }
};

template <class Math>
struct query_bundle {
    using sum = typename Math::sum;

    uint32_t q[Math::query_words];
    sum o[Math::tiles][4];
    typename Math::totals total;
    float shift[2];    // unit_log2 less the reference of the exponentials; no_shift before a key
    float q_scale[2];  // integers: of the two queries; floats: softmax scale times log2(e)

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
        total = {};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            shift[i] = no_shift;
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

    // Hides the scores of the slots whose bits are set in a step's holes.
    static __device__ __forceinline__ void hide(float (&s)[2][4], uint32_t holes) {
        const uint32_t own = holes >> (threadIdx.x >> 2 & 7);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (own >> (i / 2 * 8) & 1) s[i / 4][i % 4] = -INFINITY;
    }
    // Hides the scores of keys g, g + 8, g + 16 and g + 24 from so many of the first queries.
    static __device__ __forceinline__ void hide(float (&s)[2][4], const int (&hidden)[4]) {
        const int first = (threadIdx.x & 3) * 2;
#pragma unroll
        for (int i = 0; i < 8; ++i)
            if (first + i % 2 < hidden[i / 2]) s[i / 4][i % 4] = -INFINITY;
    }

    // Scores become probabilities, and the sums are scaled to a new reference where one is due.
    __device__ __forceinline__ typename Math::probabilities take(const float (&s)[2][4],
                                                                 bool& irregular) {
        typename Math::exponentials e(s, q_scale, shift);
        if (__any_sync(~0u, e.over)) {
            refer_to(s);
            e = typename Math::exponentials(s, q_scale, shift);
            irregular |= e.over;  // NaN or infinite
        }
        const typename Math::probabilities p(e);
        total.add(e, p);
        return p;
    }

  private:
    __device__ __forceinline__ void refer_to(const float (&s)[2][4]) {
        float factor[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float highest =
                fmaxf(fmaxf(s[0][i], s[0][i + 2]), fmaxf(s[1][i], s[1][i + 2])) * q_scale[i];
#pragma unroll
            for (int step = 4; step < 32; step *= 2)
                highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
            const float due = Math::unit_log2 - highest;
            const bool better = due < shift[i] && highest < INFINITY;
            factor[i] = better ? ptx::exp2_fast(due - shift[i]) : 1.0f;
            shift[i] = better ? due : shift[i];
        }
#pragma unroll
        for (int i = 0; i < Math::tiles * 4; ++i)
            o[i / 4][i % 4] = Math::scaled(o[i / 4][i % 4], factor[i % 2]);
        total.scale(factor);
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
    float total[2];
    queries.total.read(total);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int64_t query = first + lane % 4 * 2 + i;
        inside[i] = query < call.pattern.rows;
        row[i] = call.out.row(at.batch, at.head, inside[i] ? query : 0);
        some[i] = queries.shift[i] < no_shift;
        again[i] = irregular || !(total[i] < INFINITY);  // NaN where a score was
        factor[i] = div_rn(1.0f, total[i]);
        if (call.log_sum_exp && inside[i] && lane / 4 == 0) {
            const float statistic = logf(total[i]) - queries.shift[i] * ln_2;
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
