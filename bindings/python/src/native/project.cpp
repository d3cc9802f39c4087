// SPDX-License-Identifier: Apache-2.0
// Projections onto chains and onto two supports.
#include <map>
#include <string>

#include "matrices.hpp"

namespace magicube_python {
namespace {

using Report = std::map<std::string, double>;

Report to_python(const magicubeProjectionReport_t& report) {
    return {{"error", report.error},
            {"norm", report.norm},
            {"relative_error", report.relative_error},
            {"least_error", report.least_error},
            {"bound", report.bound}};
}

magicubeProjectionParams_t params_of(int32_t weighting) {
    magicubeProjectionParams_t params = MAGICUBE_PROJECTION_PARAMS_INIT;
    params.weighting = static_cast<magicubeProjectionWeighting_t>(weighting);
    return params;
}

magicubeConstDnMatDescr_t optional(const DnMat* matrix) {
    return matrix ? matrix->get() : nullptr;
}

Report project_chain(Handle& handle, const DnMat& weight, const DnMat* weights, int32_t weighting,
                     const KroneckerMat& chain, std::uintptr_t step_errors) {
    const auto params = params_of(weighting);
    magicubeProjectionReport_t report = MAGICUBE_PROJECTION_REPORT_INIT;
    handle.call(&magicubeProjectChain, weight.get(), optional(weights), &params, chain.target(),
                &report, pointer<double>(step_errors));
    return to_python(report);
}

Report project_supports(Handle& handle, const DnMat& weight, const DnMat* weights,
                        int32_t weighting, const DnMat& left_support, const DnMat& right_support,
                        const DnMat& left, const DnMat& right) {
    const auto params = params_of(weighting);
    magicubeProjectionReport_t report = MAGICUBE_PROJECTION_REPORT_INIT;
    handle.call(&magicubeProjectSupports, weight.get(), optional(weights), &params,
                left_support.get(), right_support.get(), left.target(), right.target(), &report);
    return to_python(report);
}

}  // namespace

void bind_project(py::module_& module) {
    module.def("project_chain", &project_chain);
    module.def("project_supports", &project_supports);
}

}  // namespace magicube_python
