// SPDX-License-Identifier: Apache-2.0
//
// SpMM on any GPU, for every problem: the last resort of CUDA, slow and right.
//
// Computes  C = epilogue(A * B), A in the public SR-BCRS layout, so that values may come with each
// call. Layout    all operands as the caller has them, any order, ld and alignment. Mapping   a
// thread owns one column of C and `rows_at_once` rows of one block row; neighbouring threads own
//           neighbouring columns, so that a row-major B is read and a row-major C written whole
//           sectors at a time. blockIdx.x walks over columns, y over parts of block rows, z over
//           the batch.
// Sums      64-bit for integers, exact; fp32 by fma for floating types.
// Shared    none. Any architecture, any alignment of elements.
// Bound     the bytes of B's rows, read once a block row through L2.
#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/ops/cuda/elements.cuh"
#include "core/ops/spmm/cuda/plain.hpp"
#include "core/ops/spmm/cuda/store.cuh"

namespace magicube::spmm::cuda {
namespace {

using magicube::cuda::accumulate;
using magicube::cuda::check;
using magicube::cuda::device_scope;
using magicube::cuda::load_element;

constexpr int block_threads = 128;
constexpr int rows_at_once = 8;
constexpr int64_t max_grid_y = 65535;

struct plain_arguments {
    sr_bcrs_view a;
    const void* b;
    dtype b_type;
    int64_t b_row_stride;
    int64_t b_col_stride;
    int64_t b_batch_stride;
    int64_t parts;  // of a block row
    int64_t batch_count;
    store_arguments store;
};

template <class Value, class Sum>
__global__ void __launch_bounds__(block_threads)
    plain_kernel(const __grid_constant__ plain_arguments args) {
    const auto& a = args.a;
    const auto& s = args.store;
    const int64_t j = int64_t{blockIdx.x} * block_threads + threadIdx.x;
    if (j >= s.cols) return;
    const int64_t tasks = a.block_rows() * args.parts;
    for (int64_t batch = blockIdx.z; batch < args.batch_count; batch += gridDim.z) {
        const int64_t a_batch = a.batch_count == 1 ? 0 : batch;
        for (int64_t task = blockIdx.y; task < tasks; task += gridDim.y) {
            const int64_t block_row = task / args.parts;
            const int64_t v0 = task % args.parts * rows_at_once;
            const int64_t at = a.block_row_index(a_batch, block_row);
            const int64_t column = batch * args.b_batch_stride + j * args.b_col_stride;
            Sum sums[rows_at_once] = {};
            const int64_t end = a.row_end[at];
            for (int64_t slot = a.row_begin[at]; slot < end; ++slot) {
                const Value b = load_element<Value>(
                    args.b, args.b_type, column + a.col_indices[slot] * args.b_row_stride);
#pragma unroll
                for (int v = 0; v < rows_at_once; ++v)
                    if (v0 + v < a.vector_length)
                        accumulate(sums[v],
                                   load_element<Value>(a.values, a.type,
                                                       a.value_index(a_batch, slot, v0 + v)),
                                   b);
            }
#pragma unroll
            for (int v = 0; v < rows_at_once; ++v)
                if (v0 + v < a.vector_length)
                    store_one(s, batch, block_row * a.vector_length + v0 + v, j, sums[v]);
        }
    }
}

}  // namespace

void load_plain(const context& ctx, dtype a_type) {
    const device_scope scope(ctx.ordinal);
    check(is_integer(a_type) ? magicube::cuda::load_kernel(plain_kernel<int32_t, int64_t>)
                             : magicube::cuda::load_kernel(plain_kernel<float, float>),
          "plain_kernel");
}

void run_plain(const context& ctx, const problem& p, const sr_bcrs_view& a, const arguments& args) {
    const dense_view& b = args.b;
    plain_arguments k;
    k.a = a;
    k.b = b.values;
    k.b_type = b.type;
    k.b_row_stride = b.storage == order::row ? b.ld : 1;
    k.b_col_stride = b.storage == order::row ? 1 : b.ld;
    k.b_batch_stride = b.batch_stride;
    k.parts = ceil_div(a.vector_length, rows_at_once);
    k.batch_count = p.batch_count;
    k.store = make_store_arguments(ctx, p, args);
    const int64_t blocks = ceil_div(k.store.cols, block_threads);
    const dim3 grid(static_cast<unsigned>(blocks),
                    static_cast<unsigned>(std::min(a.block_rows() * k.parts, max_grid_y)),
                    static_cast<unsigned>(std::min(p.batch_count, max_grid_y)));
    device_scope scope(ctx.ordinal);
    if (is_integer(a.type)) {
        magicube::cuda::launch_kernel(plain_kernel<int32_t, int64_t>,
                                      {grid, block_threads, 0, ctx.stream}, k);
    } else {
        magicube::cuda::launch_kernel(plain_kernel<float, float>,
                                      {grid, block_threads, 0, ctx.stream}, k);
    }
    check(cudaGetLastError(), "plain_kernel");
}

}  // namespace magicube::spmm::cuda
