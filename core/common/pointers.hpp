// SPDX-License-Identifier: Apache-2.0
// Checks of the addresses that callers pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/common/error.hpp"

namespace magicube {

inline void require_aligned(const void* pointer, int64_t alignment, const char* argument) {
    require(reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(alignment) == 0,
            status::misaligned, argument, " is ", pointer, "; its address must be a multiple of ",
            alignment, " bytes");
}

// An array that must be there if it has elements.
inline void require_array(const void* pointer, int64_t length, int64_t alignment,
                          const char* argument) {
    require_value(pointer != nullptr || length == 0, argument, " is null; it must hold ", length,
                  " elements");
    require_aligned(pointer, alignment, argument);
}

// Memory that a caller gives, `needed` bytes as the ..._bufferSize function said. Nothing is asked
// of it where nothing is needed.
inline void require_workspace(const void* workspace, size_t given, size_t needed, size_t alignment,
                              const char* argument = "workspace") {
    if (needed == 0) return;
    require(given >= needed, status::insufficient_workspace, argument, "_size is ", given,
            "; this call needs ", needed, " bytes, as its bufferSize function says");
    require_value(workspace != nullptr, argument, " is null; this call needs ", needed, " bytes");
    require_aligned(workspace, static_cast<int64_t>(alignment), argument);
}

}  // namespace magicube
