// SPDX-License-Identifier: Apache-2.0
#include "core/ops/vnm_mm/cuda/sm80/select_kernel.cuh"

namespace magicube::vnm_mm::sm80 {

MAGICUBE_DEFINE_SELECTS(bf16)

}  // namespace magicube::vnm_mm::sm80
