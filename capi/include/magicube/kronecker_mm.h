/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products with a Kronecker-sparse factor or chain K (kronecker.h), of N vectors at once:
 *     batch first   X is N x cols(K), Y is N x rows(K):  Y = act(scale * (X K^T) + beta * Y + bias)
 *     batch last    X is cols(K) x N, Y is rows(K) x N:  Y = act(scale * (K X) + beta * Y + bias)
 * With transpose, K^T stands in place of K (and rows(K) and cols(K) change places).
 *
 * isSupported -> bufferSize -> createPlan -> execute (any number of times) -> destroyPlan, as in
 * spmm.h, on the CPU and on CUDA.
 *
 * K and X have one type: fp32, fp16 or bf16 (Y: fp32, fp16, bf16 or int8), or int8 (one factor; Y:
 * int32, fp32, fp16, bf16 or int8).
 *
 * Result of feature i of vector n, in SpMM's order, in fp32:
 *     s = (alpha * k_scale[i]) * x_scale[n]
 *     y = fma(s, (float)sum, fma(beta, Y, bias[i]))          beta 0: Y is not read; no bias: +0
 *     y = act(y), times 1 / y_scale if there is one, rounded once to Y's type (integers saturate)
 * Sums of int8 are exact, int32 is the sum modulo 2^32. Floating sums are formed in at least fp32,
 * and so are the results that pass from one factor of a chain to the next. Where it saves work a
 * plan with FIXED or UPDATABLE values multiplies neighbouring factors into one, in fp64 rounded to
 * fp32.
 */
#ifndef MAGICUBE_KRONECKER_MM_H
#define MAGICUBE_KRONECKER_MM_H

#include "magicube/kronecker.h"

/* Which axis of X and Y counts vectors. */
typedef enum magicubeBatchLayout {
    MAGICUBE_BATCH_FIRST = 1, /* rows are vectors */
    MAGICUBE_BATCH_LAST = 2   /* columns are vectors */
} magicubeBatchLayout_t;

/* What a plan is made for. Start from MAGICUBE_KRONECKER_MM_PROBLEM_INIT. */
typedef struct magicubeKroneckerMMProblem {
    size_t struct_size;
    magicubeConstKroneckerDescr_t K; /* a factor or a chain */
    int32_t transpose;               /* 1: K^T in place of K; else 0 */
    magicubeBatchLayout_t layout;
    magicubeOrder_t x_order;
    magicubeDataType_t y_type;
    magicubeOrder_t y_order;
    int64_t n_min; /* an execution's number of vectors N lies in [n_min, n_max] */
    int64_t n_max;
    int64_t batch_count;           /* of X and Y; one K serves all */
    magicubeGranularity_t k_scale; /* NONE, TENSOR or ROW (one a feature of Y) */
    magicubeGranularity_t x_scale; /* NONE, TENSOR or COL (one a vector) */
    magicubeGranularity_t bias;    /* NONE or ROW (one a feature of Y) */
    magicubeGranularity_t y_scale; /* NONE or TENSOR; for Y of int8 only */
    int64_t k_scale_batch_stride;  /* elements; 0: shared by the batch. So for the other three */
    int64_t x_scale_batch_stride;
    int64_t bias_batch_stride;
    int64_t y_scale_batch_stride;
    magicubeActivation_t activation;
    magicubeValueMode_t value_mode;
    const char* implementation; /* one of listImplementations, or null: the library chooses */
} magicubeKroneckerMMProblem_t;
#define MAGICUBE_KRONECKER_MM_PROBLEM_INIT                                                         \
    {                                                                                              \
        sizeof(magicubeKroneckerMMProblem_t), NULL, 0, MAGICUBE_BATCH_FIRST, MAGICUBE_ORDER_ROW,   \
            MAGICUBE_FP32, MAGICUBE_ORDER_ROW, 1, 1, 1, MAGICUBE_GRANULARITY_NONE,                 \
            MAGICUBE_GRANULARITY_NONE, MAGICUBE_GRANULARITY_NONE, MAGICUBE_GRANULARITY_NONE, 0, 0, \
            0, 0, MAGICUBE_ACTIVATION_NONE, MAGICUBE_VALUES_FIXED, NULL                            \
    }

