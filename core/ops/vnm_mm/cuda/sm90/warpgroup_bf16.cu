// SPDX-License-Identifier: Apache-2.0
#include "core/ops/vnm_mm/cuda/sm90/warpgroup_kernel.cuh"

namespace magicube::vnm_mm::sm90 {

MAGICUBE_DEFINE_WARPGROUPS(bf16)

}  // namespace magicube::vnm_mm::sm90
