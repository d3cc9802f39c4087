/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention with a sparse mask in 8-bit integers: SDDMM gives the scores where the mask allows
 * them, the sparse softmax turns them into uint8 probabilities with a scale a row, SpMM multiplies
 * those by the values. The three hand each other arrays of one layout, without repacking. The
 * result is compared with float64 on the dense matrices.
 */
#include <math.h>
#include <string.h>

#include "example.h"

enum { L = 512, D = 64, V = 8, WINDOW = 48, BLOCK_ROWS = L / V };

/* Inputs: L x D each, int8 with one scale a matrix; the mask lets token i see its neighbours. */
typedef struct {
    int8_t *q, *k, *v;
    float *q_scale, *k_scale, *v_scale;
    uint8_t* mask;
} inputs_t;

static inputs_t make_inputs(uint64_t* random) {
    inputs_t in = {allocate(L * D),         allocate(L * D),         allocate(L * D),
                   allocate(sizeof(float)), allocate(sizeof(float)), allocate(sizeof(float)),
                   allocate(L * L)};
    for (int i = 0; i < L * D; ++i) {
        in.q[i] = random_int8(random);
        in.k[i] = random_int8(random);
        in.v[i] = random_int8(random);
    }
    *in.q_scale = *in.k_scale = *in.v_scale = 1.0f / 64;
    for (int i = 0; i < L; ++i)
        for (int j = 0; j < L; ++j) in.mask[i * L + j] = abs(i - j) <= WINDOW;
    return in;
}

static magicubeConstDnMatDescr_t const_matrix(int64_t rows, int64_t cols, int64_t ld,
                                              const void* values, magicubeDataType_t type,
                                              magicubeOrder_t order) {
    magicubeConstDnMatDescr_t matrix;
    CHECK(magicubeCreateConstDnMat(&matrix, rows, cols, ld, values, type, order));
    return matrix;
}

/* The mask as a pattern without values. */
static magicubeSrBcrsArrays_t make_pattern(magicubeHandle_t handle, const uint8_t* mask) {
    magicubeSrBcrsArrays_t arrays = MAGICUBE_SR_BCRS_ARRAYS_INIT;
    arrays.vector_length = V;
    arrays.stride = 16;
    arrays.value_type = MAGICUBE_UINT8;
    arrays.row_begin = allocate(BLOCK_ROWS * sizeof(int64_t));
    arrays.row_end = allocate(BLOCK_ROWS * sizeof(int64_t));
    magicubeConstDnMatDescr_t dense =
        const_matrix(L, L, L, NULL, MAGICUBE_UINT8, MAGICUBE_ORDER_ROW);
    magicubeConstDnMatDescr_t marks =
        const_matrix(L, L, L, mask, MAGICUBE_UINT8, MAGICUBE_ORDER_ROW);
    size_t bytes = 0;
    CHECK(magicubeDenseToSrBcrs_bufferSize(handle, dense, marks, &arrays, &bytes));
    void* workspace = allocate(bytes);
    CHECK(magicubeDenseToSrBcrs_count(handle, dense, marks, &arrays, &arrays.slots, workspace,
                                      bytes));
    arrays.col_indices = allocate((size_t)arrays.slots * sizeof(int32_t));
    arrays.element_mask = allocate((size_t)arrays.slots * ((V + 7) / 8));
    CHECK(magicubeDenseToSrBcrs_fill(handle, dense, marks, &arrays, workspace, bytes));
    release(workspace);
    CHECK(magicubeDestroyDnMat(marks));
    CHECK(magicubeDestroyDnMat(dense));
    return arrays;
}

static magicubeConstSpMatDescr_t pattern_matrix(const magicubeSrBcrsArrays_t* arrays) {
    magicubeConstSpMatDescr_t matrix;
    CHECK(magicubeCreateConstSrBcrs(&matrix, L, L, V, arrays->stride, arrays->slots,
                                    arrays->row_begin, arrays->row_end, arrays->col_indices, NULL,
                                    MAGICUBE_INDEX_64, MAGICUBE_UINT8));
    CHECK(magicubeSrBcrsSetElementMask(matrix, arrays->element_mask));
    return matrix;
}

