// SPDX-License-Identifier: Apache-2.0
//
// SR-BCRS -> CSR: counts the elements of every row, then writes columns and values.
//
// Layout   both as matrix.h draws them.
// Mapping  count and columns: one warp a row, lanes along its block row's slots, ballots place the
//          elements that exist. Values: a thread an element (two for int4, whose rows share bytes),
//          which finds its row by bisection of the offsets and its source by one of the columns.
// Shared   none; any architecture; any alignment of elements.
// Bound    latency of the bisections: about 20 loads from L1 and L2 an element.
#include "core/formats/csr/cuda/convert.hpp"

#include "core/device/cuda/launch.cuh"
#include "core/formats/cuda/elements.cuh"
#include "core/formats/cuda/launch.cuh"
#include "core/formats/cuda/lists.cuh"
#include "core/formats/cuda/offsets.hpp"
#include "core/formats/row_cursor.hpp"

namespace magicube::cuda {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / warp_size;
constexpr int64_t value_blocks = 4096;  // the number of elements is not known to the host

// Calls on_element(slot, place) for the row's elements, place counted from 0; a warp together.
// Returns how many there are.
template <class OnElement>
__device__ int64_t walk_row(const sr_bcrs_view& source, int64_t row, int lane,
                            const OnElement& on_element) {
    const int64_t i = row / source.vector_length;
    const int64_t v = row - i * source.vector_length;
    const int64_t end = source.row_end[i];
    int64_t count = 0;
    for (int64_t base = source.row_begin[i]; base < end; base += warp_size) {
        const int64_t slot = base + lane;
        const bool exists = slot < end && source.exists(slot, v);
        const unsigned found = __ballot_sync(whole_warp, exists);
        if (exists) on_element(slot, count + __popc(found & ((1u << lane) - 1)));
        count += __popc(found);
    }
    return count;
}

__global__ void __launch_bounds__(threads) count_kernel(sr_bcrs_view source, csr_target target) {
    const int lane = threadIdx.x % warp_size;
    for (int64_t row = first_thread() / warp_size; row < source.rows;
         row += int64_t{gridDim.x} * warps) {
        const int64_t count = walk_row(source, row, lane, [](int64_t, int64_t) {});
        if (lane == 0) put_index(target.offsets, target.offset_type, row + 1, count);
    }
}

__global__ void __launch_bounds__(threads) columns_kernel(sr_bcrs_view source, csr_target target) {
    const index_array offsets{target.offsets, target.offset_type};
    const int lane = threadIdx.x % warp_size;
    for (int64_t row = first_thread() / warp_size; row < source.rows;
         row += int64_t{gridDim.x} * warps) {
        const int64_t begin = offsets[row];
        const int64_t room = offsets[row + 1] - begin;
        walk_row(source, row, lane, [&](int64_t slot, int64_t place) {
            if (place < room) target.col_indices[begin + place] = source.col_indices[slot];
        });
    }
}

__global__ void __launch_bounds__(threads) values_kernel(sr_bcrs_view source, csr_target target) {
    const index_array offsets{target.offsets, target.offset_type};
    const moved_elements elements{source.values, source.type, target.type};
    const int64_t nnz = offsets[source.rows];
    const int64_t unit = unit_of(target.type);
    for (int64_t p = first_thread() * unit; p < nnz; p += thread_stride() * unit) {
        store_unit(target.type, target.values, p, nnz, [&](int64_t element) -> uint32_t {
            const int64_t row = list_of(offsets, source.rows, element);
            const int64_t position = position_in(source, 0, row, target.col_indices[element]);
            return position < 0 ? 0 : elements[position];
        });
    }
}

}  // namespace

int64_t count_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target) {
    device_scope scope(ctx.ordinal);
    require_no_capture(ctx);
    cuda::require_on_device(ctx, target.offsets, "offsets");
    require_arrays_on_device(ctx, source);
    if (source.rows > 0) {
        launch_kernel(count_kernel, {grid_for(source.rows, warps), threads, 0, ctx.stream}, source,
                      target);
        check(cudaGetLastError(), "count_kernel");
    }
    return lengths_to_offsets(ctx, target.offsets, target.offset_type, source.rows,
                              "the number of elements");
}

void fill_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target) {
    if (source.rows == 0 || !target.col_indices) return;
    device_scope scope(ctx.ordinal);
    cuda::require_on_device(ctx, target.offsets, "offsets");
    cuda::require_on_device(ctx, target.col_indices, "col_indices");
    require_arrays_on_device(ctx, source);
    launch_kernel(columns_kernel, {grid_for(source.rows, warps), threads, 0, ctx.stream}, source,
                  target);
    check(cudaGetLastError(), "columns_kernel");
    if (!target.values) return;
    cuda::require_on_device(ctx, target.values, "values");
    launch_kernel(values_kernel, {value_blocks, threads, 0, ctx.stream}, source, target);
    check(cudaGetLastError(), "values_kernel");
}

}  // namespace magicube::cuda
