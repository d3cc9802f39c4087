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
    // Loads the kernel and allows its shared memory.
    select_info (*load)();
    cudaError_t (*launch)(const select_arguments&, dim3 grid, cudaStream_t);
};

// KINDS(ROW) has a row for each kind of operands, each compiled for tiles of 32, 64 and 128 rows.
#define MAGICUBE_SELECT_KINDS(ROW) ROW(s8) ROW(e4m3) ROW(fp16) ROW(bf16)

#define MAGICUBE_SELECT(KIND) \
    extern const select_instance select_##KIND##_32, select_##KIND##_64, select_##KIND##_128;
MAGICUBE_SELECT_KINDS(MAGICUBE_SELECT)
#undef MAGICUBE_SELECT

}  // namespace magicube::vnm_mm::sm80
