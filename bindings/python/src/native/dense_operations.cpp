// SPDX-License-Identifier: Apache-2.0
// Pruning and quantisation: dense in, dense out.
#include "matrices.hpp"

namespace magicube_python {
namespace {

magicubePruneParams_t read_prune_params(const py::dict& entries) {
    magicubePruneParams_t params = MAGICUBE_PRUNE_PARAMS_INIT;
    Fields fields(entries);
    fields.take("vector_length", params.vector_length);
    fields.take("scope", params.scope);
    fields.take("norm", params.norm);
    fields.take("sparsity", params.sparsity);
    fields.take("keep", params.keep);
    fields.finish();
    return params;
}

std::size_t prune_workspace(Handle& handle, const DnMat& weight, const py::dict& entries) {
    const magicubePruneParams_t params = read_prune_params(entries);
    std::size_t bytes = 0;
    handle.call(&magicubePrune_bufferSize, weight.get(), &params, &bytes);
    return bytes;
}

void prune(Handle& handle, const DnMat& weight, const DnMat& mask, const py::dict& entries,
           std::uintptr_t workspace, std::size_t bytes) {
    const magicubePruneParams_t params = read_prune_params(entries);
    handle.call(&magicubePrune, weight.get(), &params, mask.target(), pointer(workspace), bytes);
}

magicubePruneVnmParams_t read_vnm_params(const py::dict& entries) {
    magicubePruneVnmParams_t params = MAGICUBE_PRUNE_VNM_PARAMS_INIT;
    Fields fields(entries);
    fields.take("vector_length", params.vector_length);
    fields.take("n", params.n);
    fields.take("m", params.m);
    fields.take("norm", params.norm);
    fields.finish();
    return params;
}

std::size_t prune_vnm_workspace(Handle& handle, const DnMat& weight, const py::dict& entries) {
    const magicubePruneVnmParams_t params = read_vnm_params(entries);
    std::size_t bytes = 0;
    handle.call(&magicubePruneVnm_bufferSize, weight.get(), &params, &bytes);
    return bytes;
}

void prune_vnm(Handle& handle, const DnMat& weight, const DnMat& mask, const py::dict& entries,
               std::uintptr_t workspace, std::size_t bytes) {
    const magicubePruneVnmParams_t params = read_vnm_params(entries);
    handle.call(&magicubePruneVnm, weight.get(), &params, mask.target(), pointer(workspace), bytes);
}

magicubePruneVnmObsParams_t read_obs_params(const py::dict& entries) {
    magicubePruneVnmObsParams_t params = MAGICUBE_PRUNE_VNM_OBS_PARAMS_INIT;
    Fields fields(entries);
    fields.take("vector_length", params.vector_length);
    fields.take("n", params.n);
    fields.take("m", params.m);
    fields.take("curvature", params.curvature);
    fields.take("selection", params.selection);
    fields.take("damping", params.damping);
    fields.take("fisher_block", params.fisher_block);
    fields.take("refit", params.refit);
    fields.finish();
    return params;
}

std::size_t prune_vnm_obs_workspace(Handle& handle, const DnMat& weight, const DnMat& curvature,
                                    const py::dict& entries) {
    const magicubePruneVnmObsParams_t params = read_obs_params(entries);
    std::size_t bytes = 0;
    handle.call(&magicubePruneVnmObs_bufferSize, weight.get(), curvature.get(), &params, &bytes);
    return bytes;
}

void prune_vnm_obs(Handle& handle, const DnMat& weight, const DnMat& curvature, const DnMat& mask,
                   const DnMat& updated, const py::dict& entries, std::uintptr_t workspace,
                   std::size_t bytes) {
    const magicubePruneVnmObsParams_t params = read_obs_params(entries);
    handle.call(&magicubePruneVnmObs, weight.get(), curvature.get(), &params, mask.target(),
                updated.target(), pointer(workspace), bytes);
}

double kept_energy(Handle& handle, const DnMat& weight, const DnMat& mask) {
    double share = 0;
    handle.call(&magicubeKeptEnergy, weight.get(), mask.get(), &share);
    return share;
}

std::vector<int32_t> vnm_schedule(int32_t m, int32_t n, int32_t steps) {
    std::vector<int32_t> schedule(static_cast<std::size_t>(steps > 0 ? steps : 0));
    check(magicubeVnmSchedule(m, n, steps, schedule.data()));
    return schedule;
}

magicubeQuantizeParams_t read_quantize_params(const py::dict& entries) {
    magicubeQuantizeParams_t params = MAGICUBE_QUANTIZE_PARAMS_INIT;
    Fields fields(entries);
    fields.take("granularity", params.granularity);
    fields.take("calibration", params.calibration);
    fields.take("percentile", params.percentile);
    fields.take("scale_batch_stride", params.scale_batch_stride);
    fields.finish();
    return params;
}

std::size_t quantize_workspace(Handle& handle, const DnMat& real, const DnMat& quantized,
                               const py::dict& entries) {
    const magicubeQuantizeParams_t params = read_quantize_params(entries);
    std::size_t bytes = 0;
    handle.call(&magicubeQuantize_bufferSize, real.get(), &params, quantized.get(), &bytes);
    return bytes;
}

void quantize(Handle& handle, const DnMat& real, const DnMat& quantized, std::uintptr_t scales,
              const py::dict& entries, std::uintptr_t workspace, std::size_t bytes) {
    const magicubeQuantizeParams_t params = read_quantize_params(entries);
    handle.call(&magicubeQuantize, real.get(), &params, quantized.target(), pointer<float>(scales),
                pointer(workspace), bytes);
}

void dequantize(Handle& handle, const DnMat& quantized, const DnMat& real, std::uintptr_t scales,
                const py::dict& entries) {
    const magicubeQuantizeParams_t params = read_quantize_params(entries);
    handle.call(&magicubeDequantize, quantized.get(), &params, pointer<const float>(scales),
                real.target());
}

}  // namespace

void bind_dense_operations(py::module_& module) {
    module.def("prune_workspace", &prune_workspace);
    module.def("prune", &prune);
    module.def("prune_vnm_workspace", &prune_vnm_workspace);
    module.def("prune_vnm", &prune_vnm);
    module.def("prune_vnm_obs_workspace", &prune_vnm_obs_workspace);
    module.def("prune_vnm_obs", &prune_vnm_obs);
    module.def("kept_energy", &kept_energy);
    module.def("vnm_schedule", &vnm_schedule);
    module.def("quantize_workspace", &quantize_workspace);
    module.def("quantize", &quantize);
    module.def("dequantize", &dequantize);
}

}  // namespace magicube_python
