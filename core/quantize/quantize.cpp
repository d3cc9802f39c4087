// SPDX-License-Identifier: Apache-2.0
#include "core/quantize/quantize.hpp"

#include "core/common/pointers.hpp"
#include "core/formats/validate.hpp"
#include "core/quantize/cuda/dequantize.hpp"
#include "core/quantize/cuda/quantize.hpp"
#include "core/quantize/rounding.hpp"
#include "core/quantize/tiles.hpp"
#include "core/types/overlap.hpp"

namespace magicube {
namespace {

constexpr size_t workspace_alignment = 16;

void check_real(const dense_view& real) {
    require(real.type == dtype::fp32 || real.type == dtype::fp16 || real.type == dtype::bf16,
            status::not_supported, "real is of type ", name_of(real.type),
            "; it must be fp32, fp16 or bf16");
}

int64_t groups_of(const quantize_params& params, const dense_view& real) {
    return group_count(params.per, real.rows, real.cols);
}

int64_t stride_of(const quantize_params& params, const dense_view& real) {
    return params.scale_batch_stride == -1 ? groups_of(params, real) : params.scale_batch_stride;
}

// Granularity, and the scales of the batch: apart where they are written.
void check_grouping(const quantize_params& params, const dense_view& real, bool writes_scales) {
    require_value(params.per != granularity::none,
                  "params->granularity is NONE; it must be TENSOR, ROW or COL");
    const int64_t stride = params.scale_batch_stride;
    require_value(stride >= -1, "params->scale_batch_stride is ", stride,
                  "; it must be at least 0, or -1 for densely packed");
    const int64_t groups = groups_of(params, real);
    if (real.batch_count < 2) return;
    require_value(!writes_scales || stride == -1 || stride >= groups,
                  "params->scale_batch_stride is ", stride, "; it must be at least ", groups,
                  ", the scales of one matrix, for they are written");
    checked_mul(checked_add(checked_mul(real.batch_count - 1, stride_of(params, real), "scales"),
                            groups, "scales"),
                sizeof(float), "scales");
}

void check_scale_array(const quantize_params& params, const dense_view& real, const float* scales) {
    const int64_t groups = real.batch_count == 0 ? 0 : groups_of(params, real);
    require_array(scales, groups, sizeof(float), "scales");
}

// Scales that the caller gives.
void check_given_scales(const context& ctx, const quantize_params& params, const dense_view& real,
                        const float* scales, scale_rule rule) {
    validate_scales(ctx, scales, groups_of(params, real), real.batch_count, stride_of(params, real),
                    rule, "scales");
}

}  // namespace

size_t quantize_workspace(const context& ctx, const dense_view& real, const quantize_params& params,
                          const dense_view& quantized) {
    check_real(real);
    require(quantized.type == dtype::int4 || quantized.type == dtype::int8 ||
                quantized.type == dtype::int12 || quantized.type == dtype::int16,
            status::not_supported, "quantized is of type ", name_of(quantized.type),
            "; it must be int4, int8, int12 or int16");
    require_same_shape(shape_of(quantized), "quantized", shape_of(real), "real");
    check_grouping(params, real, params.how != calibration::given);
    if (params.how == calibration::percentile) {
        require_value(params.percentile > 0 && params.percentile <= 100, "params->percentile is ",
                      params.percentile, "; it must be above 0 and at most 100");
    }
    if (params.how != calibration::percentile && params.how != calibration::mse) return 0;
    if (real.empty()) return 0;
    if (!ctx.on_cpu()) return cuda::quantize_workspace(real, params);
    return static_cast<size_t>(
        checked_mul(checked_mul(real.rows, real.cols, "scratch"), sizeof(float), "scratch"));
}

void quantize(const context& ctx, const dense_view& real, const quantize_params& params,
              const dense_view& quantized, float* scales, void* workspace, size_t workspace_size) {
    require_workspace(workspace, workspace_size, quantize_workspace(ctx, real, params, quantized),
                      workspace_alignment);
    check_scale_array(params, real, scales);
    check_no_overlap(quantized, "quantized", real, "real");
    if (ctx.validates()) require_finite(ctx, real, "real");
    const int64_t stride = stride_of(params, real);
    if (!ctx.on_cpu()) {
        cuda::quantize(ctx, real, params, quantized, scales, stride, workspace);
        return;
    }
    if (params.how == calibration::given) {
        check_given_scales(ctx, params, real, scales, scale_rule::positive);
    } else if (groups_of(params, real) > 0) {
        for (int64_t batch = 0; batch < real.batch_count; ++batch) {
            find_scales(ctx, real, batch, params.per, params.how, params.percentile, quantized.type,
                        scales + batch * stride, static_cast<float*>(workspace));
        }
    }
    const quantizer round(quantized.type);
    transform(ctx, real, quantized, scale_array(scales, params.per, stride),
              [&](float* x, const float* scale, int64_t count) {
                  for (int64_t i = 0; i < count; ++i) x[i] = round(x[i], scale[i]);
              });
}

void dequantize(const context& ctx, const dense_view& quantized, const quantize_params& params,
                const float* scales, const dense_view& real) {
    require(is_integer(quantized.type), status::not_supported, "quantized is of type ",
            name_of(quantized.type), "; it must be int4, int8, uint8, int12, int16 or int32");
    check_real(real);
    require_same_shape(shape_of(real), "real", shape_of(quantized), "quantized");
    check_grouping(params, real, false);
    check_scale_array(params, real, scales);
    check_no_overlap(real, "real", quantized, "quantized");
    const scale_array lookup(scales, params.per, stride_of(params, real));
    if (!ctx.on_cpu()) {
        cuda::dequantize(ctx, quantized, lookup, real);
        return;
    }
    check_given_scales(ctx, params, real, scales, scale_rule::finite);
    transform(ctx, quantized, real, lookup, [](float* x, const float* scale, int64_t count) {
        for (int64_t i = 0; i < count; ++i) x[i] *= scale[i];
    });
}

}  // namespace magicube
