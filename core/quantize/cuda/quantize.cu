// SPDX-License-Identifier: Apache-2.0
#include "core/quantize/cuda/quantize.hpp"

#include "core/formats/cuda/launch.cuh"
#include "core/quantize/cuda/scales.hpp"
#include "core/quantize/cuda/transform.hpp"

namespace magicube::cuda {
namespace {

// Bytes of one matrix's numbers as fp32.
int64_t numbers_bytes(const dense_view& real) {
    const int64_t count = checked_mul(real.rows, real.cols, "scratch");
    return checked_mul(round_up(count, 4), sizeof(float), "scratch");
}

int64_t groups_of(const quantize_params& params, const dense_view& real) {
    return group_count(params.per, real.rows, real.cols);
}

// The copy of one matrix of the batch, its members as they are ranked or calibrated.
dense_view gather_groups(const context& ctx, const dense_view& real, int64_t batch,
                         const quantize_params& params, void* scratch) {
    const group_copy copy(real, batch, params.per, scratch);
    const bool ranks = params.how == calibration::percentile;
    transform(ctx, copy.from, copy.to, ranks ? number_op::magnitude : number_op::copy,
              scale_array());
    return copy.to;
}

void find_scales(const context& ctx, const dense_view& real, int64_t batch,
                 const quantize_params& params, dtype target, float* scales, void* workspace) {
    const int64_t groups = groups_of(params, real);
    if (real.empty() || params.how == calibration::absmax) {
        find_absmax(ctx, real, batch, params.per, scales);
        scales_from_absmax(ctx, groups, target, scales);
        return;
    }
    const dense_view gathered = gather_groups(ctx, real, batch, params, workspace);
    find_absmax(ctx, gathered, 0, params.per, scales);
    const grouped_numbers all{static_cast<const float*>(workspace), groups,
                              real.rows * real.cols / groups};
    void* scratch = static_cast<char*>(workspace) + numbers_bytes(real);
    if (params.how == calibration::mse) return search_scales(ctx, all, target, scales, scratch);
    percentile_scales(ctx, all, params.percentile, target, scales, scratch);
}

}  // namespace

size_t quantize_workspace(const dense_view& real, const quantize_params& params) {
    const int64_t groups = groups_of(params, real);
    const size_t scratch = params.how == calibration::mse
                               ? search_scratch(groups, real.rows * real.cols / groups)
                               : percentile_scratch(groups);
    return static_cast<size_t>(
        checked_add(numbers_bytes(real), static_cast<int64_t>(scratch), "scratch"));
}

void quantize(const context& ctx, const dense_view& real, const quantize_params& params,
              const dense_view& quantized, float* scales, int64_t scale_stride, void* workspace) {
    const int64_t groups = groups_of(params, real);
    if (real.batch_count == 0 || groups == 0) return;
    device_scope scope(ctx.ordinal);
    cuda::require_on_device(ctx, scales, "scales");
    if (!real.empty()) {
        cuda::require_on_device(ctx, real.values, "real");
        cuda::require_on_device(ctx, quantized.values, "quantized");
        const bool gathers =
            params.how == calibration::percentile || params.how == calibration::mse;
        if (gathers) cuda::require_on_device(ctx, workspace, "workspace");
    }
    for (int64_t batch = 0; params.how != calibration::given && batch < real.batch_count; ++batch) {
        find_scales(ctx, real, batch, params, quantized.type, scales + batch * scale_stride,
                    workspace);
    }
    transform(ctx, real, quantized, number_op::quantize,
              scale_array(scales, params.per, scale_stride));
}

}  // namespace magicube::cuda
