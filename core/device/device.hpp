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

int device_count(device_kind device);
device_info describe_device(device_kind device, int ordinal);

// Throws no_device or arch_mismatch unless operations can run there.
void require_usable(device_kind device, int ordinal);

// Memory aligned to 256 bytes; null for 0 bytes.
void* allocate(device_kind device, int ordinal, size_t bytes);
void deallocate(device_kind device, int ordinal, void* pointer);

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
