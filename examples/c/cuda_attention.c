/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sparse attention of several heads in one call on a GPU, in 8-bit integers, with device memory and
 * a stream from the library's own helpers: no CUDA header is needed. The mask becomes a pattern on
 * the device. Without a GPU the same calls run on the CPU. The result is compared with float64.
 */
#include <math.h>

#include "example.h"

enum { HEADS = 4, L = 1024, D = 64, V = 8, WINDOW = 96, BLOCK_ROWS = L / V, STRIDE = 32 };
enum { ELEMENTS = HEADS * L * D, CHECKED_STEP = 16 };

/* The device that the program works on, and the handle of it. */
typedef struct {
    magicubeDevice_t device;
    magicubeHandle_t handle;
    struct CUstream_st* stream;
} place_t;

static place_t open_place(void) {
    int32_t gpus = 0;
    CHECK(magicubeGetDeviceCount(MAGICUBE_DEVICE_CUDA, &gpus));
    place_t place = {gpus > 0 ? MAGICUBE_DEVICE_CUDA : MAGICUBE_DEVICE_CPU, NULL, NULL};
    if (gpus == 0) printf("there is no CUDA device: the same on the CPU\n");
    CHECK(magicubeCreate(&place.handle, place.device, 0));
    if (gpus > 0) {
        CHECK(magicubeStreamCreate(place.device, 0, &place.stream));
        CHECK(magicubeSetStream(place.handle, place.stream));
    }
    return place;
}

static void close_place(place_t place) {
    CHECK(magicubeDestroy(place.handle));
    if (place.stream != NULL) CHECK(magicubeStreamDestroy(place.device, 0, place.stream));
}

static void* on_device(place_t place, size_t bytes) {
    void* pointer = NULL;
    CHECK(magicubeMalloc(place.device, 0, bytes, &pointer));
    return pointer;
}

/* A copy of host memory, which must live until the next magicubeSynchronize. */
static void* copy_to_device(place_t place, const void* source, size_t bytes) {
    void* pointer = on_device(place, bytes);
    CHECK(magicubeMemcpy(place.handle, pointer, source, bytes));
    return pointer;
}

/* Which keys a query may see, the causal rule aside: those near it, and the first ones. */
static int near(int query, int key) {
    return abs(query - key) <= WINDOW || key < V;
}

/* The mask as a pattern, converted where it lies; only the number of slots is read back. */
static magicubeSrBcrsArrays_t make_pattern(place_t place) {
    uint8_t* marks = allocate((size_t)L * L);
    for (int i = 0; i < L; ++i)
        for (int j = 0; j < L; ++j) marks[(size_t)i * L + j] = (uint8_t)near(i, j);
    uint8_t* mask = copy_to_device(place, marks, (size_t)L * L);

    magicubeSrBcrsArrays_t arrays = MAGICUBE_SR_BCRS_ARRAYS_INIT;
    arrays.vector_length = V;
    arrays.stride = STRIDE;
    arrays.value_type = MAGICUBE_UINT8;
    arrays.row_begin = on_device(place, BLOCK_ROWS * sizeof(int64_t));
    arrays.row_end = on_device(place, BLOCK_ROWS * sizeof(int64_t));
    magicubeConstDnMatDescr_t shape, source;
    CHECK(magicubeCreateConstDnMat(&shape, L, L, L, NULL, MAGICUBE_UINT8, MAGICUBE_ORDER_ROW));
    CHECK(magicubeCreateConstDnMat(&source, L, L, L, mask, MAGICUBE_UINT8, MAGICUBE_ORDER_ROW));
    size_t bytes = 0;
    CHECK(magicubeDenseToSrBcrs_bufferSize(place.handle, shape, source, &arrays, &bytes));
    void* workspace = on_device(place, bytes);
    CHECK(magicubeDenseToSrBcrs_count(place.handle, shape, source, &arrays, &arrays.slots,
                                      workspace, bytes));
    arrays.col_indices = on_device(place, (size_t)arrays.slots * sizeof(int32_t));
    CHECK(magicubeDenseToSrBcrs_fill(place.handle, shape, source, &arrays, workspace, bytes));
    CHECK(magicubeFree(place.device, 0, workspace));
    CHECK(magicubeFree(place.device, 0, mask));
    CHECK(magicubeDestroyDnMat(source));
    CHECK(magicubeDestroyDnMat(shape));
    release(marks);
    return arrays;
}

