// SPDX-License-Identifier: Apache-2.0
#include "source/shared.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "source/block.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace emulated {
namespace {

// A shared address is the number of a window of the address space, and an offset in it: the first
// window holds the dynamic memory, the others the static arrays of the modules that hold kernels.
constexpr int window_bits = 28;
constexpr uintptr_t window_mask = (uintptr_t{1} << window_bits) - 1;
uintptr_t windows[8];

// Aligned to 1024 and no more, so that who needs more has to see to it.
constexpr size_t arena_offset = 1024;
constexpr size_t arena_bytes = 256 << 10;
constexpr unsigned char poison = 0xb7;

char* arena() {
    static char* memory = [] {
        // The lower bits of a pointer and of its shared address are the same.
        constexpr size_t whole = size_t{2} << window_bits;
        void* reserved =
            mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (reserved == MAP_FAILED) std::abort();
        const uintptr_t start =
            (reinterpret_cast<uintptr_t>(reserved) + window_mask) & ~window_mask;
        windows[0] = start;
        void* used = reinterpret_cast<void*>(start);
        if (mprotect(used, arena_bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
        return static_cast<char*>(used);
    }();
    return memory;
}

size_t bytes_in_use = 0;

}  // namespace

void prepare_shared(size_t dynamic_bytes, const std::vector<shared_array>& arrays) {
    char* memory = arena();
#if defined(__SANITIZE_ADDRESS__)
    ASAN_POISON_MEMORY_REGION(memory, arena_bytes);
    ASAN_UNPOISON_MEMORY_REGION(memory + arena_offset, dynamic_bytes);
#endif
    bytes_in_use = dynamic_bytes;
    std::memset(memory + arena_offset, poison, dynamic_bytes);
    for (const shared_array& array : arrays) std::memset(array.start, poison, array.bytes);
}

void* dynamic_shared(size_t alignment) {
    if (alignment > arena_offset) fail("dynamic shared memory is not aligned that far", {"?", 0});
    return arena() + arena_offset;
}

uint32_t shared_address(const void* pointer) {
    arena();
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const uintptr_t window = address & ~window_mask;
    for (uint32_t i = 0; i < 8; ++i) {
        if (windows[i] == 0) windows[i] = window;
        if (windows[i] == window)
            return i << window_bits | static_cast<uint32_t>(address & window_mask);
    }
    fail("too many modules hold shared memory", site::here());
}

void* shared_pointer(uint32_t address, size_t bytes, size_t alignment, site at) {
    if (address % alignment != 0)
        fail("shared address " + std::to_string(address) + " is no multiple of " +
                 std::to_string(alignment),
             at);
    const uint32_t window = address >> window_bits;
    const uintptr_t offset = address & window_mask;
    const bool inside =
        window == 0 ? offset >= arena_offset && offset + bytes <= arena_offset + bytes_in_use
                    : window < 8 && windows[window] != 0;
    if (!inside)
        fail(std::to_string(bytes) + " bytes at shared address " + std::to_string(address) +
                 " are outside the block's memory, " + std::to_string(arena_offset) + " to " +
                 std::to_string(arena_offset + bytes_in_use),
             at);
    return reinterpret_cast<void*>(windows[window] + offset);
}

}  // namespace emulated
