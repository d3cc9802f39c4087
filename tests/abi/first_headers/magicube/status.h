/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes and the message behind the last one. */
#ifndef MAGICUBE_STATUS_H
#define MAGICUBE_STATUS_H

#include "magicube/export.h"

/* Result of every call. 0 is success; new codes may be added at the end. */
typedef enum magicubeStatus {
    MAGICUBE_STATUS_SUCCESS = 0,
    MAGICUBE_STATUS_INVALID_VALUE = 1,          /* an argument breaks a documented rule */
    MAGICUBE_STATUS_NOT_SUPPORTED = 2,          /* legal, but nothing here computes it */
    MAGICUBE_STATUS_ARCH_MISMATCH = 3,          /* the library holds no code for this GPU */
    MAGICUBE_STATUS_NO_DEVICE = 4,              /* no such device, or no driver */
    MAGICUBE_STATUS_DEVICE_MISMATCH = 5,        /* a pointer or plan belongs to another device */
    MAGICUBE_STATUS_MISALIGNED = 6,             /* an address is not aligned as required */
    MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE = 7, /* a buffer is smaller than ..._bufferSize said */
    MAGICUBE_STATUS_ALLOC_FAILED = 8,           /* out of host or device memory */
    MAGICUBE_STATUS_CUDA_ERROR = 9,             /* the CUDA runtime reported an error */
    MAGICUBE_STATUS_INTERNAL_ERROR = 10,        /* a defect of the library */
    MAGICUBE_STATUS_CAPTURING = 11              /* not allowed while the stream is being captured */
} magicubeStatus_t;

/* Name of a status ("MAGICUBE_STATUS_INVALID_VALUE"); "MAGICUBE_STATUS_UNKNOWN" for any other
 * number. */
MAGICUBE_API
const char* magicubeGetErrorName(magicubeStatus_t status) MAGICUBE_NOEXCEPT;

/* One sentence that says what a status means. Never null. */
MAGICUBE_API
const char* magicubeGetErrorString(magicubeStatus_t status) MAGICUBE_NOEXCEPT;

/*
 * Text of the last call of this thread that did not succeed: it names the function, the argument,
 * its value and the rule. Empty if none failed yet. Valid until the thread's next failing call;
 * never null.
 */
MAGICUBE_API
const char* magicubeGetLastErrorMessage(void) MAGICUBE_NOEXCEPT;

#endif
