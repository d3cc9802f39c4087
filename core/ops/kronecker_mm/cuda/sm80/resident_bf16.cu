// SPDX-License-Identifier: Apache-2.0
#include "core/ops/kronecker_mm/cuda/sm80/resident_kernel.cuh"

namespace magicube::kronecker_mm::sm80 {

using operands = bf16_operands;
extern const resident_instance resident_bf16[resident_instances];
const resident_instance resident_bf16[resident_instances] = {
    MAGICUBE_RESIDENT_TILINGS(MAGICUBE_RESIDENT)};

}  // namespace magicube::kronecker_mm::sm80
