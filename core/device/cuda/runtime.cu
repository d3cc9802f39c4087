// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/runtime.hpp"

#include "core/device/architectures.hpp"
#include "core/device/cuda/check.hpp"

namespace magicube::cuda {
namespace {

// Loaded to learn whether this build's code runs on a device; never launched.
__global__ void probe() {}

// 0 and the runtime's reason where there is none.
int count_devices(cudaError_t* reason) {
    int count = 0;
    *reason = cudaGetDeviceCount(&count);
    if (*reason != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return count;
}

int attribute(cudaDeviceAttr which, int ordinal) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
    return value;
}

// The list of architectures decides, then the driver, which may be too old for what is there.
bool holds_kernels_for(int ordinal) {
    if (!runs_on(compute_capability(ordinal), built_architectures())) return false;
    device_scope scope(ordinal);
    cudaFuncAttributes attributes{};
    const cudaError_t code = cudaFuncGetAttributes(&attributes, probe);
    if (code == cudaSuccess) return true;
    cudaGetLastError();
    if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction ||
        code == cudaErrorUnsupportedPtxVersion) {
        return false;
    }
    check(code, "cudaFuncGetAttributes");
    return false;
}

}  // namespace

std::string runtime_version() {
#if defined(MAGICUBE_EMULATED)
    return "emulated";
#endif
    return text(CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10);
}

int device_count() {
    cudaError_t reason{};
    return count_devices(&reason);
}

void fail_without_devices() {
    cudaError_t reason{};
    count_devices(&reason);
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess) cudaGetLastError();
    require(driver != 0, status::no_device,
            "there is no CUDA device: no NVIDIA driver is installed");
    fail(status::no_device, "there is no CUDA device: ",
         reason == cudaSuccess ? "the driver shows none" : cudaGetErrorString(reason));
}

device_info describe(int ordinal) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
    device_info info;
    info.name = properties.name;
    info.compute_capability = 10 * properties.major + properties.minor;
    info.multiprocessors = properties.multiProcessorCount;
    info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
    info.supported = holds_kernels_for(ordinal);
    return info;
}

int compute_capability(int ordinal) {
    return 10 * attribute(cudaDevAttrComputeCapabilityMajor, ordinal) +
           attribute(cudaDevAttrComputeCapabilityMinor, ordinal);
}

int multiprocessors(int ordinal) {
    return attribute(cudaDevAttrMultiProcessorCount, ordinal);
}

gpu_speed speed(int ordinal) {
    gpu_speed result;
    result.compute_capability = compute_capability(ordinal);
    result.multiprocessors = multiprocessors(ordinal);
    result.clock_mhz = attribute(cudaDevAttrClockRate, ordinal) / 1e3;
    // Two transfers a clock, kHz and bits.
    result.bytes_per_us = 2 * (attribute(cudaDevAttrMemoryClockRate, ordinal) / 1e3) *
                          (attribute(cudaDevAttrGlobalMemoryBusWidth, ordinal) / 8.0);
    return result;
}

void require_kernels(int ordinal) {
    if (holds_kernels_for(ordinal)) return;
    fail(status::arch_mismatch,
         arch_mismatch_message(ordinal, describe(ordinal).name, compute_capability(ordinal),
                               built_architectures()));
}

void require_address(const context& ctx, const void* pointer, const char* argument) {
    require_on_device(ctx, pointer, argument);
}

namespace {

// Calls that a capture by this thread forbids otherwise.
class relaxed_capture {
  public:
    relaxed_capture() { check(cudaThreadExchangeStreamCaptureMode(&mode_), "capture mode"); }
    ~relaxed_capture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    relaxed_capture(const relaxed_capture&) = delete;
    relaxed_capture& operator=(const relaxed_capture&) = delete;

  private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

void* allocate(int ordinal, size_t bytes) {
    device_scope scope(ordinal);
    const relaxed_capture relaxed;
    void* pointer = nullptr;
    const cudaError_t code = cudaMalloc(&pointer, bytes);
    if (code == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        fail(status::alloc_failed, "bytes is ", bytes, "; CUDA device ", ordinal,
             " has not that much free memory");
    }
    check(code, "cudaMalloc");
    return pointer;
}

// Where a garbage collector ends a plan, the thread may be capturing another's work. cudaFree waits
// for what the device is doing, and in this mode does not break the capture.
void deallocate(int ordinal, void* pointer) {
    device_scope scope(ordinal);
    const relaxed_capture relaxed;
    check(cudaFree(pointer), "cudaFree");
}

void copy(const context& ctx, void* destination, const void* source, size_t bytes) {
    device_scope scope(ctx.ordinal);
    check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, ctx.stream),
          "cudaMemcpyAsync");
}

void set(const context& ctx, void* destination, int value, size_t bytes) {
    device_scope scope(ctx.ordinal);
    require_on_device(ctx, destination, "destination");
    check(cudaMemsetAsync(destination, value, bytes, ctx.stream), "cudaMemsetAsync");
}

void synchronize(const context& ctx) {
    device_scope scope(ctx.ordinal);
    cudaStreamCaptureStatus capturing{};
    check(cudaStreamIsCapturing(ctx.stream, &capturing), "cudaStreamIsCapturing");
    require(
        capturing == cudaStreamCaptureStatusNone, status::capturing,
        "the handle's stream is being captured; it cannot be waited for until the capture ends");
    check(cudaStreamSynchronize(ctx.stream), "cudaStreamSynchronize");
}

CUstream_st* create_stream(int ordinal) {
    device_scope scope(ordinal);
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream;
}

void destroy_stream(int ordinal, CUstream_st* stream) {
    device_scope scope(ordinal);
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

}  // namespace magicube::cuda
