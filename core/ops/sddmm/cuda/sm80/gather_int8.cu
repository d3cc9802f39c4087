// SPDX-License-Identifier: Apache-2.0
#include "core/ops/sddmm/cuda/sm80/gather_kernel.cuh"

namespace magicube::sddmm::sm80 {

MAGICUBE_GATHERS_OF(MAGICUBE_DEFINE_GATHER, int8)

}  // namespace magicube::sddmm::sm80
