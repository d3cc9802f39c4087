// SPDX-License-Identifier: Apache-2.0
//
// SpMM in fp32: each warp gathers rows of B from global memory into registers.
//
// Computes  C = epilogue(A * B) with fused multiply-adds in fp32, A in the public SR-BCRS layout.
// Layout    values of a step of 32 slots in shared memory as gather_slots.cuh says; a lane reads
//           four slots of a row at once, all lanes the same.
// Mapping   a warp owns a bundle (8 * Sets rows of A) of 128 columns, a lane four neighbouring
//           columns of all rows. A row of B is used once by a warp, so it goes straight to its
//           registers.
// Shared    8 warps x 2 stages of 1 or 2 KB. Architecture sm_80. Any order and alignment of B, rows
//           aligned to 16 bytes are faster.
// Bound     what loads give a multiprocessor, 128 bytes a clock: 512 for a slot's row of B and, of
//           values, 128 * rows, though all lanes read the same. Loading B further ahead is slower.
#include "core/device/cuda/launch.cuh"
#include "core/ops/spmm/cuda/sm80/gather_slots.cuh"
#include "core/ops/spmm/cuda/store.cuh"

namespace magicube::spmm::sm80 {
namespace {

constexpr int cta_warps = 8;
constexpr int tile_columns = 128;
constexpr int lane_columns = 4;
constexpr int step_slots = 32;
constexpr int at_once = 4;  // slots whose rows of B are loaded together

template <int Sets>
using fp32_walk = slot_walk<32, Sets, step_slots>;

// One matrix of B as a lane sees it.
struct lane_b {
    const uint8_t* first;  // of the lane's columns in row 0
    int64_t pitch;
    int64_t col_pitch;
    int columns;  // of the lane's four, inside B

    template <bool Whole>
    __device__ __forceinline__ float4 load(int row) const {
        float4 b = make_float4(0, 0, 0, 0);
        if (row < 0) return b;
        const uint8_t* at = first + row * pitch;
        if constexpr (Whole) {
            if (columns > 0) b = __ldg(reinterpret_cast<const float4*>(at));
        } else {
            const auto element = [&](int i) {
                return i < columns ? __ldg(reinterpret_cast<const float*>(at + i * col_pitch))
                                   : 0.0f;
            };
            b = make_float4(element(0), element(1), element(2), element(3));
        }
        return b;
    }
};

template <int Sets>
using fp32_sums = float[8 * Sets][lane_columns];

// Adds the products of four slots. `values` is where the first row's are, rows `pitch` bytes apart.
template <int Sets>
__device__ __forceinline__ void multiply_group(fp32_sums<Sets>& acc, const float4 (&b)[at_once],
                                               uint32_t values, uint32_t pitch) {
#pragma unroll
    for (int row = 0; row < 8 * Sets; ++row) {
        const uint4 v = ptx::load_shared_v4(values);
        values += pitch;
        const uint32_t value[at_once] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
            const float a = __uint_as_float(value[i]);
            acc[row][0] = fma_rn(a, b[i].x, acc[row][0]);
            acc[row][1] = fma_rn(a, b[i].y, acc[row][1]);
            acc[row][2] = fma_rn(a, b[i].z, acc[row][2]);
            acc[row][3] = fma_rn(a, b[i].w, acc[row][3]);
        }
    }
}

// Multiplies `groups` groups of four slots. `own_row` is the row of B for the lane's slot.
template <int Sets, bool Whole>
__device__ __forceinline__ void multiply_step(fp32_sums<Sets>& acc, const fp32_walk<Sets>& walk,
                                              const lane_b& b, int own_row, int groups,
                                              uint32_t values) {
    const auto load_rows = [&](float4(&rows)[at_once], int group) {
#pragma unroll
        for (int i = 0; i < at_once; ++i)
            rows[i] = b.load<Whole>(__shfl_sync(all_lanes, own_row, group * at_once + i));
    };
    const uint32_t pitch = walk.row_offset();
    float4 even[at_once], odd[at_once];
    load_rows(even, 0);
#pragma unroll 1
    for (int group = 0; group < groups; group += 2) {
        load_rows(odd, group + 1);
        multiply_group<Sets>(acc, even, values + walk.lane_offset(0, group * at_once), pitch);
        if (group + 2 < groups) load_rows(even, group + 2);
        multiply_group<Sets>(acc, odd, values + walk.lane_offset(0, (group + 1) * at_once), pitch);
    }
}

template <int Sets, bool Whole>
__device__ __forceinline__ void multiply_bundle(fp32_sums<Sets>& acc, fp32_walk<Sets>& walk,
                                                const lane_b& b, uint32_t ring) {
    constexpr int stage_bytes = fp32_walk<Sets>::step_bytes;
    const int steps = walk.steps();
    walk.prepare(0);
    if (steps > 0) walk.bring(0, ring);
    ptx::commit_copies();
    int row = walk.own_column();
    walk.prepare(1);
    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) walk.bring(step + 1, ring + (step + 1) % 2 * stage_bytes);
        ptx::commit_copies();
        const int next_row = walk.own_column();
        walk.prepare(step + 2);
        ptx::wait_copies<1>();
        __syncwarp();
        const uint32_t values = ring + step % 2 * stage_bytes;
        walk.clear_padding(step, values);
        __syncwarp();
        multiply_step<Sets, Whole>(acc, walk, b, row, walk.groups(step, at_once), values);
        __syncwarp();
        row = next_row;
    }
}

