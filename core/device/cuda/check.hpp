// SPDX-License-Identifier: Apache-2.0
// CUDA runtime errors as exceptions, and a device made current for a scope. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "core/device/context.hpp"

namespace magicube::cuda {

inline status status_of(cudaError_t code) {
    switch (code) {
        case cudaErrorMemoryAllocation:
            return status::alloc_failed;
        case cudaErrorNoDevice:
        case cudaErrorInvalidDevice:
        case cudaErrorInsufficientDriver:
            return status::no_device;
        case cudaErrorNoKernelImageForDevice:
            return status::arch_mismatch;
        case cudaErrorStreamCaptureUnsupported:
        case cudaErrorStreamCaptureInvalidated:
        case cudaErrorStreamCaptureImplicit:
            return status::capturing;
        default:
            return status::cuda_error;
    }
}

// Throws for a failed call, naming it; the runtime's sticky "last error" is cleared.
inline void check(cudaError_t code, const char* call) {
    if (code == cudaSuccess) return;
    cudaGetLastError();
    fail(status_of(code), call, " failed: ", cudaGetErrorString(code), " (", cudaGetErrorName(code),
         ")");
}

// Makes a device current and restores the previous one.
class device_scope {
  public:
    explicit device_scope(int ordinal) {
        check(cudaGetDevice(&previous_), "cudaGetDevice");
        if (previous_ != ordinal) check(cudaSetDevice(ordinal), "cudaSetDevice");
        changed_ = previous_ != ordinal;
    }
    ~device_scope() {
        if (changed_) cudaSetDevice(previous_);
    }
    device_scope(const device_scope&) = delete;
    device_scope& operator=(const device_scope&) = delete;

  private:
    int previous_ = 0;
    bool changed_ = false;
};

// Throws unless the context's device can read and write the address.
inline void require_on_device(const context& ctx, const void* pointer, const char* argument) {
    cudaPointerAttributes attributes{};
    check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
    if (attributes.type == cudaMemoryTypeManaged || attributes.type == cudaMemoryTypeHost) return;
    require(attributes.type == cudaMemoryTypeDevice, status::device_mismatch, argument,
            " points at host memory; the handle's device is CUDA ", ctx.ordinal);
    require(attributes.device == ctx.ordinal, status::device_mismatch, argument,
            " points at memory of CUDA device ", attributes.device,
            "; the handle's device is CUDA ", ctx.ordinal);
}

}  // namespace magicube::cuda
