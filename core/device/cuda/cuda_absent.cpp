// SPDX-License-Identifier: Apache-2.0
// Builds without CUDA: there is no device, so that no handle exists on which the rest could be
// called.
#include "core/device/cuda/nvtx.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/formats/bsr/cuda/convert.hpp"
#include "core/formats/csr/cuda/convert.hpp"
#include "core/formats/cuda/validate.hpp"
#include "core/formats/dense/cuda/convert.hpp"
#include "core/formats/sr_bcrs/cuda/convert.hpp"
#include "core/ops/kronecker_mm/cuda/gradient.hpp"
#include "core/prune/cuda/prune.hpp"
#include "core/quantize/cuda/dequantize.hpp"
#include "core/quantize/cuda/quantize.hpp"

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

gpu_speed speed(int) {
    fail_without_devices();
}

void require_kernels(int) {
    fail_without_devices();
}

void require_address(const context&, const void*, const char*) {
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

void validate_copy(const context&, const sparse_view&, bool, const char*) {
    fail_without_devices();
}

int64_t count_sr_bcrs(const context&, const dense_source&, const sr_bcrs_target&) {
    fail_without_devices();
}

int64_t count_sr_bcrs(const context&, const sparse_view&, const sr_bcrs_target&) {
    fail_without_devices();
}

void fill_sr_bcrs(const context&, const dense_source&, const sr_bcrs_target&) {
    fail_without_devices();
}

void fill_sr_bcrs(const context&, const sparse_view&, const sr_bcrs_target&) {
    fail_without_devices();
}

void sparse_to_dense(const context&, const sparse_view&, const dense_view&) {
    fail_without_devices();
}

void sparse_to_mask(const context&, const sparse_view&, const dense_view&) {
    fail_without_devices();
}

int64_t count_csr(const context&, const sr_bcrs_view&, const csr_target&) {
    fail_without_devices();
}

void fill_csr(const context&, const sr_bcrs_view&, const csr_target&) {
    fail_without_devices();
}

int64_t count_bsr(const context&, const sr_bcrs_view&, const bsr_target&) {
    fail_without_devices();
}

void fill_bsr(const context&, const sr_bcrs_view&, const bsr_target&) {
    fail_without_devices();
}

size_t prune_workspace(const dense_view&, const prune_params&) {
    fail_without_devices();
}

void prune(const context&, const dense_view&, const prune_params&, int64_t, const dense_view&,
           void*) {
    fail_without_devices();
}

size_t quantize_workspace(const dense_view&, const quantize_params&) {
    fail_without_devices();
}

void quantize(const context&, const dense_view&, const quantize_params&, const dense_view&, float*,
              int64_t, void*) {
    fail_without_devices();
}

void dequantize(const context&, const dense_view&, const scale_array&, const dense_view&) {
    fail_without_devices();
}

void begin_range(const char*) noexcept {}

void end_range() noexcept {}

}  // namespace magicube::cuda

namespace magicube::kronecker_mm::cuda {

void gradient(const context&, const dense_view&, const dense_view&, dtype,
              const kronecker_factor&) {
    magicube::cuda::fail_without_devices();
}

}  // namespace magicube::kronecker_mm::cuda
