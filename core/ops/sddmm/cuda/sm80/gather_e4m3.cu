// SPDX-License-Identifier: Apache-2.0
#include "core/ops/sddmm/cuda/sm80/gather_kernel.cuh"

namespace magicube::sddmm::sm80 {

MAGICUBE_DEFINE_GATHER(e4m3, 1)

}  // namespace magicube::sddmm::sm80
