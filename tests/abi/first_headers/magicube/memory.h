/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and streams of a device, so that no CUDA binding is needed beside this library. */
#ifndef MAGICUBE_MEMORY_H
#define MAGICUBE_MEMORY_H

#include "magicube/handle.h"

/*
 * Allocates bytes on a device, aligned to 256 bytes; the contents are undefined. 0 bytes give a
 * null pointer and success. ALLOC_FAILED if there is not enough memory.
 */
MAGICUBE_API
magicubeStatus_t magicubeMalloc(magicubeDevice_t device, int32_t ordinal, size_t bytes,
                                void** pointer) MAGICUBE_NOEXCEPT;

/* Frees what magicubeMalloc gave, after waiting for the device; null is allowed. */
MAGICUBE_API
magicubeStatus_t magicubeFree(magicubeDevice_t device, int32_t ordinal,
                              void* pointer) MAGICUBE_NOEXCEPT;

/*
 * Copies bytes between any two of host memory and the handle's device, in the order of the handle's
 * stream. On a CUDA handle the call may return early: host memory must live until
 * magicubeSynchronize. The ranges must not overlap.
 */
MAGICUBE_API
magicubeStatus_t magicubeMemcpy(magicubeHandle_t handle, void* destination, const void* source,
                                size_t bytes) MAGICUBE_NOEXCEPT;

/* Sets bytes of the handle's device memory to value (0..255), in the order of the handle's stream.
 */
MAGICUBE_API
magicubeStatus_t magicubeMemset(magicubeHandle_t handle, void* destination, int32_t value,
                                size_t bytes) MAGICUBE_NOEXCEPT;

/* Makes a CUDA stream that does not wait for the default stream. NOT_SUPPORTED for the CPU. */
MAGICUBE_API
magicubeStatus_t magicubeStreamCreate(magicubeDevice_t device, int32_t ordinal,
                                      struct CUstream_st** stream) MAGICUBE_NOEXCEPT;

/* Frees a stream that magicubeStreamCreate made, once its work is done; null is allowed. */
MAGICUBE_API
magicubeStatus_t magicubeStreamDestroy(magicubeDevice_t device, int32_t ordinal,
                                       struct CUstream_st* stream) MAGICUBE_NOEXCEPT;

#endif
