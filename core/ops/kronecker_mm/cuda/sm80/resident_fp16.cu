// SPDX-License-Identifier: Apache-2.0
#include "core/ops/kronecker_mm/cuda/sm80/resident_kernel.cuh"

namespace magicube::kronecker_mm::sm80 {

MAGICUBE_DEFINE_RESIDENT(fp16)

}  // namespace magicube::kronecker_mm::sm80
