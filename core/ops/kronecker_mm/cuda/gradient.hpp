// SPDX-License-Identifier: Apache-2.0
// The CUDA side of kronecker_mm::gradient; its arguments have been checked.
#pragma once

#include "core/ops/kronecker_mm/kronecker_mm.hpp"

namespace magicube::kronecker_mm::cuda {

// x and dy: features x vectors; stream-ordered.
void gradient(const context& ctx, const dense_view& x, const dense_view& dy, dtype target_type,
              const kronecker_factor& target);

}  // namespace magicube::kronecker_mm::cuda
