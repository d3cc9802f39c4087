// SPDX-License-Identifier: Apache-2.0
// What the fused attention kernels are told, their instances, and their launches.
#pragma once

#include <cuda_runtime.h>

#include "core/ops/attention/cuda/arguments.hpp"

namespace magicube::attention::sm80 {

struct fused_arguments {
    cuda::kernel_arguments call;
    int32_t parts;    // of a block row, 8 * Sets queries each
    bool kv_aligned;  // rows of K and V may be copied 16 bytes at a time
    bool q_paired;    // two elements of Q may be loaded at once
};

struct fused_instance {
    bool bf16;
    int32_t dim;   // the most elements of a head
    int32_t sets;  // groups of 8 queries that share a gather
    int32_t warps;
    cudaError_t (*prepare)();  // before the first launch on a device
    cudaError_t (*launch)(const fused_arguments&, int64_t blocks, cudaStream_t);
};

// The instances, one row each: MAGICUBE_FUSED(type, dim, sets). fused_*.cu compile them,
// fused_plan.cu picks one.
#define MAGICUBE_FUSED_OF(ROW, TYPE) \
    ROW(TYPE, 64, 1)                 \
    ROW(TYPE, 64, 4)                 \
    ROW(TYPE, 128, 1)                \
    ROW(TYPE, 256, 1)
#define MAGICUBE_FUSED_ALL(ROW)  \
    MAGICUBE_FUSED_OF(ROW, fp16) \
    MAGICUBE_FUSED_OF(ROW, bf16)

#define MAGICUBE_FUSED(TYPE, DIM, SETS) extern const fused_instance fused_##TYPE##_##DIM##_##SETS;
MAGICUBE_FUSED_ALL(MAGICUBE_FUSED)
#undef MAGICUBE_FUSED

}  // namespace magicube::attention::sm80
