// SPDX-License-Identifier: Apache-2.0
//
// Dense -> SR-BCRS: counts the vectors of every block row, then writes columns, mask and values.
//
// Layout   dense in its order and ld, with or without a uint8 mask; SR-BCRS as matrix.h draws it.
// Mapping  one block of 256 to 1024 threads a block row, more where these are few. Columns go to
//          lanes, 4 x 32 neighbours a warp and step; each thread looks at its column's V elements.
//          Ballots and the sums of the warps give every vector its slot. Then threads run along
//          the values, and fetch each from the dense.
// Shared   128 bytes; any architecture; any alignment of elements.
// Bound    bytes: count reads the dense once, fill once more (from L2 at best), and the result.
#include "core/device/cuda/launch.cuh"
#include "core/formats/cuda/offsets.hpp"
#include "core/formats/dense/nonzero.hpp"
#include "core/formats/sr_bcrs/cuda/convert.hpp"
#include "core/formats/sr_bcrs/cuda/target.cuh"

namespace magicube::cuda {
namespace {

constexpr int max_threads = 1024;
constexpr int max_warps = max_threads / warp_size;
constexpr int per_thread = 4;

// Enough of them to fill a large device, whatever the number of block rows.
int threads_for(int64_t entries) {
    constexpr int64_t wanted = 132 * 2048;
    int threads = 256;
    while (threads < max_threads && entries * threads * 2 <= wanted) threads *= 2;
    return threads;
}

// Which elements exist, or make their vector exist.
struct dense_pattern {
    dense_view marks;  // the mask if there is one, else the dense matrix
    uint32_t bits;     // that tell a mark from zero
    bool whole;        // a vector exists as a whole
    dense_view values;

    explicit dense_pattern(const dense_source& source)
        : marks(source.mask ? *source.mask : source.values),
          bits(nonzero_bits(marks.type)),
          whole(source.mask == nullptr),
          values(source.values) {}