/* Arrays of one execution, on the handle's device; those that the problem names are required. */
typedef struct magicubeKroneckerMMArgs {
    size_t struct_size;
    const void* const* k_values; /* PER_CALL: an array a factor, the list in host memory; ignored
                                    otherwise */
    const float* k_scale;
    const float* x_scale;
    const float* bias;
    const float* y_scale;
} magicubeKroneckerMMArgs_t;
#define MAGICUBE_KRONECKER_MM_ARGS_INIT \
    { sizeof(magicubeKroneckerMMArgs_t), NULL, NULL, NULL, NULL, NULL }

/* SUCCESS, or NOT_SUPPORTED with the reason in magicubeGetLastErrorMessage, or INVALID_VALUE. */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMM_isSupported(
    magicubeHandle_t handle, const magicubeKroneckerMMProblem_t* problem) MAGICUBE_NOEXCEPT;

/* Sizes for this problem's plan; it may synchronise. */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMM_bufferSize(magicubeHandle_t handle,
                                                const magicubeKroneckerMMProblem_t* problem,
                                                magicubeBufferSizes_t* sizes) MAGICUBE_NOEXCEPT;

/*
 * Makes a plan, packing K into plan_buffer (memory of the handle's device that must outlive the
 * plan), or into memory of its own if plan_buffer is null.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMM_createPlan(magicubeHandle_t handle,
                                                const magicubeKroneckerMMProblem_t* problem,
                                                void* plan_buffer, size_t plan_buffer_size,
                                                magicubeKroneckerMMPlan_t* plan) MAGICUBE_NOEXCEPT;

/* Frees a plan that no execution uses any more; null is allowed. */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMM_destroyPlan(magicubeKroneckerMMPlan_t plan) MAGICUBE_NOEXCEPT;

/*
 * Repacks new values, one array a factor (values is a list in host memory); the caller orders it
 * against running executions. NOT_SUPPORTED unless the plan's value mode is UPDATABLE.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMM_updateValues(magicubeHandle_t handle,
                                                  magicubeKroneckerMMPlan_t plan,
                                                  const void* const* values) MAGICUBE_NOEXCEPT;

/*
 * Executes a plan. alpha and beta are read as the handle's pointer mode says; null means 1 and 0. X
 * and Y have the plan's types, orders and batch, and share no memory; args may be null if the
 * problem names no array. workspace is scratch of this execution alone; null is allowed where
 * bufferSize says 0. Never allocates; many threads may execute one plan, each with its own handle
 * and workspace.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMM(magicubeHandle_t handle, magicubeKroneckerMMPlan_t plan,
                                     const float* alpha, magicubeConstDnMatDescr_t X,
                                     const float* beta, magicubeDnMatDescr_t Y,
                                     const magicubeKroneckerMMArgs_t* args, void* workspace,
                                     size_t workspace_size) MAGICUBE_NOEXCEPT;

/* Tells what a plan will run and why. */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMM_planInfo(magicubeKroneckerMMPlan_t plan,
                                              magicubePlanInfo_t* info) MAGICUBE_NOEXCEPT;

/*
 * Names of the implementations of a device, the reference last: writes at most capacity names
 * (names may be null if capacity is 0) and their number to count. The strings live as long as the
 * library.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerMM_listImplementations(magicubeDevice_t device,
                                                         const char** names, int32_t capacity,
                                                         int32_t* count) MAGICUBE_NOEXCEPT;

/*
 * The gradient of one factor's values: with Y = K X and dY the derivative of a loss by Y,
 *     gradient[i, j, k, l] = sum over n of dY[(i b + j) d + l, n] * X[(i c + k) d + l, n]
 * over all vectors of all matrices of the batch, summed in fp64 and rounded once. X and dY have one
 * type, they and gradient are fp32, fp16 or bf16; no output shares memory with an input. (The
 * gradient of X is the product with transpose.) On CUDA it is stream-ordered.
 */
MAGICUBE_API
magicubeStatus_t magicubeKroneckerGradient(magicubeHandle_t handle, magicubeConstDnMatDescr_t X,
                                           magicubeConstDnMatDescr_t dY,
                                           magicubeBatchLayout_t layout,
                                           magicubeKroneckerDescr_t gradient) MAGICUBE_NOEXCEPT;

#endif