/* scores = Q K^T where the pattern has elements, as exact int32 sums. */
static void compute_scores(magicubeHandle_t handle, magicubeConstSpMatDescr_t pattern,
                           const inputs_t* in, int32_t* scores) {
    magicubeSDDMMProblem_t problem = MAGICUBE_SDDMM_PROBLEM_INIT;
    problem.pattern = pattern;
    problem.b_order = MAGICUBE_ORDER_COL; /* K, row-major L x D, is K^T column-major D x L */
    problem.out_type = MAGICUBE_INT32;
    problem.k_min = problem.k_max = D;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSDDMM_bufferSize(handle, &problem, &sizes));
    magicubeSDDMMPlan_t plan;
    CHECK(magicubeSDDMM_createPlan(handle, &problem, NULL, 0, &plan));
    magicubeConstDnMatDescr_t q = const_matrix(L, D, D, in->q, MAGICUBE_INT8, MAGICUBE_ORDER_ROW);
    magicubeConstDnMatDescr_t k = const_matrix(D, L, D, in->k, MAGICUBE_INT8, MAGICUBE_ORDER_COL);
    void* workspace = allocate(sizes.workspace_bytes);
    CHECK(magicubeSDDMM(handle, plan, NULL, q, k, scores, NULL, workspace, sizes.workspace_bytes));
    CHECK(magicubeSynchronize(handle));
    release(workspace);
    CHECK(magicubeDestroyDnMat(k));
    CHECK(magicubeDestroyDnMat(q));
    CHECK(magicubeSDDMM_destroyPlan(plan));
}

/* probabilities = softmax(scores / sqrt(D)) as uint8, with a scale a row. */
static void compute_softmax(magicubeHandle_t handle, magicubeConstSpMatDescr_t pattern,
                            const inputs_t* in, const int32_t* scores, uint8_t* probabilities,
                            float* row_scale) {
    magicubeSparseSoftmaxProblem_t problem = MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT;
    problem.pattern = pattern;
    problem.in_type = MAGICUBE_INT32;
    problem.out_type = MAGICUBE_UINT8;
    problem.row_scale = MAGICUBE_GRANULARITY_TENSOR;
    problem.col_scale = MAGICUBE_GRANULARITY_TENSOR;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSparseSoftmax_bufferSize(handle, &problem, &sizes));
    magicubeSparseSoftmaxPlan_t plan;
    CHECK(magicubeSparseSoftmax_createPlan(handle, &problem, NULL, 0, &plan));
    magicubeSparseSoftmaxArgs_t args = MAGICUBE_SPARSE_SOFTMAX_ARGS_INIT;
    args.row_scale = in->q_scale;
    args.col_scale = in->k_scale;
    args.out_scale = row_scale;
    const float alpha = 1.0f / sqrtf((float)D);
    void* workspace = allocate(sizes.workspace_bytes);
    CHECK(magicubeSparseSoftmax(handle, plan, &alpha, scores, probabilities, &args, workspace,
                                sizes.workspace_bytes));
    CHECK(magicubeSynchronize(handle));
    release(workspace);
    CHECK(magicubeSparseSoftmax_destroyPlan(plan));
}

