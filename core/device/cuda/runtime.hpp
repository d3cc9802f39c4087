// SPDX-License-Identifier: Apache-2.0
// The CUDA side of core/device. runtime.cu implements it on the CUDA runtime; a build without CUDA
// takes cuda_absent.cpp, where no device exists.
#pragma once

#include <cstddef>
#include <string>

#include "core/device/device.hpp"

namespace magicube::cuda {

// Version of the CUDA runtime linked in ("13.0"), or "none".
std::string runtime_version();

// 0 without a GPU or driver.
int device_count();

// Throws no_device with what keeps the runtime from finding one.
[[noreturn]] void fail_without_devices();

device_info describe(int ordinal);

// 10 * major + minor, and the number of streaming multiprocessors.
int compute_capability(int ordinal);
int multiprocessors(int ordinal);

gpu_speed speed(int ordinal);

// Throws arch_mismatch unless this build's kernels run on the device.
void require_kernels(int ordinal);

// Throws device_mismatch unless the context's device reaches the address.
void require_address(const context& ctx, const void* pointer, const char* argument);

void* allocate(int ordinal, size_t bytes);
void deallocate(int ordinal, void* pointer);
void copy(const context& ctx, void* destination, const void* source, size_t bytes);
void set(const context& ctx, void* destination, int value, size_t bytes);
void synchronize(const context& ctx);
CUstream_st* create_stream(int ordinal);
void destroy_stream(int ordinal, CUstream_st* stream);

}  // namespace magicube::cuda
