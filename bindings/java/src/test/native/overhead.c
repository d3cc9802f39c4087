/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the nanoseconds of a call of SpMM on 64 x 64 x 64, and on 64 x 64 x 0, which computes
 * nothing: the least of many averages. OverheadTest compares them with the same calls from Java.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "magicube/magicube.h"

enum { SIZE = 64, V = 8, BLOCK_ROWS = SIZE / V, CALLS = 500, ROUNDS = 300 };

#define CHECK(call)                                             \
    if ((call) != MAGICUBE_STATUS_SUCCESS) {                    \
        fprintf(stderr, "%s\n", magicubeGetLastErrorMessage()); \
        exit(1);                                                \
    }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static int64_t row_begin[BLOCK_ROWS], row_end[BLOCK_ROWS];
static int32_t columns[BLOCK_ROWS * SIZE];
static int8_t values[SIZE * SIZE], b[SIZE * SIZE];
static float c[SIZE * SIZE];

int main(void) {
    for (int i = 0; i < BLOCK_ROWS * SIZE; ++i) columns[i] = i % SIZE;
    for (int i = 0; i < SIZE * SIZE; ++i) values[i] = b[i] = (int8_t)(i % 251 - 125);
    for (int i = 0; i < BLOCK_ROWS; ++i) {
        row_begin[i] = i * SIZE;
        row_end[i] = (i + 1) * SIZE;
    }
    magicubeHandle_t handle;
    CHECK(magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0));
    CHECK(magicubeSetNumThreads(handle, 1));
    magicubeConstSpMatDescr_t A;
    CHECK(magicubeCreateConstSrBcrs(&A, SIZE, SIZE, V, 32, BLOCK_ROWS * SIZE, row_begin, row_end,
                                    columns, values, MAGICUBE_INDEX_64, MAGICUBE_INT8));
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    problem.A = A;
    problem.n_min = 0;
    problem.n_max = SIZE;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSpMM_bufferSize(handle, &problem, &sizes));
    magicubeSpMMPlan_t plan;
    CHECK(magicubeSpMM_createPlan(handle, &problem, NULL, 0, &plan));
    void* workspace = NULL;
    CHECK(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, sizes.workspace_bytes, &workspace));
    for (int n = SIZE; n >= 0; n -= SIZE) {
        magicubeConstDnMatDescr_t B;
        magicubeDnMatDescr_t C;
        CHECK(magicubeCreateConstDnMat(&B, SIZE, n, SIZE, b, MAGICUBE_INT8, MAGICUBE_ORDER_ROW));
        CHECK(magicubeCreateDnMat(&C, SIZE, n, SIZE, c, MAGICUBE_FP32, MAGICUBE_ORDER_ROW));
        double least = 1e30;
        for (int round = 0; round < ROUNDS; ++round) {
            const double start = now();
            for (int call = 0; call < CALLS; ++call) {
                CHECK(magicubeSpMM(handle, plan, NULL, B, NULL, C, NULL, workspace,
                                   sizes.workspace_bytes));
            }
            const double each = (now() - start) / CALLS;
            if (each < least) least = each;
        }
        printf("%.1f\n", least);
        CHECK(magicubeDestroyDnMat(C));
        CHECK(magicubeDestroyDnMat(B));
    }
    CHECK(magicubeFree(MAGICUBE_DEVICE_CPU, 0, workspace));
    CHECK(magicubeSpMM_destroyPlan(plan));
    CHECK(magicubeDestroySpMat(A));
    CHECK(magicubeDestroy(handle));
    return 0;
}
