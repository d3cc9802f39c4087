// SPDX-License-Identifier: Apache-2.0
#include "core/ops/attention/cuda/sm90/slab_kernel.cuh"

namespace magicube::attention::sm90 {

MAGICUBE_DEFINE_ATTENTION_SLAB(int8, 64)
MAGICUBE_DEFINE_ATTENTION_SLAB(int8, 128)

}  // namespace magicube::attention::sm90
