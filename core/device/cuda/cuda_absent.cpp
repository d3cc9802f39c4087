// SPDX-License-Identifier: Apache-2.0
// Builds without CUDA: there is no device, so that no handle exists on which the rest could be
// called.
#include "core/device/cuda/runtime.hpp"
#include "core/quantize/cuda/dequantize.hpp"

namespace magicube::cuda {

std::string runtime_version() {
    return "none";
}

int device_count() {
    return 0;
}

void fail_without_devices() {
    fail(status::no_device, "there is no CUDA device: this library was built without CUDA");
}

device_info describe(int) {
    fail_without_devices();
}

void require_kernels(int) {
    fail_without_devices();
}

void* allocate(int, size_t) {
    fail_without_devices();
}

void deallocate(int, void*) {
    fail_without_devices();
}

void copy(const context&, void*, const void*, size_t) {
    fail_without_devices();
}

void set(const context&, void*, int, size_t) {
    fail_without_devices();
}

void synchronize(const context&) {
    fail_without_devices();
}

CUstream_st* create_stream(int) {
    fail_without_devices();
}

void destroy_stream(int, CUstream_st*) {
    fail_without_devices();
}

void dequantize(const context&, const dense_view&, const scale_array&, const dense_view&) {
    fail_without_devices();
}

}  // namespace magicube::cuda
