// SPDX-License-Identifier: Apache-2.0
// Contents of index arrays in the memory of a GPU, checked on the host: for callers who ask for
// full validation, not for speed. Waits for the stream.
#pragma once

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"

namespace magicube::cuda {

// validate_pattern and validate_values of a copy in host memory; without values only the first.
void validate_copy(const context& ctx, const sparse_view& matrix, bool values,
                   const char* argument);

}  // namespace magicube::cuda