    // Bit r tells of element (first_row + r, col).
    __device__ uint64_t rows_of(const block_row_place& place, int64_t col) const {
        const int64_t start = marks.index(place.batch, place.first_row, col);
        const int64_t step = marks.storage == order::row ? marks.ld : 1;
        if (place.height == 1) return (load_bits(marks.type, marks.values, start) & bits) != 0;
        uint64_t rows = 0;
        for (int r = 0; r < place.height; r += 8) {
            const eight_elements loaded(marks.type, marks.values, start + r * step, step,
                                        place.height - r);
            uint32_t found = 0;
#pragma unroll
            for (int k = 0; k < 8; ++k) found |= ((loaded.bits[k] & bits) != 0) << k;
            rows |= static_cast<uint64_t>(found) << r;
        }
        return rows;
    }
    __device__ int64_t operator()(const block_row_place& place, int64_t row, int64_t col) const {
        if (!whole) {
            const int64_t mark = marks.index(place.batch, row, col);
            if (load_bits(marks.type, marks.values, mark) == 0) return -1;
        }
        return values.index(place.batch, row, col);
    }
};

__global__ void __launch_bounds__(max_threads)
    count_kernel(dense_pattern pattern, block_row_grid grid, sr_bcrs_target target) {
    __shared__ int vectors;
    for (int64_t entry = blockIdx.x; entry < grid.entries; entry += gridDim.x) {
        const block_row_place place(grid, entry, target.vector_length);
        if (threadIdx.x == 0) vectors = 0;
        __syncthreads();
        int found = 0;
        for (int64_t col = threadIdx.x; col < grid.cols; col += blockDim.x) {
            found += pattern.rows_of(place, col) != 0;
        }
        found = __reduce_add_sync(whole_warp, found);
        if (threadIdx.x % warp_size == 0 && found != 0) atomicAdd(&vectors, found);
        __syncthreads();
        if (threadIdx.x == 0) put_index(target.row_end, target.offset_type, entry, vectors);
    }
}

// Writes the columns and the mask of a block row.
__device__ void fill_slots(const dense_pattern& pattern, const block_row_grid& grid,
                           const block_row_place& place, const slot_range& range,
                           const sr_bcrs_target& target) {
    __shared__ int of_warp[max_warps];
    const int lane = threadIdx.x % warp_size;
    const int warp = threadIdx.x / warp_size;
    const uint64_t all_rows = ~uint64_t{0} >> (64 - place.height);
    int64_t slot = range.begin;
    for (int64_t base = 0; base < grid.cols; base += blockDim.x * per_thread) {
        const int64_t first = base + warp * warp_size * per_thread + lane;
        uint64_t rows[per_thread];
        unsigned found[per_thread];
        int in_warp = 0;
#pragma unroll
        for (int k = 0; k < per_thread; ++k) {
            const int64_t col = first + k * warp_size;
            rows[k] = col < grid.cols ? pattern.rows_of(place, col) : 0;
            found[k] = __ballot_sync(whole_warp, rows[k] != 0);
            in_warp += __popc(found[k]);
        }
        __syncthreads();
        if (lane == 0) of_warp[warp] = in_warp;
        __syncthreads();
        int64_t at = slot;
        for (int w = 0; w < static_cast<int>(blockDim.x) / warp_size; ++w) {
            if (w < warp) at += of_warp[w];
            slot += of_warp[w];
        }
#pragma unroll
        for (int k = 0; k < per_thread; ++k) {
            const int64_t own = at + __popc(found[k] & ((1u << lane) - 1));
            if (rows[k] != 0 && own < range.end) {
                store_slot(target, own, first + k * warp_size, pattern.whole ? all_rows : rows[k]);
            }
            at += __popc(found[k]);
        }
    }
    for (int64_t i = min(slot, range.end) + threadIdx.x; i < range.padded; i += blockDim.x) {
        store_slot(target, i, -1, 0);
    }
}

__global__ void __launch_bounds__(max_threads)
    fill_kernel(dense_pattern pattern, block_row_grid grid, sr_bcrs_target target) {
    const moved_elements elements{pattern.values.values, pattern.values.type, target.type};
    for (int64_t entry = blockIdx.x; entry < grid.entries; entry += gridDim.x) {
        const block_row_place place(grid, entry, target.vector_length);
        const slot_range range(target, entry);
        fill_slots(pattern, grid, place, range, target);
        __syncthreads();
        if (target.values) {
            fill_values(target, elements, place, range, threadIdx.x, blockDim.x, pattern);
        }
    }
}

void require_source_on_device(const context& ctx, const dense_source& source) {
    if (source.values.empty()) return;
    if (source.values.values) cuda::require_on_device(ctx, source.values.values, "dense");
    if (source.mask) cuda::require_on_device(ctx, source.mask->values, "mask");
}

}  // namespace

int64_t count_sr_bcrs(const context& ctx, const dense_source& source,
                      const sr_bcrs_target& target) {
    device_scope scope(ctx.ordinal);
    require_no_capture(ctx);
    const block_row_grid grid(shape_of(source.values), target.vector_length);
    if (grid.entries == 0) return 0;
    require_source_on_device(ctx, source);
    require_offsets_on_device(ctx, target, grid.entries);
    launch_kernel(count_kernel, {grid_for(grid.entries), threads_for(grid.entries), 0, ctx.stream},
                  dense_pattern(source), grid, target);
    check(cudaGetLastError(), "count_kernel");
    return place_lists(ctx, target.row_begin, target.row_end, target.offset_type, grid.entries,
                       target.stride, "the number of slots");
}

void fill_sr_bcrs(const context& ctx, const dense_source& source, const sr_bcrs_target& target) {
    device_scope scope(ctx.ordinal);
    const block_row_grid grid(shape_of(source.values), target.vector_length);
    if (grid.entries == 0) return;
    require_source_on_device(ctx, source);
    require_arrays_on_device(ctx, target, grid.entries);
    launch_kernel(fill_kernel, {grid_for(grid.entries), threads_for(grid.entries), 0, ctx.stream},
                  dense_pattern(source), grid, target);
    check(cudaGetLastError(), "fill_kernel");
}

}  // namespace magicube::cuda
