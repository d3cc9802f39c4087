// SPDX-License-Identifier: Apache-2.0
// The instances of the warpgroup kernel and their launches.
#pragma once

#include <cuda_runtime.h>

#include "core/common/divisor.hpp"
#include "core/ops/vnm_mm/cuda/sm80/select_launch.hpp"

namespace magicube::vnm_mm::sm90 {

// A tile's number counts row tiles first, then tiles of columns, then matrices of the batch.
struct warpgroup_arguments {
    sm80::select_arguments select;
    divisor row_tiles, column_tiles;
    uint32_t tiles;
    uint32_t b_pitch;  // of `select`; 0 if it needs more than 32 bits
};

struct warpgroup_instance {
    dtype type;
    int32_t tile_rows;
    int32_t tile_columns;
    // Loads the kernel and allows its shared memory.
    cudaError_t (*load)();
    cudaError_t (*launch)(const warpgroup_arguments&, unsigned ctas, cudaStream_t);
};

extern const warpgroup_instance warpgroup_fp16_64, warpgroup_fp16_128, warpgroup_bf16_64,
    warpgroup_bf16_128;

}  // namespace magicube::vnm_mm::sm90
