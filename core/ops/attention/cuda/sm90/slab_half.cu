// SPDX-License-Identifier: Apache-2.0
#include "core/ops/attention/cuda/sm90/slab_kernel.cuh"

namespace magicube::attention::sm90 {

MAGICUBE_DEFINE_ATTENTION_SLAB(fp16, 64)
MAGICUBE_DEFINE_ATTENTION_SLAB(bf16, 64)

}  // namespace magicube::attention::sm90
