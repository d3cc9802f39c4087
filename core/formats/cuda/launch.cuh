// SPDX-License-Identifier: Apache-2.0
// What the launches of conversions share: grids, checks of pointers, offsets written on the device.
#pragma once

#include <algorithm>

#include "core/device/cuda/check.hpp"
#include "core/formats/sparse.hpp"

namespace magicube::cuda {

constexpr int warp_size = 32;
constexpr unsigned whole_warp = 0xffffffff;

// Blocks for `count` pieces of work; every kernel strides over what lies beyond the grid.
inline unsigned grid_for(int64_t count) {
    return static_cast<unsigned>(std::min<int64_t>(count, int64_t{1} << 20));
}

inline unsigned grid_for(int64_t count, int64_t per_block) {
    return grid_for(ceil_div(count, per_block));
}

// The first of this thread's pieces of work, and how far it is to the next.
__device__ __forceinline__ int64_t first_thread() {
    return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t thread_stride() {
    return int64_t{gridDim.x} * blockDim.x;
}

__device__ __forceinline__ void put_index(void* array, index_type type, int64_t i, int64_t value) {
    if (type == index_type::int32) {
        static_cast<int32_t*>(array)[i] = static_cast<int32_t>(value);
    } else {
        static_cast<int64_t*>(array)[i] = value;
    }
}

// For calls that read something back.
inline void require_no_capture(const context& ctx) {
    cudaStreamCaptureStatus capturing{};
    check(cudaStreamIsCapturing(ctx.stream, &capturing), "cudaStreamIsCapturing");
    require(capturing == cudaStreamCaptureStatusNone, status::capturing,
            "the handle's stream is being captured; this call waits for it");
}

// An array that the caller may leave out, or that is empty.
inline void require_array_on_device(const context& ctx, const void* array, int64_t length,
                                    const char* argument) {
    if (array && length > 0) cuda::require_on_device(ctx, array, argument);
}

inline void require_arrays_on_device(const context& ctx, const csr_view& source) {
    if (source.rows > 0) require_array_on_device(ctx, source.offsets.data, 1, "source's offsets");
    require_array_on_device(ctx, source.col_indices, source.nnz, "source's col_indices");
    require_array_on_device(ctx, source.values, source.nnz, "source's values");
}

inline void require_arrays_on_device(const context& ctx, const bsr_view& source) {
    if (source.rows > 0) require_array_on_device(ctx, source.offsets.data, 1, "source's offsets");
    require_array_on_device(ctx, source.block_col_indices, source.nnzb,
                            "source's block_col_indices");
    require_array_on_device(ctx, source.values, source.nnzb, "source's values");
}

inline void require_arrays_on_device(const context& ctx, const sr_bcrs_view& source) {
    require_array_on_device(ctx, source.row_begin.data, source.rows, "source's row_begin");
    require_array_on_device(ctx, source.row_end.data, source.rows, "source's row_end");
    require_array_on_device(ctx, source.col_indices, source.slots, "source's col_indices");
    require_array_on_device(ctx, source.values, source.slots, "source's values");
    require_array_on_device(ctx, source.element_mask, source.slots, "source's element_mask");
}

inline void require_arrays_on_device(const context& ctx, const vnm_view& source) {
    require_array_on_device(ctx, source.column_loc, column_loc_count(source),
                            "source's column_loc");
    require_array_on_device(ctx, source.metadata, metadata_count(source), "source's metadata");
    require_array_on_device(ctx, source.values, source.value_count(), "source's values");
}

}  // namespace magicube::cuda
