// SPDX-License-Identifier: Apache-2.0
// Conversions to dense matrices on CUDA. Arguments are checked but for where pointers lie.
// Stream-ordered.
#pragma once

#include "core/formats/dense/convert.hpp"

namespace magicube::cuda {

void sparse_to_dense(const context& ctx, const sparse_view& source, const dense_view& dense);
void sparse_to_mask(const context& ctx, const sparse_view& source, const dense_view& mask);

}  // namespace magicube::cuda
