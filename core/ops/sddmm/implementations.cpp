// SPDX-License-Identifier: Apache-2.0
#include "core/ops/sddmm/sddmm.hpp"

#define MAGICUBE_KERNELS "core/ops/sddmm/kernels.inc"
namespace magicube::sddmm {
#include "core/ops/implementation_list.inc"
}  // namespace magicube::sddmm
