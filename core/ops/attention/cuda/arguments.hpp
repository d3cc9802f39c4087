// SPDX-License-Identifier: Apache-2.0
// What every CUDA kernel of attention is told about an execution.
#pragma once

#include <cmath>

#include "core/ops/attention/allowed_keys.hpp"
#include "core/ops/cuda/operands.hpp"

namespace magicube::attention::cuda {

struct kernel_arguments {
    problem shape;  // its pattern's pointers are null
    sr_bcrs_view pattern;
    tensor q, k, v, out;
    const int64_t* causal_offsets;
    const int64_t* key_lengths;
    float* log_sum_exp;
    magicube::cuda::scalar scale;
    int64_t tasks;
    const float* q_scale;  // null where the problem names none; so for the next two
    const float* k_scale;
    const float* v_scale;

    MAGICUBE_HOST_DEVICE int64_t kv_head_of(int64_t head) const {
        return head / (shape.q_heads / shape.kv_heads);
    }
    MAGICUBE_HOST_DEVICE int64_t statistic_index(int64_t batch, int64_t head, int64_t query) const {
        return (batch * shape.q_heads + head) * pattern.rows + query;
    }
};

// `pattern` is the plan's copy. Throws device_mismatch if an array of the execution lies elsewhere.
inline kernel_arguments make_arguments(const context& ctx, const problem& p,
                                       const sr_bcrs_view& pattern, const arguments& args) {
    kernel_arguments k{p,       pattern, args.q, args.k, args.v,  args.out, nullptr,
                       nullptr, nullptr, {},     0,      nullptr, nullptr,  nullptr};
    if (p.causal_offsets) k.causal_offsets = args.causal_offsets;
    if (p.key_lengths) k.key_lengths = args.key_lengths;
    if (p.log_sum_exp) k.log_sum_exp = args.log_sum_exp;
    if (p.q_scale != granularity::none) k.q_scale = args.q_scale;
    if (p.k_scale != granularity::none) k.k_scale = args.k_scale;
    if (p.v_scale != granularity::none) k.v_scale = args.v_scale;
    const auto standard = static_cast<float>(1 / std::sqrt(static_cast<double>(p.head_dim)));
    k.scale = magicube::cuda::scalar_argument(ctx, args.scale, standard);
    magicube::cuda::require_operands(ctx, {{args.q.values, "q"},
                                           {args.k.values, "k"},
                                           {args.v.values, "v"},
                                           {args.out.values, "out"},
                                           {k.causal_offsets, "args->causal_offsets"},
                                           {k.key_lengths, "args->key_lengths"},
                                           {k.log_sum_exp, "args->log_sum_exp"},
                                           {k.q_scale, "args->q_scale"},
                                           {k.k_scale, "args->k_scale"},
                                           {k.v_scale, "args->v_scale"},
                                           {k.scale.pointer, "scale"}});
    return k;
}

// Whether rows start on multiples of so many bytes; not of int4.
inline bool is_aligned(const tensor& t, dtype type, int64_t bytes) {
    const int64_t each = storage_bits(type) / 8;
    return reinterpret_cast<uintptr_t>(t.values) % static_cast<uintptr_t>(bytes) == 0 &&
           t.batch_stride * each % bytes == 0 && t.head_stride * each % bytes == 0 &&
           t.row_stride * each % bytes == 0;
}

}  // namespace magicube::attention::cuda
