// SPDX-License-Identifier: Apache-2.0
//
// CSR, BSR or SR-BCRS (another V or S) -> SR-BCRS: counts the vectors of every block row, then
// writes columns, mask and values.
//
// Layout   sources and SR-BCRS as matrix.h draws them; a batch becomes one of different patterns.
// Mapping  count and slots: one warp a block row; lane v walks rows v and v + 32 side by side, the
//          least column of all lanes is the next vector. Values: one block of 256 threads a block
//          row; threads run along the values and find each in its source row by bisection.
// Shared   none; any architecture; any alignment of elements.
// Bound    latency of the walk, one step a vector: about 0.2 us each, all block rows at once.
#include "core/device/cuda/launch.cuh"
#include "core/formats/cuda/offsets.hpp"
#include "core/formats/row_cursor.hpp"
#include "core/formats/sr_bcrs/cuda/convert.hpp"
#include "core/formats/sr_bcrs/cuda/target.cuh"

namespace magicube::cuda {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / warp_size;
constexpr uint32_t no_column = 0xffffffff;

// Up to 64 neighbouring rows of a matrix walked side by side by a warp: row_merge of the host.
template <class View>
class warp_merge {
  public:
    __device__ warp_merge(const View& source, const block_row_place& place, int lane) {
        for (int k = 0; k < 2; ++k) {
            const int v = lane + k * warp_size;
            heads_[k] = no_column;
            if (v >= place.height) continue;
            cursors_[k] = row_cursor<View>(source, place.batch, place.first_row + v);
            load_head(k);
        }
    }
    // The next column in which a row has an element, or no_column; the same in all lanes.
    __device__ uint32_t column() const {
        return __reduce_min_sync(whole_warp, min(heads_[0], heads_[1]));
    }
    // Which rows have one there; moves on behind it.
    __device__ uint64_t take(uint32_t column) {
        uint64_t rows = 0;
        for (int k = 0; k < 2; ++k) {
            const bool here = heads_[k] == column;
            rows |= static_cast<uint64_t>(__ballot_sync(whole_warp, here)) << k * warp_size;
            if (!here) continue;
            cursors_[k].next();
            load_head(k);
        }
        return rows;
    }

  private:
    __device__ void load_head(int k) {
        heads_[k] = cursors_[k].done() ? no_column : static_cast<uint32_t>(cursors_[k].column());
    }

    row_cursor<View> cursors_[2];
    uint32_t heads_[2];
};

template <class View>
__global__ void __launch_bounds__(threads)
    count_kernel(View source, block_row_grid grid, sr_bcrs_target target) {
    const int lane = threadIdx.x % warp_size;
    for (int64_t entry = first_thread() / warp_size; entry < grid.entries;
         entry += int64_t{gridDim.x} * warps) {
        warp_merge<View> merge(source, block_row_place(grid, entry, target.vector_length), lane);
        int64_t vectors = 0;
        for (uint32_t column = merge.column(); column != no_column; column = merge.column()) {
            merge.take(column);
            ++vectors;
        }
        if (lane == 0) put_index(target.row_end, target.offset_type, entry, vectors);
    }
}

template <class View>
__global__ void __launch_bounds__(threads)
    fill_slots_kernel(View source, block_row_grid grid, sr_bcrs_target target) {
    const int lane = threadIdx.x % warp_size;
    for (int64_t entry = first_thread() / warp_size; entry < grid.entries;
         entry += int64_t{gridDim.x} * warps) {
        const slot_range range(target, entry);
        warp_merge<View> merge(source, block_row_place(grid, entry, target.vector_length), lane);
        int64_t slot = range.begin;
        for (; slot < range.end; ++slot) {
            const uint32_t column = merge.column();
            if (column == no_column) break;
            const uint64_t rows = merge.take(column);
            if (lane == 0) store_slot(target, slot, column, rows);
        }
        for (int64_t i = slot + lane; i < range.padded; i += warp_size) {
            store_slot(target, i, -1, 0);
        }
    }
}

template <class View>
__global__ void __launch_bounds__(threads)
    fill_values_kernel(View source, block_row_grid grid, sr_bcrs_target target) {
    const moved_elements elements{source.values, source.type, target.type};
    for (int64_t entry = blockIdx.x; entry < grid.entries; entry += gridDim.x) {
        const block_row_place place(grid, entry, target.vector_length);
        const auto position_of = [&](const block_row_place& at, int64_t row, int64_t col) {
            return position_in<View>(source, at.batch, row, col);
        };
        fill_values(target, elements, place, slot_range(target, entry), threadIdx.x, threads,
                    position_of);
    }
}

}  // namespace

int64_t count_sr_bcrs(const context& ctx, const sparse_view& source, const sr_bcrs_target& target) {
    device_scope scope(ctx.ordinal);
    require_no_capture(ctx);
    const block_row_grid grid(shape_of(common_of(source)), target.vector_length);
    if (grid.entries == 0) return 0;
    require_offsets_on_device(ctx, target, grid.entries);
    const auto launch = [&](const auto& view) {
        using view_type = std::decay_t<decltype(view)>;
        require_arrays_on_device(ctx, view);
        launch_kernel(count_kernel<view_type>,
                      {grid_for(grid.entries, warps), threads, 0, ctx.stream}, view, grid, target);
    };
    std::visit(launch, source);
    check(cudaGetLastError(), "count_kernel");
    return place_lists(ctx, target.row_begin, target.row_end, target.offset_type, grid.entries,
                       target.stride, "the number of slots");
}

void fill_sr_bcrs(const context& ctx, const sparse_view& source, const sr_bcrs_target& target) {
    device_scope scope(ctx.ordinal);
    const block_row_grid grid(shape_of(common_of(source)), target.vector_length);
    if (grid.entries == 0) return;
    require_arrays_on_device(ctx, target, grid.entries);
    const auto launch = [&](const auto& view) {
        using view_type = std::decay_t<decltype(view)>;
        require_arrays_on_device(ctx, view);
        launch_kernel(fill_slots_kernel<view_type>,
                      {grid_for(grid.entries, warps), threads, 0, ctx.stream}, view, grid, target);
        check(cudaGetLastError(), "fill_slots_kernel");
        if (!target.values) return;
        launch_kernel(fill_values_kernel<view_type>,
                      {grid_for(grid.entries), threads, 0, ctx.stream}, view, grid, target);
        check(cudaGetLastError(), "fill_values_kernel");
    };
    std::visit(launch, source);
}

}  // namespace magicube::cuda
