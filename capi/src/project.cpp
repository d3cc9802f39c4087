// SPDX-License-Identifier: Apache-2.0
#include "magicube/project.h"

#include <algorithm>

#include "core/project/project.hpp"
#include "descriptors.hpp"

using namespace magicube;
using namespace magicube::capi;

static_assert(static_cast<int>(weighting::none) == MAGICUBE_WEIGHTING_NONE);
static_assert(static_cast<int>(weighting::columns) == MAGICUBE_WEIGHTING_COLUMNS);
static_assert(static_cast<int>(weighting::activations) == MAGICUBE_WEIGHTING_ACTIVATIONS);

namespace {

column_weights read_weighting(const magicubeProjectionParams_t* given,
                              magicubeConstDnMatDescr_t weights) {
    const magicubeProjectionParams_t defaults = MAGICUBE_PROJECTION_PARAMS_INIT;
    const auto params = read_struct(given, defaults, "params");
    column_weights result;
    result.kind = to_core<weighting>(params.weighting, 0, 2, "params->weighting",
                                     "magicubeProjectionWeighting_t");
    result.given = weights ? &get(weights, "weights") : nullptr;
    return result;
}

// Before anything is computed or written.
void check_report(const magicubeProjectionReport_t* report) {
    if (report) require_struct_size<magicubeProjectionReport_t>(report->struct_size, "report");
}

void tell_report(magicubeProjectionReport_t* report, const projection_report& found) {
    if (!report) return;
    magicubeProjectionReport_t told = MAGICUBE_PROJECTION_REPORT_INIT;
    told.error = found.error();
    told.norm = found.norm;
    told.relative_error = found.relative_error();
    told.least_error = found.least_error();
    told.bound = found.bound();
    write_struct(report, told, "report");
}

}  // namespace

magicubeStatus_t magicubeProjectChain(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                      magicubeConstDnMatDescr_t weights,
                                      const magicubeProjectionParams_t* params,
                                      magicubeKroneckerDescr_t chain,
                                      magicubeProjectionReport_t* report,
                                      double* step_errors) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        const auto& source = get(weight, "weight");
        const column_weights how = read_weighting(params, weights);
        check_report(report);
        const auto found = project_chain(ctx, source, how, get_output(chain, "chain"));
        tell_report(report, found);
        if (step_errors) std::copy(found.lost.begin(), found.lost.end(), step_errors);
    });
}

magicubeStatus_t magicubeProjectSupports(magicubeHandle_t handle, magicubeConstDnMatDescr_t weight,
                                         magicubeConstDnMatDescr_t weights,
                                         const magicubeProjectionParams_t* params,
                                         magicubeConstDnMatDescr_t left_support,
                                         magicubeConstDnMatDescr_t right_support,
                                         magicubeDnMatDescr_t left, magicubeDnMatDescr_t right,
                                         magicubeProjectionReport_t* report) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        support_operands operands;
        operands.weight = get(weight, "weight");
        operands.left_support = get(left_support, "left_support");
        operands.right_support = get(right_support, "right_support");
        operands.left = get_output(left, "left");
        operands.right = get_output(right, "right");
        const column_weights how = read_weighting(params, weights);
        check_report(report);
        tell_report(report, project_supports(ctx, operands, how));
    });
}