/* A plan; the pattern is copied into it. */
static magicubeAttentionPlan_t make_plan(place_t place, const magicubeSrBcrsArrays_t* arrays,
                                         size_t* workspace_bytes) {
    magicubeConstSpMatDescr_t pattern;
    CHECK(magicubeCreateConstSrBcrs(&pattern, L, L, V, STRIDE, arrays->slots, arrays->row_begin,
                                    arrays->row_end, arrays->col_indices, NULL, MAGICUBE_INDEX_64,
                                    MAGICUBE_UINT8));
    magicubeAttentionProblem_t problem = MAGICUBE_ATTENTION_PROBLEM_INIT;
    problem.pattern = pattern;
    problem.in_type = MAGICUBE_INT8;
    problem.out_type = MAGICUBE_FP32;
    problem.q_heads = problem.kv_heads = HEADS;
    problem.head_dim = D;
    problem.causal = 1;
    problem.probability_bits = 8;
    problem.q_scale = problem.k_scale = problem.v_scale = MAGICUBE_GRANULARITY_TENSOR;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeAttention_bufferSize(place.handle, &problem, &sizes));
    *workspace_bytes = sizes.workspace_bytes;
    magicubeAttentionPlan_t plan;
    CHECK(magicubeAttention_createPlan(place.handle, &problem, NULL, 0, &plan));
    CHECK(magicubeDestroySpMat(pattern));
    return plan;
}

/* Largest distance from attention in float64, over some of the queries of each head. */
static double largest_error(int8_t* const in[3], const float* out, double scale) {
    double worst = 0.0;
    for (int row = 0; row < HEADS * L; row += CHECKED_STEP) {
        const int i = row % L;
        const size_t head = (size_t)(row - i) * D;
        const int8_t *q = in[0] + (size_t)row * D, *k = in[1] + head, *v = in[2] + head;
        double sum = 0.0, expected[D] = {0.0};
        for (int j = 0; j <= i; ++j) {
            double score = 0.0;
            if (!near(i, j)) continue;
            for (int d = 0; d < D; ++d) score += (double)q[d] * k[j * D + d];
            const double weight = exp(score * scale * scale / sqrt((double)D));
            sum += weight;
            for (int d = 0; d < D; ++d) expected[d] += weight * v[j * D + d] * scale;
        }
        for (int d = 0; d < D; ++d)
            worst = fmax(worst, fabs(expected[d] / sum - out[(size_t)row * D + d]));
    }
    return worst;
}

int main(void) {
    const place_t place = open_place();
    uint64_t random = 11;
    int8_t* in[3];
    void* there[3];
    for (int t = 0; t < 3; ++t) {
        in[t] = allocate(ELEMENTS);
        for (int i = 0; i < ELEMENTS; ++i) in[t][i] = random_int8(&random);
        there[t] = copy_to_device(place, in[t], ELEMENTS);
    }
    const float scale = 1.0f / 64; /* of Q, K and V alike */
    float* scale_there = copy_to_device(place, &scale, sizeof scale);
    magicubeSrBcrsArrays_t arrays = make_pattern(place);
    size_t bytes = 0;
    magicubeAttentionPlan_t plan = make_plan(place, &arrays, &bytes);
    void* workspace = on_device(place, bytes);
    float* out = allocate(ELEMENTS * sizeof(float));
    float* out_there = on_device(place, ELEMENTS * sizeof(float));

    magicubeAttentionArgs_t args = MAGICUBE_ATTENTION_ARGS_INIT;
    args.q_scale = args.k_scale = args.v_scale = scale_there;
    double elapsed = 0.0;
    for (int run = 0; run < 2; ++run) { /* the second one is timed */
        CHECK(magicubeSynchronize(place.handle));
        const double start = seconds();
        CHECK(magicubeAttention(place.handle, plan, NULL, there[0], there[1], there[2], out_there,
                                &args, workspace, bytes));
        CHECK(magicubeSynchronize(place.handle));
        elapsed = seconds() - start;
    }
    CHECK(magicubeMemcpy(place.handle, out, out_there, ELEMENTS * sizeof(float)));
    CHECK(magicubeSynchronize(place.handle));

    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    CHECK(magicubeAttention_planInfo(plan, &info));
    const double error = largest_error(in, out, scale), allowed = 0.1;
    printf("%d heads of %d tokens on %s (%s): %.3f ms, largest error %.4f (%.2f allowed)\n", HEADS,
           L, place.device == MAGICUBE_DEVICE_CUDA ? "the GPU" : "the CPU", info.implementation,
           1e3 * elapsed, error, allowed);

    CHECK(magicubeAttention_destroyPlan(plan));
    void* device_memory[] = {there[0],         there[1],       there[2],
                             scale_there,      workspace,      out_there,
                             arrays.row_begin, arrays.row_end, arrays.col_indices};
    for (size_t i = 0; i < sizeof device_memory / sizeof *device_memory; ++i)
        CHECK(magicubeFree(place.device, 0, device_memory[i]));
    for (int t = 0; t < 3; ++t) release(in[t]);
    release(out);
    close_place(place);
    return error <= allowed ? 0 : 1;
}
