// SPDX-License-Identifier: Apache-2.0
// What every CUDA kernel of SDDMM is told about the pattern, the output and the epilogue.
#pragma once

#include "core/ops/cuda/operands.hpp"
#include "core/ops/sddmm/sddmm.hpp"

namespace magicube::sddmm::cuda {

struct output_arguments {
    sr_bcrs_view pattern;  // its values are the output
    dtype type;
    magicube::cuda::scalar alpha;
    magicube::cuda::batched_scales a_scale;
    magicube::cuda::batched_scales b_scale;
    magicube::cuda::batched_scales out_scale;

    // The epilogue of one matrix of the batch.
    MAGICUBE_HOST_DEVICE epilogue epilogue_of(int64_t batch) const {
        epilogue e;
        e.alpha = alpha.get();
        e.a_scale = a_scale.at(batch);
        e.b_scale = b_scale.at(batch);
        e.reciprocal = div_rn(1.0f, out_scale.at(batch)[0]);
        return e;
    }
};

// `pattern` is the plan's copy. Throws device_mismatch if an array of the execution lies elsewhere.
inline output_arguments make_output(const context& ctx, const problem& p,
                                    const sr_bcrs_view& pattern, const arguments& args) {
    magicube::cuda::require_operands(ctx, {{args.a.values, "A"},
                                           {args.b.values, "B"},
                                           {args.values, "values"},
                                           {args.a_scale, "args->a_scale"},
                                           {args.b_scale, "args->b_scale"},
                                           {args.out_scale, "args->out_scale"}});
    output_arguments out{pattern,
                         p.out_type,
                         magicube::cuda::scalar_argument(ctx, args.alpha, 1),
                         magicube::cuda::scales_on_device(p.a_scale, args.a_scale),
                         magicube::cuda::scales_on_device(p.b_scale, args.b_scale),
                         magicube::cuda::scales_on_device(p.out_scale, args.out_scale)};
    magicube::cuda::require_operands(ctx, {{out.alpha.pointer, "alpha"}});
    out.pattern.values = args.values;
    out.pattern.values_stride = value_stride(pattern, p.out_batch_stride);
    return out;
}

}  // namespace magicube::sddmm::cuda
