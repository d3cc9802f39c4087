// SPDX-License-Identifier: Apache-2.0
// What the kernels of the gather family are told, their instances, and their launches.
#pragma once

#include <cuda_runtime.h>

#include "core/ops/sddmm/cuda/output.hpp"

namespace magicube::sddmm::sm80 {

constexpr int segment_bytes = 64;  // of a row of A or B that a quad of lanes loads at once
constexpr int kept_segments = 2;   // of A's rows that fit in registers
constexpr int step_slots = 32;     // that a warp computes at once

struct gather_arguments {
    // A and the transpose of B: rows of `row_bytes` bytes along K, `pitch` bytes apart, matrices
    // `apart` bytes apart, all multiples of 16.
    const uint8_t* a;
    int64_t a_pitch;
    int64_t a_apart;
    const uint8_t* b;
    int64_t b_apart;
    uint32_t b_pitch;
    int32_t row_bytes;
    int32_t parts;  // of a block row, 8 * Sets rows each
    int32_t ways;   // warps that share a part's slots
    int64_t tasks;  // of a warp
    bool quads;     // a chunk holds whole groups of four slots
    bool aligned;   // and their four values may be stored at once
    cuda::output_arguments out;
};

struct gather_kernel_info {
    cudaError_t code;
    int32_t architecture;  // that its code was compiled for
};

struct gather_instance {
    const char* operands;
    int32_t sets;  // groups of 8 rows that share a gather
    bool kept;     // A's rows stay in registers
    gather_kernel_info (*describe)();
    cudaError_t (*launch)(const gather_arguments&, int64_t blocks, cudaStream_t);
};

constexpr int block_warps = 4;

// The instances, one row each: MAGICUBE_GATHER(operands, sets). gather_*.cu compile two of each,
// with A's rows kept in registers and not; gather_plan.cu picks one.
#define MAGICUBE_GATHERS_OF(ROW, OPERANDS) ROW(OPERANDS, 1) ROW(OPERANDS, 2)
#define MAGICUBE_GATHERS(ROW)       \
    MAGICUBE_GATHERS_OF(ROW, int8)  \
    ROW(int4, 1)                    \
    MAGICUBE_GATHERS_OF(ROW, int16) \
    MAGICUBE_GATHERS_OF(ROW, fp16)  \
    MAGICUBE_GATHERS_OF(ROW, bf16)  \
    ROW(e4m3, 1)

#define MAGICUBE_GATHER(OPERANDS, SETS)                            \
    extern const gather_instance gather_##OPERANDS##_##SETS##_any; \
    extern const gather_instance gather_##OPERANDS##_##SETS##_kept;
MAGICUBE_GATHERS(MAGICUBE_GATHER)
#undef MAGICUBE_GATHER

}  // namespace magicube::sddmm::sm80
