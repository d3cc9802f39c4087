// SPDX-License-Identifier: Apache-2.0
// What the kernels that fill SR-BCRS arrays share, whatever the source.
#pragma once

#include "core/formats/cuda/elements.cuh"
#include "core/formats/cuda/launch.cuh"
#include "core/formats/sr_bcrs/convert.hpp"
#include "core/formats/validate.hpp"

namespace magicube::cuda {

// Shape of what is filled: block rows of `batch_count` matrices, one after another.
struct block_row_grid {
    int64_t rows;
    int64_t cols;
    int64_t block_rows;
    int64_t entries;  // block_rows * batch_count

    block_row_grid(const matrix_shape& shape, int32_t vector_length)
        : rows(shape.rows),
          cols(shape.cols),
          block_rows(ceil_div(shape.rows, vector_length)),
          entries(block_rows * shape.batch_count) {}
};

// One block row of one matrix, as a thread sees it.
struct block_row_place {
    int64_t batch;
    int64_t first_row;
    int32_t height;  // rows, V but for the last block row

    __device__ block_row_place(const block_row_grid& grid, int64_t entry, int32_t vector_length)
        : batch(entry / grid.block_rows),
          first_row((entry - batch * grid.block_rows) * vector_length),
          height(static_cast<int32_t>(min(int64_t{vector_length}, grid.rows - first_row))) {}
};

// The slots of a block row; none if the offsets are not such as count writes.
struct slot_range {
    int64_t begin = 0;
    int64_t end = 0;     // of the real slots
    int64_t padded = 0;  // of all

    __device__ slot_range(const sr_bcrs_target& target, int64_t entry) {
        const int64_t first = index_array{target.row_begin, target.offset_type}[entry];
        const int64_t last = index_array{target.row_end, target.offset_type}[entry];
        if (first < 0 || first % target.stride != 0 || last < first || last > target.slots) return;
        begin = first;
        end = last;
        padded = round_up(last, target.stride);
    }
};

__device__ __forceinline__ void store_slot(const sr_bcrs_target& target, int64_t slot,
                                           int64_t column, uint64_t rows) {
    target.col_indices[slot] = static_cast<int32_t>(column);
    if (!target.element_mask) return;
    const int bytes = (target.vector_length + 7) / 8;
    for (int byte = 0; byte < bytes; ++byte) {
        target.element_mask[slot * bytes + byte] = static_cast<uint8_t>(rows >> 8 * byte);
    }
}

// Writes all values of a block row, whose col_indices are there: thread `rank` of `count`.
// position_of(place, row, column) is where the source has an element, -1 where it has none.
template <class PositionOf>
__device__ void fill_values(const sr_bcrs_target& target, const moved_elements& elements,
                            const block_row_place& place, const slot_range& range, int rank,
                            int count, const PositionOf& position_of) {
    // V and S are powers of two.
    const int s_shift = __ffs(target.stride) - 1;
    const int chunk_shift = s_shift + __ffs(target.vector_length) - 1;
    const auto bits_of_element = [&](int64_t i) -> uint32_t {
        const int64_t slot = (i >> chunk_shift << s_shift) + (i & (target.stride - 1));
        const auto v = static_cast<int32_t>(i >> s_shift & (target.vector_length - 1));
        const int32_t column = target.col_indices[slot];
        if (column < 0 || v >= place.height) return 0;
        const int64_t position = position_of(place, place.first_row + v, column);
        return position < 0 ? 0 : elements[position];
    };
    const int64_t last = range.padded * target.vector_length;
    const int64_t unit = unit_of(target.type);
    for (int64_t i = range.begin * target.vector_length + rank * unit; i < last;
         i += count * unit) {
        store_unit(target.type, target.values, i, last, bits_of_element);
    }
}

inline void require_offsets_on_device(const context& ctx, const sr_bcrs_target& target,
                                      int64_t entries) {
    require_array_on_device(ctx, target.row_begin, entries, "arrays->row_begin");
    require_array_on_device(ctx, target.row_end, entries, "arrays->row_end");
}

inline void require_arrays_on_device(const context& ctx, const sr_bcrs_target& target,
                                     int64_t entries) {
    require_offsets_on_device(ctx, target, entries);
    require_array_on_device(ctx, target.col_indices, target.slots, "arrays->col_indices");
    require_array_on_device(ctx, target.values, target.slots, "arrays->values");
    require_array_on_device(ctx, target.element_mask, target.slots, "arrays->element_mask");
}

}  // namespace magicube::cuda
