// SPDX-License-Identifier: Apache-2.0
// Second-order pruning to V:N:M: the optimal brain surgeon. Formulas and sources: prune.h.
#pragma once

#include "core/prune/vnm.hpp"

namespace magicube {

// Same numbers as magicubeCurvature_t and magicubeObsSelection_t; capi asserts it.
enum class curvature_kind : int { inputs = 0, hessian = 1, gradients = 2 };
enum class obs_selection : int { exhaustive = 0, pairwise = 1 };

struct obs_params {
    vnm_pattern pattern;
    curvature_kind curvature = curvature_kind::inputs;
    obs_selection selection = obs_selection::exhaustive;
    double damping = 0.01;  // of the curvature's mean diagonal
    int32_t fisher_block = 16;
    bool refit = true;
};

// The matrices of one call.
struct obs_operands {
    dense_view weight;
    dense_view curvature;
    dense_view mask;     // output
    dense_view updated;  // output
};

// Checks shapes, types and params, and returns the bytes of scratch that prune_obs needs.
size_t prune_obs_workspace(const context& ctx, const dense_view& weight,
                           const dense_view& curvature, const obs_params& params);

void prune_obs(const context& ctx, const obs_operands& operands, const obs_params& params,
               void* workspace, size_t workspace_size);

}  // namespace magicube
