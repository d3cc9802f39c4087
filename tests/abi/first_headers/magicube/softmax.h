/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax over the existing elements of each row of a sparse matrix, values in SR-BCRS layout in
 * and out.
 *
 *     x = fma((alpha * row_scale[i]) * col_scale[j], score, bias)      in fp32
 *     p = exp(x - max x of the row) / sum of the row's exp
 *
 * Scores are fp32, fp16 or int32. p is written as fp32, fp16 or bf16, or as int16, int8, uint8 or
 * int4 with a scale a row: out_scale[i] = largest p of row i / largest integer (32767, 127, 255 or
 * 7), so that small probabilities survive; p = out_scale[i] * integer. Padding and absent elements
 * become 0. A row without elements, or whose x are all -infinity, is all 0 with scale 1. A row that
 * holds NaN or +infinity is NaN (integers: all 0 with scale NaN).
 */
#ifndef MAGICUBE_SOFTMAX_H
#define MAGICUBE_SOFTMAX_H

#include "magicube/handle.h"
#include "magicube/matrix.h"

/* What a plan is made for. Start from MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT. */
typedef struct magicubeSparseSoftmaxProblem {
    size_t struct_size;
    magicubeConstSpMatDescr_t
        pattern; /* SR-BCRS or CSR; its values and value type are not looked at */
    magicubeDataType_t in_type;
    magicubeDataType_t out_type;
    int64_t batch_count;      /* of the value arrays; the pattern's is this, or 1 to serve all */
    int64_t in_batch_stride;  /* elements between score arrays of a batch with one pattern; 0: slots
                               * V */
    int64_t out_batch_stride; /* the same of the output */
    magicubeGranularity_t row_scale; /* NONE, TENSOR or ROW (M elements) */
    magicubeGranularity_t col_scale; /* NONE, TENSOR or COL (N elements) */
    int32_t bias;                    /* 1: fp32 summands in the pattern's layout are added */
    int64_t row_scale_batch_stride;  /* elements; 0: shared by the batch. So for the next two */
    int64_t col_scale_batch_stride;
    int64_t bias_batch_stride;
    int64_t out_scale_batch_stride; /* elements between the output's row scales; 0: M */
    const char* implementation;     /* one of listImplementations, or null: the library chooses */
} magicubeSparseSoftmaxProblem_t;
#define MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT                                                 \
    {                                                                                        \
        sizeof(magicubeSparseSoftmaxProblem_t), NULL, MAGICUBE_FP32, MAGICUBE_FP32, 1, 0, 0, \
            MAGICUBE_GRANULARITY_NONE, MAGICUBE_GRANULARITY_NONE, 0, 0, 0, 0, 0, NULL        \
    }

/* Arrays of one execution, on the handle's device; those that the problem names are required. */
typedef struct magicubeSparseSoftmaxArgs {
    size_t struct_size;
    const float* row_scale;
    const float* col_scale;
    const float* bias;
    float* out_scale; /* M elements a matrix; required for integer output, not written otherwise */
} magicubeSparseSoftmaxArgs_t;
#define MAGICUBE_SPARSE_SOFTMAX_ARGS_INIT \
    { sizeof(magicubeSparseSoftmaxArgs_t), NULL, NULL, NULL, NULL }

/* As their namesakes of spmm.h. */
MAGICUBE_API
magicubeStatus_t magicubeSparseSoftmax_isSupported(
    magicubeHandle_t handle, const magicubeSparseSoftmaxProblem_t* problem) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSparseSoftmax_bufferSize(magicubeHandle_t handle,
                                                  const magicubeSparseSoftmaxProblem_t* problem,
                                                  magicubeBufferSizes_t* sizes) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSparseSoftmax_createPlan(
    magicubeHandle_t handle, const magicubeSparseSoftmaxProblem_t* problem, void* plan_buffer,
    size_t plan_buffer_size, magicubeSparseSoftmaxPlan_t* plan) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSparseSoftmax_destroyPlan(magicubeSparseSoftmaxPlan_t plan)
    MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSparseSoftmax_planInfo(magicubeSparseSoftmaxPlan_t plan,
                                                magicubePlanInfo_t* info) MAGICUBE_NOEXCEPT;
MAGICUBE_API
magicubeStatus_t magicubeSparseSoftmax_listImplementations(magicubeDevice_t device,
                                                           const char** names, int32_t capacity,
                                                           int32_t* count) MAGICUBE_NOEXCEPT;

/*
 * Executes a plan: scores in, probabilities out, both in the pattern's layout; they may be one
 * array if their types are the same. alpha is read as the handle's pointer mode says; null means 1.
 */
MAGICUBE_API
magicubeStatus_t magicubeSparseSoftmax(magicubeHandle_t handle, magicubeSparseSoftmaxPlan_t plan,
                                       const float* alpha, const void* scores, void* out,
                                       const magicubeSparseSoftmaxArgs_t* args, void* workspace,
                                       size_t workspace_size) MAGICUBE_NOEXCEPT;

#endif
