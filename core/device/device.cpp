// SPDX-License-Identifier: Apache-2.0
#include "core/device/device.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <vector>

#include "core/common/checked.hpp"
#include "core/device/cuda/runtime.hpp"

namespace magicube {
namespace {

constexpr size_t allocation_alignment = 256;

std::string processor_name() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        if (line.rfind("model name", 0) == 0) {
            const auto start = line.find_first_not_of(": \t", line.find(':'));
            if (start != std::string::npos) return line.substr(start);
        }
    }
    return "CPU";
}

device_info describe_cpu() {
    device_info info;
    info.name = processor_name();
    info.multiprocessors = hardware_threads();
    info.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    info.supported = true;
    return info;
}

void require_ordinal(device_kind device, int ordinal) {
    const int count = device_count(device);
    if (device == device_kind::cuda && count == 0) cuda::fail_without_devices();
    require(ordinal >= 0 && ordinal < count, status::no_device, "ordinal is ", ordinal,
            "; it must be in [0, ", count, ") for ", name_of(device), " devices");
}

}  // namespace

int device_count(device_kind device) {
    return device == device_kind::cpu ? 1 : cuda::device_count();
}

device_info describe_device(device_kind device, int ordinal) {
    require_ordinal(device, ordinal);
    return device == device_kind::cpu ? describe_cpu() : cuda::describe(ordinal);
}

gpu_speed speed_of_gpu(int ordinal) {
    static const auto& speeds = *new std::vector<gpu_speed>([] {
        std::vector<gpu_speed> found(static_cast<size_t>(cuda::device_count()));
        for (size_t i = 0; i < found.size(); ++i) found[i] = cuda::speed(static_cast<int>(i));
        return found;
    }());
    require_ordinal(device_kind::cuda, ordinal);
    return speeds.at(static_cast<size_t>(ordinal));
}

void require_usable(device_kind device, int ordinal) {
    require_ordinal(device, ordinal);
    if (device == device_kind::cuda) cuda::require_kernels(ordinal);
}

void* allocate(device_kind device, int ordinal, size_t bytes) {
    require_ordinal(device, ordinal);
    if (bytes == 0) return nullptr;
    if (device == device_kind::cuda) return cuda::allocate(ordinal, bytes);
    void* pointer = nullptr;
    const size_t rounded =
        (bytes + allocation_alignment - 1) / allocation_alignment * allocation_alignment;
    if (rounded >= bytes) pointer = std::aligned_alloc(allocation_alignment, rounded);
    require(pointer != nullptr, status::alloc_failed, "bytes is ", bytes,
            "; the host has not that much memory");
    return pointer;
}

void deallocate(device_kind device, int ordinal, void* pointer) {
    require_ordinal(device, ordinal);
    if (device == device_kind::cpu) return std::free(pointer);
    if (pointer) cuda::deallocate(ordinal, pointer);
}

void require_reachable(const context& ctx, const void* pointer, const char* argument) {
    if (pointer && !ctx.on_cpu()) cuda::require_address(ctx, pointer, argument);
}

void copy_memory(const context& ctx, void* destination, const void* source, size_t bytes) {
    if (bytes == 0) return;
    require_value(destination != nullptr, "destination is null; it must hold ", bytes, " bytes");
    require_value(source != nullptr, "source is null; it must hold ", bytes, " bytes");
    if (!ctx.on_cpu()) return cuda::copy(ctx, destination, source, bytes);
    const auto from = reinterpret_cast<uintptr_t>(source);
    const auto to = reinterpret_cast<uintptr_t>(destination);
    require_value((from < to ? to - from : from - to) >= bytes,
                  "source and destination overlap within ", bytes, " bytes; they must not");
    std::memcpy(destination, source, bytes);
}

void set_memory(const context& ctx, void* destination, int value, size_t bytes) {
    require_value(value >= 0 && value <= 255, "value is ", value, "; it must be in [0, 255]");
    if (bytes == 0) return;
    require_value(destination != nullptr, "destination is null; it must hold ", bytes, " bytes");
    if (!ctx.on_cpu()) return cuda::set(ctx, destination, value, bytes);
    std::memset(destination, value, bytes);
}

void synchronize(const context& ctx) {
    if (!ctx.on_cpu()) cuda::synchronize(ctx);
}

CUstream_st* create_stream(device_kind device, int ordinal) {
    require(device == device_kind::cuda, status::not_supported,
            "device is MAGICUBE_DEVICE_CPU; streams exist on MAGICUBE_DEVICE_CUDA only");
    require_ordinal(device, ordinal);
    return cuda::create_stream(ordinal);
}

void destroy_stream(device_kind device, int ordinal, CUstream_st* stream) {
    require(device == device_kind::cuda, status::not_supported,
            "device is MAGICUBE_DEVICE_CPU; streams exist on MAGICUBE_DEVICE_CUDA only");
    require_ordinal(device, ordinal);
    if (stream) cuda::destroy_stream(ordinal, stream);
}

std::string built_architectures() {
    const std::string names = MAGICUBE_BUILD_ARCHITECTURES;
    return names.empty() ? "none" : names;
}

std::string build_info() {
#if defined(__clang__)
    constexpr const char* compiler = __VERSION__;  // begins with its name
#else
    constexpr const char* compiler = "GCC " __VERSION__;
#endif
    return text("compiler: ", compiler, "; build type: ", MAGICUBE_BUILD_TYPE,
                "; cuda: ", cuda::runtime_version(), "; architectures: ", built_architectures());
}

}  // namespace magicube
