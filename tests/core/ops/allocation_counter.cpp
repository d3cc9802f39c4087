// SPDX-License-Identifier: Apache-2.0
#include "core/ops/allocation_counter.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> count{0};

void* counted(size_t bytes) {
    ++count;
    void* pointer = std::malloc(bytes == 0 ? 1 : bytes);
    if (!pointer) throw std::bad_alloc();
    return pointer;
}

}  // namespace

void* operator new(size_t bytes) {
    return counted(bytes);
}
void* operator new[](size_t bytes) {
    return counted(bytes);
}
void operator delete(void* pointer) noexcept {
    std::free(pointer);
}
void operator delete[](void* pointer) noexcept {
    std::free(pointer);
}
void operator delete(void* pointer, size_t) noexcept {
    std::free(pointer);
}
void operator delete[](void* pointer, size_t) noexcept {
    std::free(pointer);
}

namespace support {

int64_t allocations() {
    return count;
}

}  // namespace support
