// SPDX-License-Identifier: Apache-2.0
// What every CUDA kernel of the sparse softmax is told about an execution.
#pragma once

#include "core/ops/cuda/operands.hpp"
#include "core/ops/softmax/softmax.hpp"

namespace magicube::softmax::cuda {

struct score_arguments {
    sr_bcrs_view pattern;
    const void* scores;
    const float* bias;  // null: none
    void* out;
    float* out_scale;
    dtype in_type;
    dtype out_type;
    int64_t in_stride;  // elements between the arrays of a batch. So for the next three
    int64_t out_stride;
    int64_t bias_stride;
    int64_t out_scale_stride;
    int64_t batch_count;
    magicube::cuda::scalar alpha;
    magicube::cuda::batched_scales row_scale;
    magicube::cuda::batched_scales col_scale;

    // Index of an element in arrays that are `stride` apart.
    MAGICUBE_HOST_DEVICE int64_t index(int64_t batch, int64_t stride, int64_t slot,
                                       int64_t v) const {
        return batch * stride + pattern.value_index(0, slot, v);
    }
};

// `pattern` is the plan's copy. Throws device_mismatch if an array of the execution lies elsewhere.
inline score_arguments make_scores(const context& ctx, const problem& p,
                                   const sr_bcrs_view& pattern, const arguments& args) {
    magicube::cuda::require_operands(ctx, {{args.scores, "scores"},
                                           {args.out, "out"},
                                           {args.row_scale, "args->row_scale"},
                                           {args.col_scale, "args->col_scale"},
                                           {p.bias ? args.bias : nullptr, "args->bias"},
                                           {args.out_scale, "args->out_scale"}});
    const bool shared = pattern.different_patterns;  // all matrices share one array
    score_arguments s{};
    s.pattern = pattern;
    s.scores = args.scores;
    s.bias = p.bias ? args.bias : nullptr;
    s.out = args.out;
    s.out_scale = args.out_scale;
    s.in_type = p.in_type;
    s.out_type = p.out_type;
    s.in_stride = shared ? 0 : value_stride(pattern, p.in_batch_stride);
    s.out_stride = shared ? 0 : value_stride(pattern, p.out_batch_stride);
    s.bias_stride = shared ? 0 : p.bias_batch_stride;
    s.out_scale_stride = p.out_scale_stride();
    s.batch_count = p.batch_count;
    s.alpha = magicube::cuda::scalar_argument(ctx, args.alpha, 1);
    s.row_scale = magicube::cuda::scales_on_device(p.row_scale, args.row_scale);
    s.col_scale = magicube::cuda::scales_on_device(p.col_scale, args.col_scale);
    magicube::cuda::require_operands(ctx, {{s.alpha.pointer, "alpha"}});
    return s;
}

}  // namespace magicube::softmax::cuda