// Stores two rows of the lane's columns.
__device__ __forceinline__ void store_pair(const cuda::store_arguments& s, int64_t batch,
                                           int64_t row, int64_t column,
                                           const float (&acc)[2][lane_columns]) {
    const auto square = [&](int c, float(&sums)[2][2]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[i >> 1][i & 1] = acc[i >> 1][c * 2 + (i & 1)];
    };
    switch (s.type) {
        case dtype::fp16:
            cuda::store_squares<half, 2, 2, float>(s, batch, row, column, square);
            break;
        case dtype::bf16:
            cuda::store_squares<bfloat16, 2, 2, float>(s, batch, row, column, square);
            break;
        case dtype::int8:
            cuda::store_squares<int8_t, 2, 2, float>(s, batch, row, column, square);
            break;
        default:
            cuda::store_squares<float, 2, 2, float>(s, batch, row, column, square);
            break;
    }
}

template <int Sets>
__global__ void __launch_bounds__(cta_warps * 32, Sets == 1 ? 2 : 1)
    fp32_kernel(const __grid_constant__ gather_arguments args) {
    __shared__ __align__(128) uint8_t shared[cta_warps * 2 * fp32_walk<Sets>::step_bytes];
    const int lane = threadIdx.x & 31;
    const uint32_t ring =
        ptx::shared_address(shared) + (threadIdx.x >> 5) * 2 * fp32_walk<Sets>::step_bytes;
    for (int64_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
        const tile_place at(args, tile, cta_warps);
        if (at.bundle >= args.bundles) continue;
        const int64_t column = at.column_tile * tile_columns + lane * lane_columns;
        const int64_t columns = args.store.cols - column;
        const lane_b b{args.b + at.batch * args.apart + (columns > 0 ? column * args.col_pitch : 0),
                       args.pitch, args.col_pitch,
                       static_cast<int>(max(int64_t{0}, min(int64_t{lane_columns}, columns)))};
        fp32_sums<Sets> acc = {};
        fp32_walk<Sets> walk(args, at.batch, at.bundle);
        if (__all_sync(all_lanes, args.aligned && b.columns % lane_columns == 0)) {
            multiply_bundle<Sets, true>(acc, walk, b, ring);
        } else {
            multiply_bundle<Sets, false>(acc, walk, b, ring);
        }
// Rolled, with moves, so that the code of the stores exists once.
#pragma unroll 1
        for (int row = 0; row < 8 * Sets; row += 2) {
            const float pair[2][lane_columns] = {{acc[0][0], acc[0][1], acc[0][2], acc[0][3]},
                                                 {acc[1][0], acc[1][1], acc[1][2], acc[1][3]}};
            store_pair(args.store, at.batch, at.bundle * Sets * 8 + row, column, pair);
#pragma unroll
            for (int i = 0; i < (8 * Sets - 2) * lane_columns; ++i)
                acc[i / lane_columns][i % lane_columns] =
                    acc[i / lane_columns + 2][i % lane_columns];
        }
    }
}

template <int Sets>
gather_kernel_info describe() {
    gather_kernel_info info{};
    cudaFuncAttributes attributes{};
    info.code = cudaFuncGetAttributes(&attributes, fp32_kernel<Sets>);
    if (info.code == cudaSuccess)
        info.code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&info.ctas, fp32_kernel<Sets>,
                                                                  cta_warps * 32, 0);
    info.architecture = attributes.ptxVersion;
    return info;
}

template <int Sets>
cudaError_t launch(const gather_arguments& args, int64_t ctas, cudaStream_t stream) {
    magicube::cuda::launch_kernel(fp32_kernel<Sets>,
                                  {static_cast<unsigned>(ctas), cta_warps * 32, 0, stream}, args);
    return cudaGetLastError();
}

}  // namespace

#define MAGICUBE_DEFINE_FP32(OPERANDS, SETS)             \
    const gather_instance gather_##OPERANDS##_##SETS = { \
        #OPERANDS, {cta_warps, SETS, tile_columns, 0}, describe<SETS>, launch<SETS>};
MAGICUBE_GATHERS_FP32(MAGICUBE_DEFINE_FP32)

}  // namespace magicube::spmm::sm80
