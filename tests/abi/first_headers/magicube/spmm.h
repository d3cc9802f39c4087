/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SpMM: C = act(scale * (A * B) + beta * C + bias) with A sparse (M x K), B and C dense (K x N, M x
 * N).
 *
 * isSupported -> bufferSize -> createPlan -> execute (any number of times) -> destroyPlan.
 *
 * Types of A and B: int16/int16, int16/int8, int16/int4, int12/int8, int12/int4, int8/int8,
 * int8/int4, int4/int4, uint8/int8, uint8/int4 (C: int32, fp32, fp16, bf16 or int8) and fp32, fp16,
 * bf16, e4m3 with themselves (C: fp32, fp16, bf16 or int8).
 *
 * Result, in this order, in fp32, nothing contracted but the fma:
 *     s = (alpha * a_scale[i]) * b_scale[j]
 *     y = fma(s, (float)sum, fma(beta, C[i, j], bias[i]))     beta 0: C is not read; no bias: +0
 *     y = act(y), times 1 / c_scale if there is one, rounded once to C's type (integers saturate)
 * sum is exact for integers. C of int32 is the sum modulo 2^32 (plus C if beta is 1) and takes
 * alpha 1, beta 0 or 1 in host memory and no scale, bias or activation. Padding never contributes,
 * whatever B holds.
 */
#ifndef MAGICUBE_SPMM_H
#define MAGICUBE_SPMM_H

#include "magicube/handle.h"
#include "magicube/matrix.h"

/* What a plan is made for. Start from MAGICUBE_SPMM_PROBLEM_INIT. */
typedef struct magicubeSpMMProblem {
    size_t struct_size;
    magicubeConstSpMatDescr_t
        A; /* SR-BCRS, or CSR (taken as SR-BCRS with V = 1, S = 1); its batch counts */
    magicubeDataType_t b_type;
    magicubeOrder_t b_order;
    magicubeDataType_t c_type;
    magicubeOrder_t c_order;
    int64_t n_min; /* an execution's N lies in [n_min, n_max] */
    int64_t n_max;
    int64_t batch_count;           /* of B and C; A's is this, or 1 to serve all */
    magicubeGranularity_t a_scale; /* NONE, TENSOR or ROW (M elements) */
    magicubeGranularity_t b_scale; /* NONE, TENSOR or COL (N elements) */
    magicubeGranularity_t bias;    /* NONE or ROW (M elements) */
    magicubeGranularity_t c_scale; /* NONE or TENSOR; for C of int8 only */
    int64_t a_scale_batch_stride;  /* elements; 0: shared by the batch. So for the other three */
    int64_t b_scale_batch_stride;
    int64_t bias_batch_stride;
    int64_t c_scale_batch_stride;
    magicubeActivation_t activation;
    magicubeValueMode_t value_mode;
    const char* implementation; /* one of listImplementations, or null: the library chooses */
} magicubeSpMMProblem_t;
#define MAGICUBE_SPMM_PROBLEM_INIT                                                             \
    {                                                                                          \
        sizeof(magicubeSpMMProblem_t), NULL, MAGICUBE_INT8, MAGICUBE_ORDER_ROW, MAGICUBE_FP32, \
            MAGICUBE_ORDER_ROW, 1, 1, 1, MAGICUBE_GRANULARITY_NONE, MAGICUBE_GRANULARITY_NONE, \
            MAGICUBE_GRANULARITY_NONE, MAGICUBE_GRANULARITY_NONE, 0, 0, 0, 0,                  \
            MAGICUBE_ACTIVATION_NONE, MAGICUBE_VALUES_FIXED, NULL                              \
    }

/* Arrays of one execution, on the handle's device; those that the problem names are required. */
typedef struct magicubeSpMMArgs {
    size_t struct_size;
    const void* a_values; /* PER_CALL: values in A's layout; ignored otherwise */
    const float* a_scale;
    const float* b_scale;
    const float* bias;
    const float* c_scale;
} magicubeSpMMArgs_t;
#define MAGICUBE_SPMM_ARGS_INIT \
    { sizeof(magicubeSpMMArgs_t), NULL, NULL, NULL, NULL, NULL }

/* SUCCESS, or NOT_SUPPORTED with the reason in magicubeGetLastErrorMessage, or INVALID_VALUE. */
MAGICUBE_API
magicubeStatus_t magicubeSpMM_isSupported(magicubeHandle_t handle,
                                          const magicubeSpMMProblem_t* problem) MAGICUBE_NOEXCEPT;

/* Sizes for this problem's plan; it may synchronise. */
MAGICUBE_API
magicubeStatus_t magicubeSpMM_bufferSize(magicubeHandle_t handle,
                                         const magicubeSpMMProblem_t* problem,
                                         magicubeBufferSizes_t* sizes) MAGICUBE_NOEXCEPT;

/*
 * Makes a plan, packing A into plan_buffer (memory of the handle's device that must outlive the
 * plan), or into memory of its own if plan_buffer is null. It may synchronise. The pattern
 * (row_begin, row_end, col_indices) is copied in every value mode.
 */
MAGICUBE_API
magicubeStatus_t magicubeSpMM_createPlan(magicubeHandle_t handle,
                                         const magicubeSpMMProblem_t* problem, void* plan_buffer,
                                         size_t plan_buffer_size,
                                         magicubeSpMMPlan_t* plan) MAGICUBE_NOEXCEPT;

/* Frees a plan that no execution uses any more; null is allowed. */
MAGICUBE_API
magicubeStatus_t magicubeSpMM_destroyPlan(magicubeSpMMPlan_t plan) MAGICUBE_NOEXCEPT;

/*
 * Repacks new values of the same pattern, in A's layout, in the order of the handle's stream; the
 * caller orders it against running executions. NOT_SUPPORTED unless the plan's value mode is
 * UPDATABLE.
 */
MAGICUBE_API
magicubeStatus_t magicubeSpMM_updateValues(magicubeHandle_t handle, magicubeSpMMPlan_t plan,
                                           const void* values) MAGICUBE_NOEXCEPT;

/*
 * Executes a plan. alpha and beta are read as the handle's pointer mode says; null means 1 and 0. B
 * and C have the plan's types, orders and batch; args may be null if the problem names no array.
 * workspace is scratch of this execution alone; null is allowed where bufferSize says 0. Never
 * allocates, synchronises or reads back; many threads may execute one plan, each with its own
 * handle and workspace.
 */
MAGICUBE_API
magicubeStatus_t magicubeSpMM(magicubeHandle_t handle, magicubeSpMMPlan_t plan, const float* alpha,
                              magicubeConstDnMatDescr_t B, const float* beta,
                              magicubeDnMatDescr_t C, const magicubeSpMMArgs_t* args,
                              void* workspace, size_t workspace_size) MAGICUBE_NOEXCEPT;

/* Tells what a plan will run and why. */
MAGICUBE_API
magicubeStatus_t magicubeSpMM_planInfo(magicubeSpMMPlan_t plan,
                                       magicubePlanInfo_t* info) MAGICUBE_NOEXCEPT;

/*
 * Names of the implementations of a device, the reference last: writes at most capacity names
 * (names may be null if capacity is 0) and their number to count. The strings live as long as the
 * library.
 */
MAGICUBE_API
magicubeStatus_t magicubeSpMM_listImplementations(magicubeDevice_t device, const char** names,
                                                  int32_t capacity,
                                                  int32_t* count) MAGICUBE_NOEXCEPT;

#endif
