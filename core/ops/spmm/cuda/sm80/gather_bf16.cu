// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cuda/sm80/gather_kernel.cuh"

namespace magicube::spmm::sm80 {

MAGICUBE_GATHERS_BF16(MAGICUBE_DEFINE_GATHER)

}  // namespace magicube::spmm::sm80