/* out = probabilities V; the plan reads new probabilities at each call. */
static void compute_output(magicubeHandle_t handle, magicubeConstSpMatDescr_t pattern,
                           const inputs_t* in, const uint8_t* probabilities, const float* row_scale,
                           float* out) {
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    problem.A = pattern;
    problem.n_min = problem.n_max = D;
    problem.a_scale = MAGICUBE_GRANULARITY_ROW;
    problem.b_scale = MAGICUBE_GRANULARITY_TENSOR;
    problem.value_mode = MAGICUBE_VALUES_PER_CALL;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSpMM_bufferSize(handle, &problem, &sizes));
    magicubeSpMMPlan_t plan;
    CHECK(magicubeSpMM_createPlan(handle, &problem, NULL, 0, &plan));
    magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
    args.a_values = probabilities;
    args.a_scale = row_scale;
    args.b_scale = in->v_scale;
    magicubeConstDnMatDescr_t v = const_matrix(L, D, D, in->v, MAGICUBE_INT8, MAGICUBE_ORDER_ROW);
    magicubeDnMatDescr_t c;
    CHECK(magicubeCreateDnMat(&c, L, D, D, out, MAGICUBE_FP32, MAGICUBE_ORDER_ROW));
    void* workspace = allocate(sizes.workspace_bytes);
    CHECK(magicubeSpMM(handle, plan, NULL, v, NULL, c, &args, workspace, sizes.workspace_bytes));
    CHECK(magicubeSynchronize(handle));
    release(workspace);
    CHECK(magicubeDestroyDnMat(c));
    CHECK(magicubeDestroyDnMat(v));
    CHECK(magicubeSpMM_destroyPlan(plan));
}

/* Largest distance from attention in float64. */
static double largest_error(const inputs_t* in, const float* out) {
    const double score_scale = *in->q_scale * *in->k_scale / sqrt((double)D);
    double worst = 0.0;
    for (int i = 0; i < L; ++i) {
        double p[L], sum = 0.0, top = -INFINITY;
        for (int j = 0; j < L; ++j) {
            double score = 0.0;
            for (int d = 0; d < D; ++d) score += (double)in->q[i * D + d] * in->k[j * D + d];
            p[j] = in->mask[i * L + j] ? score * score_scale : -INFINITY;
            top = fmax(top, p[j]);
        }
        for (int j = 0; j < L; ++j) sum += p[j] = exp(p[j] - top);
        for (int d = 0; d < D; ++d) {
            double expected = 0.0;
            for (int j = 0; j < L; ++j) expected += p[j] / sum * in->v[j * D + d] * *in->v_scale;
            worst = fmax(worst, fabs(expected - out[i * D + d]));
        }
    }
    return worst;
}

int main(void) {
    uint64_t random = 7;
    magicubeHandle_t handle;
    CHECK(magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0));
    inputs_t in = make_inputs(&random);
    magicubeSrBcrsArrays_t arrays = make_pattern(handle, in.mask);
    magicubeConstSpMatDescr_t pattern = pattern_matrix(&arrays);
    const size_t elements = (size_t)arrays.slots * V;
    int32_t* scores = allocate(elements * sizeof(int32_t));
    uint8_t* probabilities = allocate(elements);
    float* row_scale = allocate(L * sizeof(float));
    float* out = allocate(L * D * sizeof(float));

    const double start = seconds();
    compute_scores(handle, pattern, &in, scores);
    compute_softmax(handle, pattern, &in, scores, probabilities, row_scale);
    compute_output(handle, pattern, &in, probabilities, row_scale, out);
    const double elapsed = seconds() - start;

    const double error = largest_error(&in, out), allowed = 0.05;
    printf(
        "attention over %d tokens, window %d: %.3f ms with planning, largest error %.4f "
        "(8-bit probabilities; %.2f allowed)\n",
        L, WINDOW, 1e3 * elapsed, error, allowed);

    void* owned[] = {in.q,
                     in.k,
                     in.v,
                     in.q_scale,
                     in.k_scale,
                     in.v_scale,
                     in.mask,
                     scores,
                     probabilities,
                     row_scale,
                     out,
                     arrays.row_begin,
                     arrays.row_end,
                     arrays.col_indices,
                     arrays.element_mask};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; ++i) release(owned[i]);
    CHECK(magicubeDestroySpMat(pattern));
    CHECK(magicubeDestroy(handle));
    return error <= allowed ? 0 : 1;
}
