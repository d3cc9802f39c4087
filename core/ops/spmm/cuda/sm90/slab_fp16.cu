// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cuda/sm90/slab_kernel.cuh"

namespace magicube::spmm::sm90 {

MAGICUBE_SLABS_FP16(MAGICUBE_DEFINE_SLAB_LAUNCH)

}  // namespace magicube::spmm::sm90
