// SPDX-License-Identifier: Apache-2.0
#include "magicube/memory.h"

#include "core/device/device.hpp"
#include "descriptors.hpp"

using namespace magicube::capi;

magicubeStatus_t magicubeMalloc(magicubeDevice_t device, int32_t ordinal, size_t bytes,
                                void** pointer) noexcept {
    return MAGICUBE_GUARDED({
        auto& result = deref(pointer, "pointer");
        result = nullptr;
        result = magicube::allocate(to_core(device, "device"), ordinal, bytes);
    });
}

magicubeStatus_t magicubeFree(magicubeDevice_t device, int32_t ordinal, void* pointer) noexcept {
    return MAGICUBE_GUARDED(magicube::deallocate(to_core(device, "device"), ordinal, pointer););
}

magicubeStatus_t magicubeMemcpy(magicubeHandle_t handle, void* destination, const void* source,
                                size_t bytes) noexcept {
    return MAGICUBE_GUARDED(magicube::copy_memory(get(handle), destination, source, bytes););
}

magicubeStatus_t magicubeMemset(magicubeHandle_t handle, void* destination, int32_t value,
                                size_t bytes) noexcept {
    return MAGICUBE_GUARDED(magicube::set_memory(get(handle), destination, value, bytes););
}

magicubeStatus_t magicubeStreamCreate(magicubeDevice_t device, int32_t ordinal,
                                      struct CUstream_st** stream) noexcept {
    return MAGICUBE_GUARDED({
        auto& result = deref(stream, "stream");
        result = nullptr;
        result = magicube::create_stream(to_core(device, "device"), ordinal);
    });
}

magicubeStatus_t magicubeStreamDestroy(magicubeDevice_t device, int32_t ordinal,
                                       struct CUstream_st* stream) noexcept {
    return MAGICUBE_GUARDED(magicube::destroy_stream(to_core(device, "device"), ordinal, stream););
}
