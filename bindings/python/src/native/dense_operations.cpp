// SPDX-License-Identifier: Apache-2.0
// Pruning and quantisation: dense in, dense out.
#include "matrices.hpp"

namespace magicube_python {
namespace {

void prune(Handle& handle, const DnMat& weight, const DnMat& mask, const py::dict& entries) {
    magicubePruneParams_t params = MAGICUBE_PRUNE_PARAMS_INIT;
    Fields fields(entries);
    fields.take("vector_length", params.vector_length);
    fields.take("scope", params.scope);
    fields.take("norm", params.norm);
    fields.take("sparsity", params.sparsity);
    fields.take("keep", params.keep);
    fields.finish();
    std::size_t bytes = 0;
    handle.call(&magicubePrune_bufferSize, weight.get(), &params, &bytes);
    const OwnedMemory workspace(handle, bytes);
    handle.call(&magicubePrune, weight.get(), &params, mask.target(), workspace.data(),
                workspace.bytes());
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

void quantize(Handle& handle, const DnMat& real, const DnMat& quantized, std::uintptr_t scales,
              const py::dict& entries) {
    const magicubeQuantizeParams_t params = read_quantize_params(entries);
    std::size_t bytes = 0;
    handle.call(&magicubeQuantize_bufferSize, real.get(), &params, quantized.get(), &bytes);
    const OwnedMemory workspace(handle, bytes);
    handle.call(&magicubeQuantize, real.get(), &params, quantized.target(), pointer<float>(scales),
                workspace.data(), workspace.bytes());
}

void dequantize(Handle& handle, const DnMat& quantized, const DnMat& real, std::uintptr_t scales,
                const py::dict& entries) {
    const magicubeQuantizeParams_t params = read_quantize_params(entries);
    handle.call(&magicubeDequantize, quantized.get(), &params, pointer<const float>(scales),
                real.target());
}

}  // namespace

void bind_dense_operations(py::module_& module) {
    module.def("prune", &prune);
    module.def("quantize", &quantize);
    module.def("dequantize", &dequantize);
}

}  // namespace magicube_python
