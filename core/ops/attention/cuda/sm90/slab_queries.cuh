// SPDX-License-Identifier: Apache-2.0
// 8 queries of a warp of the slab kernel: their rows of Q, statistics and sums. A lane (g, t) has
// queries 2t and 2t + 1.
#pragma once

#include "core/ops/attention/cuda/one_query.cuh"
#include "core/ops/attention/cuda/sm90/slab_math.cuh"

namespace magicube::attention::sm90 {

constexpr float ln_2 = 0.69314718f;

// Which query head of which matrix a tile belongs to.
struct head_place {
    int64_t batch, head, kv_head;
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
    float shift[2];    // added to scores in bits: less the reference of the exponentials
    float q_scale[2];  // integers: of the two queries; floats: softmax scale times log2(e)

    // irregular: set where one_query has to compute the queries, since scales or scores are not
    // finite or the scale is not positive. So for take.
    __device__ void start(const slab_arguments& args, const head_place& at, int first,
                          bool& irregular) {
        const int lane = threadIdx.x & 31;
        const auto& call = args.call;
        const auto last = static_cast<int>(call.pattern.rows - 1);
        const int own = min(first + lane / 4, last);
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

    __device__ __forceinline__ typename Math::exponentials exponentials_of(
        const float (&s)[2][4]) const {
        return typename Math::exponentials(s, q_scale, shift);
    }
    // Where one of the exponentials is too high, the reference moves and the sums with it.
    __device__ __forceinline__ void refer(const float (&s)[2][4], float first_log2,
                                          typename Math::exponentials& e, bool& irregular) {
        if (!__any_sync(~0u, e.over)) return;
        refer_to(s, first_log2);
        e = exponentials_of(s);
        irregular |= e.over;  // NaN or infinite
    }
    // Counts the probabilities.
    __device__ __forceinline__ typename Math::probabilities take(
        const typename Math::exponentials& e) {
        const typename Math::probabilities p(e);
        total.add(e, p);
        return p;
    }

  private:
    __device__ __forceinline__ void refer_to(const float (&s)[2][4], float first_log2) {
        typename Math::factor factor[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float highest =
                fmaxf(fmaxf(s[0][i], s[0][i + 2]), fmaxf(s[1][i], s[1][i + 2])) * q_scale[i];
#pragma unroll
            for (int step = 4; step < 32; step *= 2)
                highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, step));
            factor[i] = Math::unscaled;
            if (shift[i] + highest > Math::most_log2 && highest < INFINITY)
                factor[i] = Math::move(highest, first_log2, shift[i]);
        }
#pragma unroll
        for (int i = 0; i < Math::tiles * 4; ++i)
            o[i / 4][i % 4] = Math::scaled(o[i / 4][i % 4], factor[i % 2]);
        total.scale(factor);
    }
};

// The scales of V for the columns that a lane writes.
template <class Math>
struct value_scales {
    float of[Math::tiles][2];

    __device__ __forceinline__ value_scales(const cuda::kernel_arguments& call,
                                            const head_place& at) {
        const scale_reader scales =
            scales_of_head(call.shape.v_scale, call.v_scale,
                           at.batch * call.shape.kv_heads + at.kv_head, Math::dim);
        const int column = Math::first_column(threadIdx.x & 31);
#pragma unroll
        for (int i = 0; i < Math::tiles * 2; ++i)
            of[i / 2][i % 2] = scales[i / 2 * 16 + column + i % 2];
    }
};

// Divides by the sums and writes. Returns a bit for each query that is still to be computed, by
// one_query, since its sums are not finite.
template <class Math>
__device__ __forceinline__ uint32_t write_bundle(const slab_arguments& args, const head_place& at,
                                                 int first, bool irregular,
                                                 const value_scales<Math>& scales,
                                                 query_bundle<Math>& queries) {
    const int lane = threadIdx.x & 31;
    const auto& call = args.call;
    float factor[2], total[2];
    bool inside[2], again[2];
    int64_t place[2];
    queries.total.read(total);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int query = first + lane % 4 * 2 + i;
        inside[i] = query < call.pattern.rows;
        place[i] = call.out.row(at.batch, at.head, query) + Math::first_column(lane);
        const bool some = queries.shift[i] < no_shift;
        again[i] = irregular || !(total[i] < INFINITY);  // NaN where a score was
        factor[i] = some ? div_rn(1.0f, total[i]) : 0.0f;
        if (call.log_sum_exp && inside[i] && lane / 4 == 0) {
            const float statistic = logf(total[i]) - queries.shift[i] * ln_2;
            call.log_sum_exp[call.statistic_index(at.batch, at.head, query)] =
                some ? statistic : -INFINITY;
        }
    }
    float y[2][Math::tiles][2];
#pragma unroll
    for (int tile = 0; tile < Math::tiles; ++tile) {
        typename Math::sum sums[2][2];
        Math::arrange(queries.o[tile], sums);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const auto sum = static_cast<float>(sums[i / 2][i % 2]);
            if constexpr (!Math::integers) again[i / 2] |= !(fabsf(sum) < INFINITY);
            y[i / 2][tile][i % 2] = sum * factor[i / 2] * scales.of[tile][i % 2];
        }
    }
    const bool halves = call.shape.out_type == dtype::fp16;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (!inside[i]) continue;
        if (args.paired_out) {
            auto* target = static_cast<uint16_t*>(call.out.values) + place[i];
#pragma unroll
            for (int tile = 0; tile < Math::tiles; ++tile)
                *reinterpret_cast<uint32_t*>(target + tile * 16) =
                    halves ? ptx::pack_fp16(y[i][tile][0], y[i][tile][1])
                           : ptx::pack_bf16(y[i][tile][0], y[i][tile][1]);
            continue;
        }
#pragma unroll
        for (int tile = 0; tile < Math::tiles * 2; ++tile)
            magicube::cuda::store_element(call.out.values, call.shape.out_type,
                                          place[i] + tile / 2 * 16 + tile % 2,
                                          y[i][tile / 2][tile % 2]);
    }
    if (Math::integers && !irregular) return 0;
    uint32_t queries_left = 0;
    const uint32_t even = __ballot_sync(~0u, again[0] && inside[0]);
    const uint32_t odd = __ballot_sync(~0u, again[1] && inside[1]);
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if ((i % 2 == 0 ? even : odd) & 0x11111111u << (i / 2)) queries_left |= 1u << i;
    return queries_left;
}

}  // namespace magicube::attention::sm90
