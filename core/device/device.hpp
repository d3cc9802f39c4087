// SPDX-License-Identifier: Apache-2.0
// Devices: how many, what they are, their memory and streams. Each function picks the back end.
#pragma once

#include <cstddef>
#include <string>

#include "core/device/context.hpp"

namespace magicube {

struct device_info {
    std::string name;
    int compute_capability = 0;
    int multiprocessors = 0;
    int64_t memory_bytes = 0;
    bool supported = false;
};

// What bounds a dense product on a GPU.
struct gpu_speed {
    int compute_capability = 0;
    int multiprocessors = 0;
    double clock_mhz = 0;     // the highest
    double bytes_per_us = 0;  // of its memory
};

int device_count(device_kind device);
device_info describe_device(device_kind device, int ordinal);

// Asks the driver once a process.
gpu_speed speed_of_gpu(int ordinal);

// Throws no_device or arch_mismatch unless operations can run there.
void require_usable(device_kind device, int ordinal);

// Memory aligned to 256 bytes; null for 0 bytes.
void* allocate(device_kind device, int ordinal, size_t bytes);
void deallocate(device_kind device, int ordinal, void* pointer);

// Throws device_mismatch unless the context's device reaches the address; null passes. On the CPU
// every address does: a GPU's is not told from a host's there.
void require_reachable(const context& ctx, const void* pointer, const char* argument);

// In the order of the context's stream.
void copy_memory(const context& ctx, void* destination, const void* source, size_t bytes);
void set_memory(const context& ctx, void* destination, int value, size_t bytes);
void synchronize(const context& ctx);

CUstream_st* create_stream(device_kind device, int ordinal);
void destroy_stream(device_kind device, int ordinal, CUstream_st* stream);

// The architectures that the library holds code for ("sm_80 sm_90a"), or "none".
std::string built_architectures();
std::string build_info();

}  // namespace magicube
