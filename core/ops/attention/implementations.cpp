// SPDX-License-Identifier: Apache-2.0
#include "core/ops/attention/attention.hpp"

#define MAGICUBE_KERNELS "core/ops/attention/kernels.inc"
namespace magicube::attention {
#include "core/ops/implementation_list.inc"
}  // namespace magicube::attention
