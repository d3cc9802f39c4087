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
    int64_t row_tiles;
    int64_t batch_count;
    bool x_units;  // X's units are aligned, and lie side by side as their elements do
    bool y_units;  // the same of Y
    bool scaled;   // the epilogue is more than a factor alpha, or Y is of another type
    spmm::cuda::store_arguments store;
};

struct resident_instance {
    int32_t kind;
    // Loads the kernel and allows its shared memory.
    cudaError_t (*load)();
    cudaError_t (*launch)(const resident_arguments&, dim3 grid, cudaStream_t);
};

constexpr int resident_kinds = 5;
extern const resident_instance resident_fp16[resident_kinds], resident_bf16[resident_kinds];

}  // namespace magicube::kronecker_mm::sm80
