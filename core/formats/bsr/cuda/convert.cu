// SPDX-License-Identifier: Apache-2.0
//
// SR-BCRS -> BSR: counts the blocks of every block row, then writes block columns and values.
//
// Layout   both as matrix.h draws them.
// Mapping  count and block columns: one block of 128 threads a block row of the result; threads
//          stride over its rows and find the least column from the block before on. Values: a
//          thread an element (two for int4), found in its source row by bisection.
// Shared   4 bytes; any architecture; any alignment of elements.
// Bound    latency of the bisections: one of every row a block, one of columns an element.
#include "core/formats/bsr/cuda/convert.hpp"

#include "core/device/cuda/launch.cuh"
#include "core/formats/cuda/elements.cuh"
#include "core/formats/cuda/launch.cuh"
#include "core/formats/cuda/lists.cuh"
#include "core/formats/cuda/offsets.hpp"
#include "core/formats/row_cursor.hpp"

namespace magicube::cuda {
namespace {

constexpr int threads = 128;
constexpr int value_threads = 256;
constexpr int64_t value_blocks = 4096;  // the number of blocks is not known to the host
constexpr uint32_t no_column = 0xffffffff;

// The least column from `from` on in which one of the block row's rows has an element, or
// no_column; the same in all threads.
__device__ uint32_t next_column(const sr_bcrs_view& source, const bsr_target& target, int64_t i,
                                int64_t from) {
    __shared__ uint32_t least;
    __syncthreads();
    if (threadIdx.x == 0) least = no_column;
    __syncthreads();
    uint32_t own = no_column;
    const int64_t first = i * target.block_rows;
    const int64_t end = min(first + target.block_rows, source.rows);
    for (int64_t row = first + threadIdx.x; row < end; row += threads) {
        row_cursor<sr_bcrs_view> at(source, 0, row);
        at.seek(from);
        if (!at.done()) own = min(own, static_cast<uint32_t>(at.column()));
    }
    own = __reduce_min_sync(whole_warp, own);
    if (threadIdx.x % warp_size == 0) atomicMin(&least, own);
    __syncthreads();
    return least;
}

// Calls on_block(block column) for every block of a block row, ascending; a block of threads
// together. Returns how many there are.
template <class OnBlock>
__device__ int64_t walk_blocks(const sr_bcrs_view& source, const bsr_target& target, int64_t i,
                               const OnBlock& on_block) {
    int64_t count = 0;
    int64_t from = 0;
    for (;;) {
        const uint32_t column = next_column(source, target, i, from);
        if (column == no_column) return count;
        const int64_t block_column = column / target.block_cols;
        if (threadIdx.x == 0) on_block(count, block_column);
        from = (block_column + 1) * target.block_cols;
        ++count;
    }
}

__global__ void __launch_bounds__(threads)
    count_kernel(sr_bcrs_view source, bsr_target target, int64_t block_rows) {
    for (int64_t i = blockIdx.x; i < block_rows; i += gridDim.x) {
        const int64_t count = walk_blocks(source, target, i, [](int64_t, int64_t) {});
        if (threadIdx.x == 0) put_index(target.offsets, target.offset_type, i + 1, count);
    }
}

__global__ void __launch_bounds__(threads)
    columns_kernel(sr_bcrs_view source, bsr_target target, int64_t block_rows) {
    const index_array offsets{target.offsets, target.offset_type};
    for (int64_t i = blockIdx.x; i < block_rows; i += gridDim.x) {
        const int64_t begin = offsets[i];
        const int64_t room = offsets[i + 1] - begin;
        walk_blocks(source, target, i, [&](int64_t place, int64_t block_column) {
            if (place >= room) return;
            target.block_col_indices[begin + place] = static_cast<int32_t>(block_column);
        });
    }
}

__global__ void __launch_bounds__(value_threads)
    values_kernel(sr_bcrs_view source, bsr_target target, int64_t block_rows) {
    const index_array offsets{target.offsets, target.offset_type};
    const moved_elements elements{source.values, source.type, target.type};
    const int64_t block_size = target.block_rows * target.block_cols;
    const int64_t count = offsets[block_rows] * block_size;
    const int64_t unit = unit_of(target.type);
    for (int64_t p = first_thread() * unit; p < count; p += thread_stride() * unit) {
        store_unit(target.type, target.values, p, count, [&](int64_t element) -> uint32_t {
            const int64_t block = element / block_size;
            const int64_t r = element % block_size / target.block_cols;
            const int64_t c = element % target.block_cols;
            const int64_t row = list_of(offsets, block_rows, block) * target.block_rows + r;
            if (row >= source.rows) return 0;
            const int64_t col = target.block_col_indices[block] * target.block_cols + c;
            const int64_t position = position_in(source, 0, row, col);
            return position < 0 ? 0 : elements[position];
        });
    }
}

}  // namespace

int64_t count_bsr(const context& ctx, const sr_bcrs_view& source, const bsr_target& target) {
    device_scope scope(ctx.ordinal);
    require_no_capture(ctx);
    cuda::require_on_device(ctx, target.offsets, "offsets");
    require_arrays_on_device(ctx, source);
    const int64_t block_rows = ceil_div(source.rows, target.block_rows);
    if (block_rows > 0) {
        launch_kernel(count_kernel, {grid_for(block_rows), threads, 0, ctx.stream}, source, target,
                      block_rows);
        check(cudaGetLastError(), "count_kernel");
    }
    return lengths_to_offsets(ctx, target.offsets, target.offset_type, block_rows,
                              "the number of blocks");
}

void fill_bsr(const context& ctx, const sr_bcrs_view& source, const bsr_target& target) {
    const int64_t block_rows = ceil_div(source.rows, target.block_rows);
    if (block_rows == 0 || !target.block_col_indices) return;
    device_scope scope(ctx.ordinal);
    cuda::require_on_device(ctx, target.offsets, "offsets");
    cuda::require_on_device(ctx, target.block_col_indices, "block_col_indices");
    require_arrays_on_device(ctx, source);
    launch_kernel(columns_kernel, {grid_for(block_rows), threads, 0, ctx.stream}, source, target,
                  block_rows);
    check(cudaGetLastError(), "columns_kernel");
    if (!target.values) return;
    cuda::require_on_device(ctx, target.values, "values");
    launch_kernel(values_kernel, {value_blocks, value_threads, 0, ctx.stream}, source, target,
                  block_rows);
    check(cudaGetLastError(), "values_kernel");
}

}  // namespace magicube::cuda
