/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SDDMM: the elements of a dense product A * B (M x K times K x N) at the places of a sparse
 * pattern (M x N).
 *
 * Types of A and B: int16, int8 or int4 (out: int32, fp32, fp16, bf16, int16 or int8) and fp32,
 * fp16, bf16, e4m3 (out: fp32, fp16, bf16, int16 or int8), both of one type.
 *
 * Result in SpMM's order (spmm.h) without beta, bias and activation: (alpha * a_scale[i]) *
 * b_scale[j] * (float)sum, times 1 / out_scale if there is one, rounded once; int32 is the sum
 * modulo 2^32 and takes alpha 1 in host memory and no scale. Values are written in the pattern's
 * layout and stride; padding and absent elements become 0.
 */
#ifndef MAGICUBE_SDDMM_H
#define MAGICUBE_SDDMM_H

#include "magicube/handle.h"
#include "magicube/matrix.h"

/* What a plan is made for. Start from MAGICUBE_SDDMM_PROBLEM_INIT. */
typedef struct magicubeSDDMMProblem {
    size_t struct_size;
    magicubeConstSpMatDescr_t
        pattern; /* SR-BCRS or CSR; its values and value type are not looked at */
    magicubeDataType_t a_type;
    magicubeOrder_t a_order;
    magicubeDataType_t b_type;
    magicubeOrder_t b_order;
    magicubeDataType_t out_type;
    int64_t k_min; /* an execution's K lies in [k_min, k_max] */
    int64_t k_max;
    int64_t batch_count;      /* of A, B and the values; the pattern's is this, or 1 to serve all */
    int64_t out_batch_stride; /* elements between the value arrays of a batch with one pattern; 0:
                                 slots * V */
    magicubeGranularity_t a_scale;   /* NONE, TENSOR or ROW (M elements) */
    magicubeGranularity_t b_scale;   /* NONE, TENSOR or COL (N elements) */
    magicubeGranularity_t out_scale; /* NONE or TENSOR; for out of int16 or int8 only */
    int64_t a_scale_batch_stride;    /* elements; 0: shared by the batch. So for the other two */
    int64_t b_scale_batch_stride;
    int64_t out_scale_batch_stride;
    const char* implementation; /* one of listImplementations, or null: the library chooses */
} magicubeSDDMMProblem_t;
#define MAGICUBE_SDDMM_PROBLEM_INIT                                                             \
    {                                                                                           \
        sizeof(magicubeSDDMMProblem_t), NULL, MAGICUBE_INT8, MAGICUBE_ORDER_ROW, MAGICUBE_INT8, \
            MAGICUBE_ORDER_ROW, MAGICUBE_FP32, 1, 1, 1, 0, MAGICUBE_GRANULARITY_NONE,           \
            MAGICUBE_GRANULARITY_NONE, MAGICUBE_GRANULARITY_NONE, 0, 0, 0, NULL                 \
    }

/* Arrays of one execution, on the handle's device; those that the problem names are required. */
typedef struct magicubeSDDMMArgs {
    size_t struct_size;
    const float* a_scale;
    const float* b_scale;
    const float* out_scale;
} magicubeSDDMMArgs_t;
#define MAGICUBE_SDDMM_ARGS_INIT \
    { sizeof(magicubeSDDMMArgs_t), NULL, NULL, NULL }

/* As their namesakes of spmm.h. */
MAGICUBE_API
magicubeStatus_t magicubeSDDMM_isSupported(magicubeHandle_t handle,
                                           const magicubeSDDMMProblem_t* problem) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSDDMM_bufferSize(magicubeHandle_t handle,
                                          const magicubeSDDMMProblem_t* problem,
                                          magicubeBufferSizes_t* sizes) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSDDMM_createPlan(magicubeHandle_t handle,
                                          const magicubeSDDMMProblem_t* problem, void* plan_buffer,
                                          size_t plan_buffer_size,
                                          magicubeSDDMMPlan_t* plan) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSDDMM_destroyPlan(magicubeSDDMMPlan_t plan) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSDDMM_planInfo(magicubeSDDMMPlan_t plan,
                                        magicubePlanInfo_t* info) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSDDMM_listImplementations(magicubeDevice_t device, const char** names,
                                                   int32_t capacity,
                                                   int32_t* count) MAGICUBE_NOEXCEPT;

/*
 * Executes a plan: values, in the pattern's layout, receives the products. A batch with one pattern
 * writes batch_count arrays, out_batch_stride apart; one with different patterns the shared array.
 * alpha as in SpMM.
 */
MAGICUBE_API
magicubeStatus_t magicubeSDDMM(magicubeHandle_t handle, magicubeSDDMMPlan_t plan,
                               const float* alpha, magicubeConstDnMatDescr_t A,
                               magicubeConstDnMatDescr_t B, void* values,
                               const magicubeSDDMMArgs_t* args, void* workspace,
                               size_t workspace_size) MAGICUBE_NOEXCEPT;

#endif
