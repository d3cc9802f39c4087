// SPDX-License-Identifier: Apache-2.0
#include "source/memory.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "source/settings.hpp"
#include "source/state.hpp"

namespace emulated {
namespace {

constexpr size_t alignment = 256, most_poisoned = 64 << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t guard_bytes = 0;  // the sanitizer has its own
#else
constexpr size_t guard_bytes = 256;
#endif
constexpr unsigned char fresh = 0xc5, guard = 0x9d;

struct allocation {
    size_t bytes;
    int device;
};

// By the address of the first byte.
std::map<uintptr_t, allocation>& allocations() {
    static auto& all = *new std::map<uintptr_t, allocation>;
    return all;
}
size_t in_use = 0;

const std::pair<const uintptr_t, allocation>* find(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    auto after = allocations().upper_bound(address);
    if (after == allocations().begin()) return nullptr;
    --after;
    return address - after->first < std::max<size_t>(after->second.bytes, 1) ? &*after : nullptr;
}

bool intact(uintptr_t address, const allocation& of) {
    const auto* behind = reinterpret_cast<const unsigned char*>(address) + of.bytes;
    for (size_t i = 0; i < guard_bytes; ++i)
        if (behind[i] != guard) return false;
    return true;
}

// The bytes of a copy or of memset must not end behind an allocation.
bool inside(const void* pointer, size_t bytes) {
    const auto* found = find(pointer);
    if (!found) return true;  // the host's
    return reinterpret_cast<uintptr_t>(pointer) - found->first + bytes <= found->second.bytes;
}

cudaError_t copy(void* target, const void* source, size_t bytes, cudaStream_t stream) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    if (bytes == 0) return cudaSuccess;
    if (!target || !source || !inside(target, bytes) || !inside(source, bytes))
        return report(cudaErrorInvalidValue);
    return submit(stream, cudaGraphNodeTypeMemcpy, [=] {
        std::memmove(target, source, bytes);
        return cudaSuccess;
    });
}

}  // namespace

bool check_guards(const std::string& kernel) {
    for (const auto& [address, of] : allocations()) {
        if (intact(address, of)) continue;
        std::fprintf(stderr, "emulated device: kernel %s wrote behind an allocation of %zu bytes\n",
                     kernel.c_str(), of.bytes);
        std::memset(reinterpret_cast<unsigned char*>(address) + of.bytes, guard, guard_bytes);
        return false;
    }
    return true;
}

}  // namespace emulated

using namespace emulated;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    *pointer = nullptr;
    if (break_captures() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    if (bytes == 0) return cudaSuccess;
    if (bytes > current_settings().memory_bytes - in_use) return report(cudaErrorMemoryAllocation);
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes + guard_bytes) != 0)
        return report(cudaErrorMemoryAllocation);
    std::memset(memory, fresh, std::min(bytes, most_poisoned));
    std::memset(static_cast<char*>(memory) + bytes, guard, guard_bytes);
    allocations()[reinterpret_cast<uintptr_t>(memory)] = {bytes, current_device()};
    in_use += bytes;
    *pointer = memory;
    return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    if (break_captures() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    if (!pointer) return cudaSuccess;
    const auto found = allocations().find(reinterpret_cast<uintptr_t>(pointer));
    if (found == allocations().end()) return report(cudaErrorInvalidValue);
    const bool good = intact(found->first, found->second);
    in_use -= found->second.bytes;
    allocations().erase(found);
    std::free(pointer);
    return good ? cudaSuccess : report(cudaErrorLaunchFailure);
}

cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    *total = current_settings().memory_bytes;
    *available = *total - in_use;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind) {
    return copy(target, source, bytes, nullptr);
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
    return copy(target, source, bytes, stream);
}

cudaError_t cudaMemcpy2D(void* target, size_t target_pitch, const void* source, size_t source_pitch,
                         size_t width, size_t height, cudaMemcpyKind) {
    if (width > target_pitch || width > source_pitch) return report(cudaErrorInvalidValue);
    for (size_t row = 0; row < height; ++row) {
        const cudaError_t code =
            copy(static_cast<char*>(target) + row * target_pitch,
                 static_cast<const char*>(source) + row * source_pitch, width, nullptr);
        if (code != cudaSuccess) return code;
    }
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    if (bytes == 0) return cudaSuccess;
    if (!find(target) || !inside(target, bytes)) return report(cudaErrorInvalidValue);
    return submit(stream, cudaGraphNodeTypeMemset, [=] {
        std::memset(target, value, bytes);
        return cudaSuccess;
    });
}

cudaError_t cudaMemset(void* target, int value, size_t bytes) {
    return cudaMemsetAsync(target, value, bytes, nullptr);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    const auto* found = find(pointer);
    attributes->type = found ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    attributes->device = found ? found->second.device : -2;
    attributes->devicePointer = found ? const_cast<void*>(pointer) : nullptr;
    attributes->hostPointer = found ? nullptr : const_cast<void*>(pointer);
    return cudaSuccess;
}
