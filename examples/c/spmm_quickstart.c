/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sparse, quantised linear layer from C: prunes a random weight in vectors of 8 x 1, quantises it
 * to int8 with a scale a row, converts it to SR-BCRS and multiplies it by int8 activations; scales,
 * bias and ReLU are applied in the same pass. The result is checked against a plain loop, bit by
 * bit.
 *
 *   cc -std=c11 spmm_quickstart.c -lmagicube -lm
 */
#include <math.h>
#include <string.h>

#include "example.h"

enum { M = 1024, K = 1024, N = 256, V = 8 };
static const double kSparsity = 0.9;

/* The weight after pruning and quantisation. */
typedef struct {
    int8_t* values; /* M x K, row-major; 0 where pruned */
    uint8_t* mask;  /* M x K */
    float* scale;   /* M */
} weight_t;

static weight_t make_weight(magicubeHandle_t handle, uint64_t* random) {
    weight_t weight = {allocate(M * K), allocate(M * K), allocate(M * sizeof(float))};
    float* real = allocate(M * K * sizeof(float));
    for (int64_t i = 0; i < (int64_t)M * K; ++i) real[i] = random_float(random);

    magicubeDnMatDescr_t real_matrix, values_matrix, mask_matrix;
    CHECK(magicubeCreateDnMat(&real_matrix, M, K, K, real, MAGICUBE_FP32, MAGICUBE_ORDER_ROW));
    CHECK(magicubeCreateDnMat(&values_matrix, M, K, K, weight.values, MAGICUBE_INT8,
                              MAGICUBE_ORDER_ROW));
    CHECK(magicubeCreateDnMat(&mask_matrix, M, K, K, weight.mask, MAGICUBE_UINT8,
                              MAGICUBE_ORDER_ROW));

    magicubePruneParams_t prune = MAGICUBE_PRUNE_PARAMS_INIT;
    prune.vector_length = V;
    prune.sparsity = kSparsity;
    size_t bytes = 0;
    CHECK(magicubePrune_bufferSize(handle, real_matrix, &prune, &bytes));
    void* workspace = allocate(bytes);
    CHECK(magicubePrune(handle, real_matrix, &prune, mask_matrix, workspace, bytes));
    release(workspace);
    for (int64_t i = 0; i < (int64_t)M * K; ++i) real[i] = weight.mask[i] ? real[i] : 0.0f;

    magicubeQuantizeParams_t quantize = MAGICUBE_QUANTIZE_PARAMS_INIT;
    quantize.granularity = MAGICUBE_GRANULARITY_ROW;
    CHECK(magicubeQuantize_bufferSize(handle, real_matrix, &quantize, values_matrix, &bytes));
    workspace = allocate(bytes);
    CHECK(magicubeQuantize(handle, real_matrix, &quantize, values_matrix, weight.scale, workspace,
                           bytes));
    release(workspace);

    CHECK(magicubeDestroyDnMat(mask_matrix));
    CHECK(magicubeDestroyDnMat(values_matrix));
    CHECK(magicubeDestroyDnMat(real_matrix));
    release(real);
    return weight;
}

/* Count, allocate, fill: the three steps of every conversion. */
static magicubeSrBcrsArrays_t make_sparse(magicubeHandle_t handle, const weight_t* weight) {
    const size_t block_rows = (M + V - 1) / V;
    magicubeConstDnMatDescr_t dense, mask;
    CHECK(magicubeCreateConstDnMat(&dense, M, K, K, weight->values, MAGICUBE_INT8,
                                   MAGICUBE_ORDER_ROW));
    CHECK(
        magicubeCreateConstDnMat(&mask, M, K, K, weight->mask, MAGICUBE_UINT8, MAGICUBE_ORDER_ROW));

    magicubeSrBcrsArrays_t arrays = MAGICUBE_SR_BCRS_ARRAYS_INIT;
    arrays.vector_length = V;
    arrays.value_type = MAGICUBE_INT8;
    CHECK(magicubeSrBcrsDefaultStride(V, MAGICUBE_INT8, &arrays.stride));
    arrays.row_begin = allocate(block_rows * sizeof(int64_t));
    arrays.row_end = allocate(block_rows * sizeof(int64_t));

    size_t bytes = 0;
    CHECK(magicubeDenseToSrBcrs_bufferSize(handle, dense, mask, &arrays, &bytes));
    void* workspace = allocate(bytes);
    CHECK(
        magicubeDenseToSrBcrs_count(handle, dense, mask, &arrays, &arrays.slots, workspace, bytes));
    arrays.col_indices = allocate((size_t)arrays.slots * sizeof(int32_t));
    arrays.values = allocate((size_t)arrays.slots * V);
    CHECK(magicubeDenseToSrBcrs_fill(handle, dense, mask, &arrays, workspace, bytes));

    release(workspace);
    CHECK(magicubeDestroyDnMat(mask));
    CHECK(magicubeDestroyDnMat(dense));
    return arrays;
}

