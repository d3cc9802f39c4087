// SPDX-License-Identifier: Apache-2.0
// Packing of a factor's values for the resident family, on the device.
#pragma once

#include <cuda_runtime.h>

#include "core/ops/kronecker_mm/cuda/sm80/resident_shape.hpp"

namespace magicube::kronecker_mm::sm80 {

cudaError_t load_pack_values(const resident_shape& shape);
cudaError_t pack_values(const resident_shape& shape, const step& s, const void* values,
                        void* packed, cudaStream_t stream);

}  // namespace magicube::kronecker_mm::sm80
