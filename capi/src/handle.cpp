// SPDX-License-Identifier: Apache-2.0
#include "magicube/handle.h"

#include <algorithm>
#include <memory>

#include "core/device/device.hpp"
#include "descriptors.hpp"

using namespace magicube;
using namespace magicube::capi;

static_assert(static_cast<int>(device_kind::cpu) == MAGICUBE_DEVICE_CPU);
static_assert(static_cast<int>(device_kind::cuda) == MAGICUBE_DEVICE_CUDA);
static_assert(static_cast<int>(pointer_mode::host) == MAGICUBE_POINTER_MODE_HOST);
static_assert(static_cast<int>(pointer_mode::device) == MAGICUBE_POINTER_MODE_DEVICE);
static_assert(static_cast<int>(validation::basic) == MAGICUBE_VALIDATION_BASIC);
static_assert(static_cast<int>(validation::full) == MAGICUBE_VALIDATION_FULL);

namespace {

context& settings(magicubeHandle_t handle) {
    return deref(handle, "handle").value;
}

bool to_flag(int32_t value, const char* argument) {
    require_value(value == 0 || value == 1, argument, " is ", value, "; it must be 0 or 1");
    return value == 1;
}

}  // namespace

magicubeStatus_t magicubeGetDeviceCount(magicubeDevice_t device, int32_t* count) noexcept {
    return MAGICUBE_GUARDED(deref(count, "count") = device_count(to_core(device, "device")););
}

magicubeStatus_t magicubeGetDeviceInfo(magicubeDevice_t device, int32_t ordinal,
                                       magicubeDeviceInfo_t* info) noexcept {
    return MAGICUBE_GUARDED({
        const device_info found = describe_device(to_core(device, "device"), ordinal);
        magicubeDeviceInfo_t result = MAGICUBE_DEVICE_INFO_INIT;
        const size_t length = std::min(found.name.size(), sizeof(result.name) - 1);
        std::copy_n(found.name.data(), length, result.name);
        result.compute_capability = found.compute_capability;
        result.multiprocessors = found.multiprocessors;
        result.memory_bytes = found.memory_bytes;
        result.supported = found.supported;
        write_struct(info, result, "info");
    });
}

magicubeStatus_t magicubeCreate(magicubeHandle_t* handle, magicubeDevice_t device,
                                int32_t ordinal) noexcept {
    return MAGICUBE_GUARDED({
        auto& result = deref(handle, "handle");
        result = nullptr;
        auto created = std::make_unique<magicubeContext>();
        created->value.device = to_core(device, "device");
        created->value.ordinal = ordinal;
        if (!created->value.on_cpu()) created->value.level = validation::basic;
        require_usable(created->value.device, ordinal);
        start_thread_pool();
        result = created.release();
    });
}

magicubeStatus_t magicubeDestroy(magicubeHandle_t handle) noexcept {
    delete handle;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeGetDevice(magicubeHandle_t handle, magicubeDevice_t* device,
                                   int32_t* ordinal) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        deref(device, "device") = static_cast<magicubeDevice_t>(ctx.device);
        deref(ordinal, "ordinal") = ctx.ordinal;
    });
}

magicubeStatus_t magicubeSetStream(magicubeHandle_t handle, struct CUstream_st* stream) noexcept {
    return MAGICUBE_GUARDED({
        context& ctx = settings(handle);
        require_value(stream == nullptr || !ctx.on_cpu(),
                      "stream is not null; a CPU handle has no stream");
        ctx.stream = stream;
    });
}

magicubeStatus_t magicubeGetStream(magicubeHandle_t handle, struct CUstream_st** stream) noexcept {
    return MAGICUBE_GUARDED(deref(stream, "stream") = get(handle).stream;);
}

magicubeStatus_t magicubeSynchronize(magicubeHandle_t handle) noexcept {
    return MAGICUBE_GUARDED(synchronize(get(handle)););
}

magicubeStatus_t magicubeSetPointerMode(magicubeHandle_t handle,
                                        magicubePointerMode_t mode) noexcept {
    return MAGICUBE_GUARDED(settings(handle).scalars = to_core<pointer_mode>(
                                mode, 0, 1, "mode", "magicubePointerMode_t"););
}

magicubeStatus_t magicubeGetPointerMode(magicubeHandle_t handle,
                                        magicubePointerMode_t* mode) noexcept {
    return MAGICUBE_GUARDED(deref(mode, "mode") =
                                static_cast<magicubePointerMode_t>(get(handle).scalars););
}

magicubeStatus_t magicubeSetDeterministic(magicubeHandle_t handle, int32_t enabled) noexcept {
    return MAGICUBE_GUARDED(settings(handle).deterministic = to_flag(enabled, "enabled"););
}

magicubeStatus_t magicubeGetDeterministic(magicubeHandle_t handle, int32_t* enabled) noexcept {
    return MAGICUBE_GUARDED(deref(enabled, "enabled") = get(handle).deterministic;);
}

magicubeStatus_t magicubeSetNumThreads(magicubeHandle_t handle, int32_t count) noexcept {
    return MAGICUBE_GUARDED({
        require_value(count >= 0, "count is ", count, "; it must be at least 0 (0: all threads)");
        settings(handle).threads = count;
    });
}

magicubeStatus_t magicubeGetNumThreads(magicubeHandle_t handle, int32_t* count) noexcept {
    return MAGICUBE_GUARDED(deref(count, "count") = get(handle).threads;);
}

magicubeStatus_t magicubeSetValidation(magicubeHandle_t handle,
                                       magicubeValidation_t level) noexcept {
    return MAGICUBE_GUARDED(settings(handle).level =
                                to_core<validation>(level, 0, 1, "level", "magicubeValidation_t"););
}

magicubeStatus_t magicubeGetValidation(magicubeHandle_t handle,
                                       magicubeValidation_t* level) noexcept {
    return MAGICUBE_GUARDED(deref(level, "level") =
                                static_cast<magicubeValidation_t>(get(handle).level););
}
