/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types shared by every header: element types, orders, devices, opaque objects.
 *
 * Every enumerator has a fixed value that never changes. Zero is either the natural default or, for
 * enums without one, no enumerator at all, so that a zeroed struct is never silently meaningful.
 */
#ifndef MAGICUBE_TYPES_H
#define MAGICUBE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#include "magicube/export.h"

/* Type of a matrix element. Integers are two's complement and use their full range. */
typedef enum magicubeDataType {
    MAGICUBE_INT4 = 1,  /* [-8, 7]; two a byte, the element with the even index in the low nibble */
    MAGICUBE_INT8 = 2,  /* [-128, 127] */
    MAGICUBE_UINT8 = 3, /* [0, 255]; softmax output, left operand of SpMM, masks */
    MAGICUBE_INT12 = 4, /* [-2048, 2047], stored as int16 */
    MAGICUBE_INT16 = 5, /* [-32768, 32767] */
    MAGICUBE_INT32 = 6,
    MAGICUBE_FP16 = 7, /* IEEE binary16 */
    MAGICUBE_BF16 = 8, /* upper half of binary32 */
    MAGICUBE_FP32 = 9, /* IEEE binary32 */
    MAGICUBE_E4M3 =
        10 /* OCP 8-bit float: 4 exponent bits, 3 of mantissa, no infinity, largest 448 */
} magicubeDataType_t;

/* Width of the offsets of CSR and BSR and of SR-BCRS's row_begin and row_end. Column indices are
 * int32. */
typedef enum magicubeIndexType {
    MAGICUBE_INDEX_32 = 1, /* int32_t */
    MAGICUBE_INDEX_64 = 2  /* int64_t */
} magicubeIndexType_t;

/* Storage order of a dense matrix. */
typedef enum magicubeOrder {
    MAGICUBE_ORDER_ROW = 1, /* element (i, j) at i * ld + j */
    MAGICUBE_ORDER_COL = 2  /* element (i, j) at j * ld + i */
} magicubeOrder_t;

/* Where data lives and operations run. Always named, never guessed. */
typedef enum magicubeDevice { MAGICUBE_DEVICE_CPU = 1, MAGICUBE_DEVICE_CUDA = 2 } magicubeDevice_t;

/* Storage format of a sparse matrix. */
typedef enum magicubeSparseFormat {
    MAGICUBE_FORMAT_CSR = 1,
    MAGICUBE_FORMAT_BSR = 2,
    MAGICUBE_FORMAT_SR_BCRS = 3
} magicubeSparseFormat_t;

/* Activation of an epilogue. */
typedef enum magicubeActivation {
    MAGICUBE_ACTIVATION_NONE = 0,
    MAGICUBE_ACTIVATION_RELU = 1,
    MAGICUBE_ACTIVATION_GELU = 2 /* x * (1 + erf(x / sqrt(2))) / 2 */
} magicubeActivation_t;

/* Which elements share one scale (or, for a bias, one summand). */
typedef enum magicubeGranularity {
    MAGICUBE_GRANULARITY_NONE = 0,   /* no such array */
    MAGICUBE_GRANULARITY_TENSOR = 1, /* one element for the whole matrix */
    MAGICUBE_GRANULARITY_ROW = 2,    /* one element a row */
    MAGICUBE_GRANULARITY_COL = 3     /* one element a column */
} magicubeGranularity_t;

/* How a plan treats the values of its sparse operand. */
typedef enum magicubeValueMode {
    MAGICUBE_VALUES_FIXED = 0, /* packed when the plan is made; the arrays may then be freed */
    MAGICUBE_VALUES_UPDATABLE =
        1, /* as FIXED, and ..._updateValues repacks new values of the same pattern */
    MAGICUBE_VALUES_PER_CALL =
        2 /* each execution reads the values it is given, in the public layout */
} magicubeValueMode_t;

typedef struct magicubeContext* magicubeHandle_t;

typedef struct magicubeDnMatDescr* magicubeDnMatDescr_t;
typedef const struct magicubeDnMatDescr* magicubeConstDnMatDescr_t;
typedef struct magicubeSpMatDescr* magicubeSpMatDescr_t;
typedef const struct magicubeSpMatDescr* magicubeConstSpMatDescr_t;

typedef struct magicubeSpMMPlan* magicubeSpMMPlan_t;
typedef struct magicubeSDDMMPlan* magicubeSDDMMPlan_t;
typedef struct magicubeSparseSoftmaxPlan* magicubeSparseSoftmaxPlan_t;

/* What a plan and its executions need. Set struct_size (the INIT macro does) before the call. */
typedef struct magicubeBufferSizes {
    size_t struct_size;
    size_t plan_bytes;     /* of the buffer that a plan keeps until it is destroyed */
    size_t plan_alignment; /* of that buffer's address, in bytes */
    size_t
        workspace_bytes; /* of scratch for one execution at the largest size of the plan's range */
    size_t workspace_alignment; /* of the scratch's address, in bytes */
} magicubeBufferSizes_t;
#define MAGICUBE_BUFFER_SIZES_INIT \
    { sizeof(magicubeBufferSizes_t), 0, 0, 0, 0 }

/* What a plan says of itself. The strings live as long as the plan. */
typedef struct magicubePlanInfo {
    size_t struct_size;
    const char* implementation; /* name of the implementation that executes */
    const char* reasons; /* one line a candidate: accepted with its cost, or declined and why */
    size_t plan_bytes;   /* as in magicubeBufferSizes_t */
    size_t workspace_bytes;
    int32_t owns_buffer; /* 1 if the plan allocated its buffer itself */
} magicubePlanInfo_t;
#define MAGICUBE_PLAN_INFO_INIT \
    { sizeof(magicubePlanInfo_t), NULL, NULL, 0, 0, 0 }

/* Short name of a type ("int8", "bf16", ...), or "unknown". Never null. */
MAGICUBE_API
const char* magicubeGetDataTypeName(magicubeDataType_t type) MAGICUBE_NOEXCEPT;

/* Bits that one stored element takes (4, 8, 16 or 32; int12 takes 16), or 0 for an unknown type. */
MAGICUBE_API
int32_t magicubeGetDataTypeBits(magicubeDataType_t type) MAGICUBE_NOEXCEPT;

#endif
