// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/spmm.hpp"

#define MAGICUBE_KERNELS "core/ops/spmm/kernels.inc"
namespace magicube::spmm {
#include "core/ops/implementation_list.inc"
}  // namespace magicube::spmm
