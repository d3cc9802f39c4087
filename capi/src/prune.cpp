// SPDX-License-Identifier: Apache-2.0
#include "magicube/prune.h"

#include "core/prune/obs.hpp"
#include "core/prune/prune.hpp"
#include "core/prune/vnm.hpp"
#include "descriptors.hpp"

using namespace magicube;
using namespace magicube::capi;

static_assert(static_cast<int>(prune_norm::l2) == MAGICUBE_NORM_L2);
static_assert(static_cast<int>(prune_norm::l1) == MAGICUBE_NORM_L1);
static_assert(static_cast<int>(prune_scope::matrix) == MAGICUBE_PRUNE_PER_MATRIX);
static_assert(static_cast<int>(prune_scope::row) == MAGICUBE_PRUNE_PER_ROW);
static_assert(static_cast<int>(curvature_kind::inputs) == MAGICUBE_CURVATURE_INPUTS);
static_assert(static_cast<int>(curvature_kind::hessian) == MAGICUBE_CURVATURE_HESSIAN);
static_assert(static_cast<int>(curvature_kind::gradients) == MAGICUBE_CURVATURE_GRADIENTS);
static_assert(static_cast<int>(obs_selection::exhaustive) == MAGICUBE_OBS_EXHAUSTIVE);
static_assert(static_cast<int>(obs_selection::pairwise) == MAGICUBE_OBS_PAIRWISE);

namespace {

prune_params read_params(const magicubePruneParams_t* given) {
    const magicubePruneParams_t defaults = MAGICUBE_PRUNE_PARAMS_INIT;
    const auto params = read_struct(given, defaults, "params");
    prune_params result;
    result.vector_length = params.vector_length;
    result.scope =
        to_core<prune_scope>(params.scope, 0, 1, "params->scope", "magicubePruneScope_t");
    result.norm = to_core<prune_norm>(params.norm, 0, 1, "params->norm", "magicubePruneNorm_t");
    result.sparsity = params.sparsity;
    result.keep = params.keep;
    return result;
}

struct vnm_params {
    vnm_pattern pattern;
    prune_norm norm;
};

vnm_params read_params(const magicubePruneVnmParams_t* given) {
    const magicubePruneVnmParams_t defaults = MAGICUBE_PRUNE_VNM_PARAMS_INIT;
    const auto params = read_struct(given, defaults, "params");
    return {{params.vector_length, params.n, params.m},
            to_core<prune_norm>(params.norm, 0, 1, "params->norm", "magicubePruneNorm_t")};
}

obs_params read_params(const magicubePruneVnmObsParams_t* given) {
    const magicubePruneVnmObsParams_t defaults = MAGICUBE_PRUNE_VNM_OBS_PARAMS_INIT;
    const auto params = read_struct(given, defaults, "params");
    obs_params result;
    result.pattern = {params.vector_length, params.n, params.m};
    result.curvature =
        to_core<curvature_kind>(params.curvature, 0, 2, "params->curvature", "magicubeCurvature_t");
    result.selection = to_core<obs_selection>(params.selection, 0, 1, "params->selection",
                                              "magicubeObsSelection_t");
    result.damping = params.damping;
    result.fisher_block = params.fisher_block;
    result.refit = params.refit != 0;
    return result;
}

}  // namespace

magicubeStatus_t magicubePrune_bufferSize(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                          const magicubePruneParams_t* params,
                                          size_t* bytes) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        auto& result = deref(bytes, "bytes");
        result = prune_workspace(ctx, get_shape(weight, "weight"), read_params(params));
    });
}

magicubeStatus_t magicubePrune(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                               const magicubePruneParams_t* params, magicubeDnMatDescr_t mask,
                               void* workspace, size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        prune(ctx, get(weight, "weight"), read_params(params), get_output(mask, "mask"), workspace,
              workspace_size);
    });
}

magicubeStatus_t magicubePruneVnm_bufferSize(magicubeHandle_t handle,
                                             magicubeConstDnMatDescr_t weight,
                                             const magicubePruneVnmParams_t* params,
                                             size_t* bytes) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        auto& result = deref(bytes, "bytes");
        result = prune_vnm_workspace(ctx, get_shape(weight, "weight"), read_params(params).pattern);
    });
}

magicubeStatus_t magicubePruneVnm(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                  const magicubePruneVnmParams_t* params, magicubeDnMatDescr_t mask,
                                  void* workspace, size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        const auto& input = get(weight, "weight");
        const vnm_params how = read_params(params);
        prune_vnm(ctx, input, how.pattern, how.norm, get_output(mask, "mask"), workspace,
                  workspace_size);
    });
}

magicubeStatus_t magicubePruneVnmObs_bufferSize(magicubeHandle_t handle,
                                                magicubeConstDnMatDescr_t weight,
                                                magicubeConstDnMatDescr_t curvature,
                                                const magicubePruneVnmObsParams_t* params,
                                                size_t* bytes) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        auto& result = deref(bytes, "bytes");
        result = prune_obs_workspace(ctx, get_shape(weight, "weight"),
                                     get_shape(curvature, "curvature"), read_params(params));
    });
}

magicubeStatus_t magicubePruneVnmObs(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                     magicubeConstDnMatDescr_t curvature,
                                     const magicubePruneVnmObsParams_t* params,
                                     magicubeDnMatDescr_t mask, magicubeDnMatDescr_t updated,
                                     void* workspace, size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        obs_operands operands;
        operands.weight = get(weight, "weight");
        operands.curvature = get(curvature, "curvature");
        const obs_params how = read_params(params);
        operands.mask = get_output(mask, "mask");
        operands.updated = get_output(updated, "updated");
        prune_obs(ctx, operands, how, workspace, workspace_size);
    });
}

magicubeStatus_t magicubeVnmSchedule(int32_t m, int32_t n, int32_t steps,
                                     int32_t* schedule) noexcept {
    return MAGICUBE_GUARDED({ vnm_schedule(m, n, steps, schedule); });
}

magicubeStatus_t magicubeKeptEnergy(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                    magicubeConstDnMatDescr_t mask, double* share) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto& result = deref(share, "share");
        result = kept_energy(ctx, get(weight, "weight"), get(mask, "mask"));
    });
}
