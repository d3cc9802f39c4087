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
    module.def("quantize_workspace", &quantize_workspace);
    module.def("quantize", &quantize);
    module.def("dequantize", &dequantize);
}

}  // namespace magicube_python
