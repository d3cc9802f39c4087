// SPDX-License-Identifier: Apache-2.0
// The instances of the select kernel and their launches.
#pragma once

#include <cuda_runtime.h>

#include "core/ops/spmm/cuda/store_arguments.hpp"
#include "core/ops/vnm_mm/cuda/sm80/select_format.hpp"

namespace magicube::vnm_mm::sm80 {

struct select_arguments {
    const uint8_t* values;
    const uint8_t* metadata;
    const int32_t* columns;
    int64_t values_apart;  // between neighbours in the batch, bytes; 0: one A for all
    int32_t units;
    int32_t tiles_a_block;  // row tiles of a block row
    const uint8_t* b;       // row-major, rows of a multiple of 16 bytes
    int64_t b_pitch;        // bytes
    int64_t b_apart;        // between matrices of the batch, bytes
    int64_t b_columns;
    spmm::cuda::store_arguments store;
};

struct select_info {
    cudaError_t code;
    int32_t architecture;  // that its code was compiled for
};

struct select_instance {
    const char* operands;
    int32_t tile_rows;
    int32_t tile_columns;
    int32_t element_bytes;
    bool narrow;
    // Loads the kernel and allows its shared memory.
    select_info (*load)();
    cudaError_t (*launch)(const select_arguments&, dim3 grid, cudaStream_t);
};

// KINDS(ROW) has a row for each kind of operands, each compiled for tiles of 32, 64 and 128 rows,
// wide and narrow.
#define MAGICUBE_SELECT_KINDS(ROW) ROW(s8) ROW(e4m3) ROW(fp16) ROW(bf16)

#define MAGICUBE_SELECT(KIND)                                                                 \
    extern const select_instance select_##KIND##_32, select_##KIND##_64, select_##KIND##_128, \
        select_narrow_##KIND##_32, select_narrow_##KIND##_64, select_narrow_##KIND##_128;
MAGICUBE_SELECT_KINDS(MAGICUBE_SELECT)
#undef MAGICUBE_SELECT

// The instance for A and B of this type and tiles of these rows. Null if there is none.
const select_instance* find_select(dtype type, int32_t tile_rows, bool narrow);

// Loads it on the context's device; the architecture its code was compiled for.
int load_select(const context& ctx, const select_instance& instance);

// Launches it for all of C.
void launch_select(const context& ctx, const select_instance& instance,
                   const select_arguments& args, int64_t row_tiles, int64_t batch_count);

}  // namespace magicube::vnm_mm::sm80
