// SPDX-License-Identifier: Apache-2.0
#include "magicube/status.h"

#include "guard.hpp"

namespace {

struct entry {
    magicubeStatus_t status;
    const char* name;
    const char* sentence;
};

#define MAGICUBE_ENTRY(NAME, SENTENCE) \
    { MAGICUBE_STATUS_##NAME, "MAGICUBE_STATUS_" #NAME, SENTENCE }
constexpr entry entries[] = {
    MAGICUBE_ENTRY(SUCCESS, "The call succeeded."),
    MAGICUBE_ENTRY(INVALID_VALUE, "An argument breaks a documented rule."),
    MAGICUBE_ENTRY(NOT_SUPPORTED, "The request is legal, but nothing in this library computes it."),
    MAGICUBE_ENTRY(ARCH_MISMATCH, "The library holds no code for this GPU's architecture."),
    MAGICUBE_ENTRY(NO_DEVICE, "There is no such device."),
    MAGICUBE_ENTRY(DEVICE_MISMATCH, "A pointer or plan belongs to another device."),
    MAGICUBE_ENTRY(MISALIGNED, "An address is not aligned as required."),
    MAGICUBE_ENTRY(INSUFFICIENT_WORKSPACE, "A buffer is smaller than the bufferSize call said."),
    MAGICUBE_ENTRY(ALLOC_FAILED, "There is not enough memory."),
    MAGICUBE_ENTRY(CUDA_ERROR, "The CUDA runtime reported an error."),
    MAGICUBE_ENTRY(INTERNAL_ERROR, "The library has a defect; please report it."),
    MAGICUBE_ENTRY(CAPTURING, "The call is not allowed while the stream is being captured."),
};
#undef MAGICUBE_ENTRY

const entry* find(magicubeStatus_t status) {
    for (const auto& e : entries)
        if (static_cast<int>(e.status) == static_cast<int>(status)) return &e;
    return nullptr;
}

using core_status = magicube::status;
static_assert(static_cast<int>(core_status::invalid_value) == MAGICUBE_STATUS_INVALID_VALUE);
static_assert(static_cast<int>(core_status::not_supported) == MAGICUBE_STATUS_NOT_SUPPORTED);
static_assert(static_cast<int>(core_status::arch_mismatch) == MAGICUBE_STATUS_ARCH_MISMATCH);
static_assert(static_cast<int>(core_status::no_device) == MAGICUBE_STATUS_NO_DEVICE);
static_assert(static_cast<int>(core_status::device_mismatch) == MAGICUBE_STATUS_DEVICE_MISMATCH);
static_assert(static_cast<int>(core_status::misaligned) == MAGICUBE_STATUS_MISALIGNED);
static_assert(static_cast<int>(core_status::insufficient_workspace) ==
              MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE);
static_assert(static_cast<int>(core_status::alloc_failed) == MAGICUBE_STATUS_ALLOC_FAILED);
static_assert(static_cast<int>(core_status::cuda_error) == MAGICUBE_STATUS_CUDA_ERROR);
static_assert(static_cast<int>(core_status::internal_error) == MAGICUBE_STATUS_INTERNAL_ERROR);
static_assert(static_cast<int>(core_status::capturing) == MAGICUBE_STATUS_CAPTURING);

}  // namespace

const char* magicubeGetErrorName(magicubeStatus_t status) noexcept {
    const entry* e = find(status);
    return e ? e->name : "MAGICUBE_STATUS_UNKNOWN";
}

const char* magicubeGetErrorString(magicubeStatus_t status) noexcept {
    const entry* e = find(status);
    return e ? e->sentence : "The status is not one that this version of the library knows.";
}

const char* magicubeGetLastErrorMessage(void) noexcept {
    return magicube::capi::last_error_message();
}
