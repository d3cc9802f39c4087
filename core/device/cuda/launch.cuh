// SPDX-License-Identifier: Apache-2.0
// How kernels are launched and get their dynamic shared memory, in plain C++, so that a compiler
// that knows no <<<>>> can build the same files for an emulated device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

// Declares the array NAME of TYPE that is the block's dynamic shared memory.
#if !defined(MAGICUBE_DYNAMIC_SHARED)
#define MAGICUBE_DYNAMIC_SHARED(TYPE, NAME, ALIGNMENT) \
    extern __shared__ __align__(ALIGNMENT)             \
    TYPE NAME[]
#endif

namespace magicube::cuda {

struct launch_shape {
    dim3 grid, block;
    size_t shared_bytes = 0;
    cudaStream_t stream = nullptr;
    // The kernel may start before the one before it has ended; it waits for that one's results by
    // itself.
    bool overlaps = false;
};

// As <<<>>>: a failure is the runtime's last error, too.
template <class... Parameters, class... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), const launch_shape& shape,
                          const Arguments&... arguments) {
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = shape.stream;
    config.attrs = &overlap;
    config.numAttrs = shape.overlaps ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// Loads a kernel, which its first launch would do otherwise; one that is being captured cannot.
template <class... Parameters>
cudaError_t load_kernel(void (*kernel)(Parameters...)) {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, kernel);
}

}  // namespace magicube::cuda
