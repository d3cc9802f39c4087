// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cuda/sm90/resident_kernel.cuh"

namespace magicube::spmm::sm90 {

MAGICUBE_RESIDENTS_FP16(MAGICUBE_DEFINE_RESIDENT)

}  // namespace magicube::spmm::sm90
