// SPDX-License-Identifier: Apache-2.0
#include "core/prune/obs.hpp"

#include <cmath>

#include "core/common/pointers.hpp"
#include "core/formats/validate.hpp"
#include "core/prune/obs_forms.hpp"
#include "core/types/overlap.hpp"

namespace magicube {
namespace {

constexpr size_t workspace_alignment = 16;

void require_floating(const dense_view& m, const char* argument) {
    require_value(is_floating(m.type), argument, " is of type ", name_of(m.type),
                  "; it must be a floating type");
}

void check_curvature(const dense_view& weight, const dense_view& curvature, curvature_kind kind) {
    require_floating(curvature, "curvature");
    const int64_t rows = curvature.rows;
    const int64_t cols = curvature.cols;
    switch (kind) {
        case curvature_kind::inputs:
            require_value(cols == weight.cols, "curvature, of layer inputs, has ", cols,
                          " columns; weight has ", weight.cols);
            break;
        case curvature_kind::hessian:
            require_value(rows == weight.cols && cols == weight.cols, "curvature, a Hessian, is ",
                          rows, " x ", cols, "; it must be ", weight.cols, " x ", weight.cols);
            require_value(curvature.batch_count == 1, "curvature, a Hessian, is a batch of ",
                          curvature.batch_count, "; it must be one matrix");
            break;
        case curvature_kind::gradients:
            require_value(rows == weight.rows && cols == weight.cols,
                          "curvature, of gradients, is ", rows, " x ", cols, "; it must be ",
                          weight.rows, " x ", weight.cols, " as weight is");
            break;
    }
    require_value(curvature.batch_count >= 1 && (rows > 0 || weight.empty()),
                  "curvature is empty; it must hold at least one sample");
}

void check_params(const obs_params& params) {
    require_vnm(params.pattern);
    const bool gradients = params.curvature == curvature_kind::gradients;
    require_value(std::isfinite(params.damping) && params.damping >= 0, "params->damping is ",
                  params.damping, "; it must be finite and not negative");
    require_value(!gradients || params.damping > 0,
                  "params->damping is 0; with gradients it must be positive");
    require_value(!gradients || (params.fisher_block >= 1 && params.fisher_block <= 256),
                  "params->fisher_block is ", params.fisher_block, "; it must be from 1 to 256");
}

}  // namespace

size_t prune_obs_workspace(const context& ctx, const dense_view& weight,
                           const dense_view& curvature, const obs_params& params) {
    require_cpu(ctx, "second-order pruning");
    check_params(params);
    require_floating(weight, "weight");
    require_value(weight.batch_count == 1, "weight is a batch of ", weight.batch_count,
                  "; it must be one matrix");
    check_curvature(weight, curvature, params.curvature);
    if (weight.empty()) return 0;
    return static_cast<size_t>(params.curvature == curvature_kind::gradients
                                   ? fisher_form_bytes(ctx, weight, curvature, params)
                                   : layer_form_bytes(ctx, weight, params));
}

void prune_obs(const context& ctx, const obs_operands& operands, const obs_params& params,
               void* workspace, size_t workspace_size) {
    const obs_operands& o = operands;
    const size_t needed = prune_obs_workspace(ctx, o.weight, o.curvature, params);
    check_mask(o.mask, o.weight);
    require_floating(o.updated, "updated");
    require_same_shape(shape_of(o.updated), "updated", shape_of(o.weight), "weight");
    check_no_overlap(o.mask, "mask", o.curvature, "curvature");
    check_no_overlap(o.updated, "updated", o.weight, "weight");
    check_no_overlap(o.updated, "updated", o.curvature, "curvature");
    check_no_overlap(o.updated, "updated", o.mask, "mask");
    require_workspace(workspace, workspace_size, needed, workspace_alignment);
    if (ctx.validates()) {
        require_finite(ctx, o.weight, "weight");
        require_finite(ctx, o.curvature, "curvature");
    }
    if (o.weight.empty()) return;
    if (params.curvature == curvature_kind::gradients) {
        prune_fisher_form(ctx, o, params, workspace);
    } else {
        prune_layer_form(ctx, o, params, workspace);
    }
}

}  // namespace magicube
