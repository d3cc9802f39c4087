// SPDX-License-Identifier: Apache-2.0
#include "core/ops/softmax/softmax.hpp"

#define MAGICUBE_KERNELS "core/ops/softmax/kernels.inc"
namespace magicube::softmax {
#include "core/ops/implementation_list.inc"
}  // namespace magicube::softmax
