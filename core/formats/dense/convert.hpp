// SPDX-License-Identifier: Apache-2.0
// Conversions to dense matrices. The result must not share memory with the source.
#pragma once

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"
#include "core/types/view.hpp"

namespace magicube {

// dense = source, absent elements 0.
void sparse_to_dense(const context& ctx, const sparse_view& source, const dense_view& dense);

// mask = 1 where an element of source exists, else 0.
void sparse_to_mask(const context& ctx, const sparse_view& source, const dense_view& mask);

}  // namespace magicube
