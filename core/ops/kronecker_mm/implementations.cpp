// SPDX-License-Identifier: Apache-2.0
#include "core/ops/kronecker_mm/kronecker_mm.hpp"

#define MAGICUBE_KERNELS "core/ops/kronecker_mm/kernels.inc"
namespace magicube::kronecker_mm {
#include "core/ops/implementation_list.inc"
}  // namespace magicube::kronecker_mm
