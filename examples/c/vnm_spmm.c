/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product with a V:N:M matrix: of every 8 columns, 64 rows share four, and each row keeps two.
 * The matrix is made dense, converted, multiplied, and the result compared with a plain loop.
 */
#include <string.h>

#include "example.h"

enum { M = 512, K = 768, N = 128, V = 64, GROUP = 8 };

/* A random 64:2:8 matrix: the columns that a block of rows shares start anywhere in their group. */
static void fill_weight(int8_t* weight, uint64_t* random) {
    memset(weight, 0, (size_t)M * K);
    for (int block = 0; block < M; block += V) {
        for (int group = 0; group < K; group += GROUP) {
            const int first = (int)(next_random(random) >> 33) % GROUP;
            for (int row = block; row < block + V; ++row) {
                const int a = (int)(next_random(random) >> 33) % 4;
                const int b = (a + 1 + (int)(next_random(random) >> 33) % 3) % 4;
                weight[row * K + group + (first + a) % GROUP] = random_int8(random);
                weight[row * K + group + (first + b) % GROUP] = random_int8(random);
            }
        }
    }
}

int main(void) {
    uint64_t random = 1;
    int8_t* weight = allocate((size_t)M * K);
    int8_t* x = allocate((size_t)K * N);
    int32_t* y = allocate((size_t)M * N * sizeof(int32_t));
    fill_weight(weight, &random);
    for (int i = 0; i < K * N; ++i) x[i] = random_int8(&random);

    magicubeHandle_t handle = NULL;
    CHECK(magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0));
    magicubeConstDnMatDescr_t dense = NULL, B = NULL;
    magicubeDnMatDescr_t C = NULL;
    CHECK(magicubeCreateConstDnMat(&dense, M, K, K, weight, MAGICUBE_INT8, MAGICUBE_ORDER_ROW));
    CHECK(magicubeCreateConstDnMat(&B, K, N, N, x, MAGICUBE_INT8, MAGICUBE_ORDER_ROW));
    CHECK(magicubeCreateDnMat(&C, M, N, N, y, MAGICUBE_INT32, MAGICUBE_ORDER_ROW));

    /* The lengths follow from the shape; _count makes sure that the matrix is 64:2:8. */
    int64_t columns = 0, metadata_bytes = 0, values = 0, elements = 0;
    CHECK(magicubeVnmLengths(M, K, V, 2, GROUP, &columns, &metadata_bytes, &values));
    magicubeVnmArrays_t arrays = MAGICUBE_VNM_ARRAYS_INIT;
    arrays.vector_length = V;
    arrays.m = GROUP;
    arrays.value_type = MAGICUBE_INT8;
    arrays.column_loc = allocate((size_t)columns);
    arrays.metadata = allocate((size_t)metadata_bytes);
    arrays.values = allocate((size_t)values);
    size_t bytes = 0;
    CHECK(magicubeDenseToVnm_bufferSize(handle, dense, NULL, &arrays, &bytes));
    void* scratch = bytes ? allocate(bytes) : NULL;
    CHECK(magicubeDenseToVnm_count(handle, dense, NULL, &arrays, &elements, scratch, bytes));
    CHECK(magicubeDenseToVnm_fill(handle, dense, NULL, &arrays, scratch, bytes));
    magicubeConstSpMatDescr_t A = NULL;
    CHECK(magicubeCreateConstVnm(&A, M, K, V, 2, GROUP, arrays.column_loc, arrays.metadata,
                                 arrays.values, MAGICUBE_INT8));
    printf("%d x %d, %lld elements in %lld bytes\n", M, K, (long long)elements,
           (long long)(columns + metadata_bytes + values));

    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    problem.A = A;
    problem.c_type = MAGICUBE_INT32;
    problem.n_min = problem.n_max = N;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSpMM_bufferSize(handle, &problem, &sizes));
    magicubeSpMMPlan_t plan = NULL;
    CHECK(magicubeSpMM_createPlan(handle, &problem, NULL, 0, &plan));
    void* workspace = allocate(sizes.workspace_bytes);
    CHECK(magicubeSpMM(handle, plan, NULL, B, NULL, C, NULL, workspace, sizes.workspace_bytes));
    CHECK(magicubeSynchronize(handle));

    int wrong = 0;
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < N; ++j) {
            int32_t sum = 0;
            for (int k = 0; k < K; ++k) sum += weight[i * K + k] * x[k * N + j];
            wrong += y[i * N + j] != sum;
        }
    }
    printf("%d of %d elements differ from the plain loop\n", wrong, M * N);

    magicubeSpMM_destroyPlan(plan);
    magicubeDestroySpMat(A);
    magicubeDestroyDnMat(dense);
    magicubeDestroyDnMat(B);
    magicubeDestroyDnMat(C);
    magicubeDestroy(handle);
    if (scratch) release(scratch);
    release(workspace);
    release(arrays.column_loc);
    release(arrays.metadata);
    release(arrays.values);
    release(weight);
    release(x);
    release(y);
    return wrong != 0;
}
