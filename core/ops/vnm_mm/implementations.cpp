// SPDX-License-Identifier: Apache-2.0
#include "core/ops/vnm_mm/vnm_mm.hpp"

#define MAGICUBE_KERNELS "core/ops/vnm_mm/kernels.inc"
namespace magicube::vnm_mm {
#include "core/ops/implementation_list.inc"
}  // namespace magicube::vnm_mm
