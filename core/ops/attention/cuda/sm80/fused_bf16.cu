// SPDX-License-Identifier: Apache-2.0
#include "core/ops/attention/cuda/sm80/fused_kernel.cuh"

namespace magicube::attention::sm80 {

MAGICUBE_FUSED_OF(MAGICUBE_DEFINE_FUSED, bf16)

}  // namespace magicube::attention::sm80
