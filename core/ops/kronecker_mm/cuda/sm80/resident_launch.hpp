// SPDX-License-Identifier: Apache-2.0
// The instances of the resident kernel and their launches.
#pragma once

#include <cuda_runtime.h>

#include "core/ops/kronecker_mm/cuda/sm80/resident_format.hpp"
#include "core/ops/spmm/cuda/store_arguments.hpp"

namespace magicube::kronecker_mm::sm80 {

struct resident_arguments {
    resident_shape shape;
    const uint4* w;  // packed
    const void* x;
    int64_t x_feature_stride;  // elements
    int64_t x_vector_stride;
    int64_t x_batch_stride;
    int64_t vectors;
    int64_t row_tiles;  // of one
    int64_t tiles;      // of all matrices of the batch
    bool x_units;       // X's units are aligned, and lie side by side as their elements do
    bool y_units;       // the same of Y
    bool scaled;        // the epilogue is more than a factor alpha, or Y is of another type
    spmm::cuda::store_arguments store;
};

struct resident_instance {
    int32_t kind, high, wide;
    bool w_is_shared;
    // Loads the kernel and allows so many bytes of shared memory.
    cudaError_t (*load)(int shared_bytes);
    cudaError_t (*launch)(const resident_arguments&, dim3 grid, cudaStream_t);
};

// ROW(KIND, HIGH, WIDE), each compiled for W in shared memory and not.
#define MAGICUBE_RESIDENT_TILINGS(ROW) \
    ROW(0, 1, 1)                       \
    ROW(0, 2, 1)                       \
    ROW(1, 4, 2)                       \
    ROW(1, 4, 4)                       \
    ROW(2, 2, 2)                       \
    ROW(2, 2, 4)                       \
    ROW(4, 2, 2)                       \
    ROW(8, 1, 2)

constexpr int resident_instances = 16;
extern const resident_instance resident_fp16[resident_instances];
extern const resident_instance resident_bf16[resident_instances];
constexpr int resident_float_instances = 4;  // of each kind, W in shared memory
extern const resident_instance resident_fp32[resident_float_instances];

}  // namespace magicube::kronecker_mm::sm80
