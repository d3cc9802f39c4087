/* SPDX-License-Identifier: Apache-2.0 */
/* C = A * B with A in SR-BCRS, 2 x 1 vectors: right or not? */
#include <magicube/magicube.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void check(magicubeStatus_t status) {
    if (status == MAGICUBE_STATUS_SUCCESS) return;
    fprintf(stderr, "%s: %s\n", magicubeGetErrorString(status), magicubeGetLastErrorMessage());
    exit(1);
}

int main(void) {
    /* | 1 0 -2 |
     * | 3 0  4 | */
    static const int64_t row_begin[] = {0}, row_end[] = {2};
    static const int32_t columns[] = {0, 2};
    static const int8_t a_values[] = {1, 3, -2, 4};
    static const int8_t b_values[] = {1, 2, 3, 4, 5, 6}; /* 3 x 2 */
    static const int32_t expected[] = {-9, -10, 23, 30};
    int32_t c_values[4] = {0};
    int i;

    magicubeHandle_t handle;
    magicubeConstSpMatDescr_t a;
    magicubeConstDnMatDescr_t b;
    magicubeDnMatDescr_t c;
    magicubeSpMMPlan_t plan;
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    void* workspace;

    check(magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0));
    check(magicubeCreateConstSrBcrs(&a, 2, 3, 2, 1, 2, row_begin, row_end, columns, a_values,
                                    MAGICUBE_INDEX_64, MAGICUBE_INT8));
    check(magicubeCreateConstDnMat(&b, 3, 2, 2, b_values, MAGICUBE_INT8, MAGICUBE_ORDER_ROW));
    check(magicubeCreateDnMat(&c, 2, 2, 2, c_values, MAGICUBE_INT32, MAGICUBE_ORDER_ROW));
    problem.A = a;
    problem.c_type = MAGICUBE_INT32;
    problem.n_max = 2;
    check(magicubeSpMM_bufferSize(handle, &problem, &sizes));
    check(magicubeSpMM_createPlan(handle, &problem, NULL, 0, &plan));
    workspace = aligned_alloc(256, (sizes.workspace_bytes + 255) / 256 * 256 + 256);
    check(magicubeSpMM(handle, plan, NULL, b, NULL, c, NULL, workspace, sizes.workspace_bytes));
    for (i = 0; i < 4; ++i) {
        if (c_values[i] != expected[i]) {
            fprintf(stderr, "element %d is %d; %d is right\n", i, (int)c_values[i],
                    (int)expected[i]);
            return 1;
        }
    }
    printf("%s\n", magicubeGetVersionString());
    free(workspace);
    check(magicubeSpMM_destroyPlan(plan));
    check(magicubeDestroySpMat(a));
    check(magicubeDestroyDnMat(b));
    check(magicubeDestroyDnMat(c));
    check(magicubeDestroy(handle));
    return 0;
}
