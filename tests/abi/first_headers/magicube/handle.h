/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handle names a device and carries the settings of calls: stream, threads, validation. It is
 * cheap. Use one a thread at a time; plans may be shared between handles of the same device.
 */
#ifndef MAGICUBE_HANDLE_H
#define MAGICUBE_HANDLE_H

#include "magicube/status.h"
#include "magicube/types.h"

/* The CUDA runtime's stream, declared here so that no CUDA header is needed. */
struct CUstream_st;

typedef enum magicubePointerMode {
    MAGICUBE_POINTER_MODE_HOST =
        0, /* alpha and beta lie in host memory and are read by the call itself */
    MAGICUBE_POINTER_MODE_DEVICE = 1 /* alpha and beta lie on the handle's device */
} magicubePointerMode_t;

typedef enum magicubeValidation {
    MAGICUBE_VALIDATION_BASIC = 0, /* sizes, types, pointers */
    MAGICUBE_VALIDATION_FULL =
        1 /* also the contents of index arrays, scales and values (CPU only) */
} magicubeValidation_t;

/* What magicubeGetDeviceInfo tells. */
typedef struct magicubeDeviceInfo {
    size_t struct_size;
    char name[256];             /* as the device calls itself, nul-terminated */
    int32_t compute_capability; /* 10 * major + minor on CUDA (90 for sm_90), 0 on the CPU */
    int32_t
        multiprocessors; /* streaming multiprocessors on CUDA, usable hardware threads on the CPU */
    int64_t memory_bytes; /* total memory of the device */
    int32_t supported;    /* 1 if this build holds code for the device */
} magicubeDeviceInfo_t;
#define MAGICUBE_DEVICE_INFO_INIT \
    { sizeof(magicubeDeviceInfo_t), {0}, 0, 0, 0, 0 }

/*
 * Number of devices of a kind: 1 for the CPU, and for CUDA 0 (with success) where there is no GPU,
 * no driver or no CUDA in this build.
 */
MAGICUBE_API
magicubeStatus_t magicubeGetDeviceCount(magicubeDevice_t device, int32_t* count) MAGICUBE_NOEXCEPT;

/* Describes one device. NO_DEVICE if there is none with this ordinal. */
MAGICUBE_API
magicubeStatus_t magicubeGetDeviceInfo(magicubeDevice_t device, int32_t ordinal,
                                       magicubeDeviceInfo_t* info) MAGICUBE_NOEXCEPT;

/*
 * Makes a handle on a device. The first call of a process starts the library's thread pool.
 * NO_DEVICE if the device is absent, ARCH_MISMATCH if the library holds no code for it.
 */
MAGICUBE_API
magicubeStatus_t magicubeCreate(magicubeHandle_t* handle, magicubeDevice_t device,
                                int32_t ordinal) MAGICUBE_NOEXCEPT;

/* Frees a handle; null is allowed. Work already submitted to its stream goes on. */
MAGICUBE_API
magicubeStatus_t magicubeDestroy(magicubeHandle_t handle) MAGICUBE_NOEXCEPT;

/* Device and ordinal of a handle. */
MAGICUBE_API
magicubeStatus_t magicubeGetDevice(magicubeHandle_t handle, magicubeDevice_t* device,
                                   int32_t* ordinal) MAGICUBE_NOEXCEPT;

/* Stream of a CUDA handle; null (the default) is the legacy default stream. A CPU handle takes null
 * only. */
MAGICUBE_API
magicubeStatus_t magicubeSetStream(magicubeHandle_t handle,
                                   struct CUstream_st* stream) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeGetStream(magicubeHandle_t handle,
                                   struct CUstream_st** stream) MAGICUBE_NOEXCEPT;

/* Waits for all work of the handle's stream. CAPTURING while that stream is being captured. */
MAGICUBE_API
magicubeStatus_t magicubeSynchronize(magicubeHandle_t handle) MAGICUBE_NOEXCEPT;

/* Where alpha and beta are read; HOST until set. Scales and bias are always arrays on the device.
 */
MAGICUBE_API
magicubeStatus_t magicubeSetPointerMode(magicubeHandle_t handle,
                                        magicubePointerMode_t mode) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeGetPointerMode(magicubeHandle_t handle,
                                        magicubePointerMode_t* mode) MAGICUBE_NOEXCEPT;

/* 1: the same call gives the same bits each time, at some cost; 0 (the default) lets floating sums
 * vary. */
MAGICUBE_API
magicubeStatus_t magicubeSetDeterministic(magicubeHandle_t handle,
                                          int32_t enabled) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeGetDeterministic(magicubeHandle_t handle,
                                          int32_t* enabled) MAGICUBE_NOEXCEPT;

/* Threads of the process's pool that calls on this handle may use; 0 (the default) means all of
 * them. */
MAGICUBE_API
magicubeStatus_t magicubeSetNumThreads(magicubeHandle_t handle, int32_t count) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeGetNumThreads(magicubeHandle_t handle, int32_t* count) MAGICUBE_NOEXCEPT;

/* How much is checked; FULL until set on the CPU, BASIC on CUDA, where executing never reads the
 * arrays. */
MAGICUBE_API
magicubeStatus_t magicubeSetValidation(magicubeHandle_t handle,
                                       magicubeValidation_t level) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeGetValidation(magicubeHandle_t handle,
                                       magicubeValidation_t* level) MAGICUBE_NOEXCEPT;

#endif
