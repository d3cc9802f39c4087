// SPDX-License-Identifier: Apache-2.0
#include "magicube/prune.h"

#include "core/prune/prune.hpp"
#include "descriptors.hpp"

using namespace magicube;
using namespace magicube::capi;

static_assert(static_cast<int>(prune_norm::l2) == MAGICUBE_NORM_L2);
static_assert(static_cast<int>(prune_norm::l1) == MAGICUBE_NORM_L1);
static_assert(static_cast<int>(prune_scope::matrix) == MAGICUBE_PRUNE_PER_MATRIX);
static_assert(static_cast<int>(prune_scope::row) == MAGICUBE_PRUNE_PER_ROW);

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