/* The same layer as one plain loop over the dense weight. */
static int64_t count_differences(const weight_t* weight, const int8_t* b, const float* b_scale,
                                 const float* bias, const float* c) {
    int64_t differences = 0;
    for (int64_t i = 0; i < M; ++i) {
        for (int64_t j = 0; j < N; ++j) {
            int64_t sum = 0;
            for (int64_t k = 0; k < K; ++k)
                sum += (int64_t)weight->values[i * K + k] * b[k * N + j];
            float y = fmaf(weight->scale[i] * b_scale[j], (float)sum, bias[i]);
            y = y > 0.0f ? y : 0.0f;
            if (memcmp(&y, &c[i * N + j], sizeof y) != 0) ++differences;
        }
    }
    return differences;
}

/* Plans once and multiplies; returns the seconds of the second product. */
static double multiply(magicubeHandle_t handle, const magicubeSrBcrsArrays_t* sparse,
                       const int8_t* b, float* c, const magicubeSpMMArgs_t* args) {
    magicubeConstSpMatDescr_t a_matrix;
    magicubeConstDnMatDescr_t b_matrix;
    magicubeDnMatDescr_t c_matrix;
    CHECK(magicubeCreateConstSrBcrs(&a_matrix, M, K, V, sparse->stride, sparse->slots,
                                    sparse->row_begin, sparse->row_end, sparse->col_indices,
                                    sparse->values, MAGICUBE_INDEX_64, MAGICUBE_INT8));
    CHECK(magicubeCreateConstDnMat(&b_matrix, K, N, N, b, MAGICUBE_INT8, MAGICUBE_ORDER_ROW));
    CHECK(magicubeCreateDnMat(&c_matrix, M, N, N, c, MAGICUBE_FP32, MAGICUBE_ORDER_ROW));

    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    problem.A = a_matrix;
    problem.n_max = N;
    problem.a_scale = MAGICUBE_GRANULARITY_ROW;
    problem.b_scale = MAGICUBE_GRANULARITY_COL;
    problem.bias = MAGICUBE_GRANULARITY_ROW;
    problem.activation = MAGICUBE_ACTIVATION_RELU;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSpMM_bufferSize(handle, &problem, &sizes));
    magicubeSpMMPlan_t plan;
    CHECK(magicubeSpMM_createPlan(handle, &problem, NULL, 0, &plan));
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    CHECK(magicubeSpMM_planInfo(plan, &info));
    printf("implementation: %s, plan of %zu bytes\n", info.implementation, info.plan_bytes);

    void* workspace = allocate(sizes.workspace_bytes);
    double start = 0.0;
    for (int run = 0; run < 2; ++run) {
        start = seconds();
        CHECK(magicubeSpMM(handle, plan, NULL, b_matrix, NULL, c_matrix, args, workspace,
                           sizes.workspace_bytes));
        CHECK(magicubeSynchronize(handle));
    }
    const double elapsed = seconds() - start;

    release(workspace);
    CHECK(magicubeSpMM_destroyPlan(plan));
    CHECK(magicubeDestroyDnMat(c_matrix));
    CHECK(magicubeDestroyDnMat(b_matrix));
    CHECK(magicubeDestroySpMat(a_matrix));
    return elapsed;
}

int main(void) {
    uint64_t random = 20221113;
    magicubeHandle_t handle;
    CHECK(magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0));
    printf("%s\n", magicubeGetBuildInfo());

    weight_t weight = make_weight(handle, &random);
    magicubeSrBcrsArrays_t sparse = make_sparse(handle, &weight);
    int8_t* b = allocate(K * N);
    float* b_scale = allocate(N * sizeof(float));
    float* bias = allocate(M * sizeof(float));
    float* c = allocate(M * N * sizeof(float));
    for (int64_t i = 0; i < (int64_t)K * N; ++i) b[i] = random_int8(&random);
    for (int64_t j = 0; j < N; ++j) b_scale[j] = 0.01f + 0.001f * (float)(j % 7);
    for (int64_t i = 0; i < M; ++i) bias[i] = random_float(&random);

    magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
    args.a_scale = weight.scale;
    args.b_scale = b_scale;
    args.bias = bias;
    const double elapsed = multiply(handle, &sparse, b, c, &args);
    const double gops = 2.0 * (1 - kSparsity) * M * K * N / elapsed * 1e-9;
    printf("%d x %d x %d, V = %d, sparsity %.0f %%: %.3f ms, %.1f Gop/s\n", M, K, N, V,
           100 * kSparsity, 1e3 * elapsed, gops);
    const int64_t differences = count_differences(&weight, b, b_scale, bias, c);
    float largest = 0.0f;
    for (int64_t i = 0; i < (int64_t)M * N; ++i) largest = fmaxf(largest, c[i]);
    printf("largest element %g; %lld of %d elements differ from the plain loop\n", largest,
           (long long)differences, M * N);

    void* arrays[] = {weight.values,
                      weight.mask,
                      weight.scale,
                      sparse.row_begin,
                      sparse.row_end,
                      sparse.values,
                      b,
                      b_scale,
                      sparse.col_indices,
                      bias,
                      c};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; ++i) release(arrays[i]);
    CHECK(magicubeDestroy(handle));
    return differences == 0 ? 0 : 1;
}
