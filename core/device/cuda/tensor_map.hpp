// SPDX-License-Identifier: Apache-2.0
// Descriptors of the tensor copy engine. For .cu files only.
#pragma once

#include <cuda.h>

#include "core/types/view.hpp"

namespace magicube::cuda {

// Of a row-major matrix (or batch) whose base, rows and matrices are aligned to 16 bytes: boxes of
// box_rows x box_cols elements, 128 bytes wide, swizzled by 128 bytes, zeros beyond the edges.
CUtensorMap make_row_map(const dense_view& matrix, int box_cols, int box_rows);

}  // namespace magicube::cuda
