// SPDX-License-Identifier: Apache-2.0
// Which elements of a dense matrix are not zero.
#pragma once

#include "core/types/view.hpp"

namespace magicube {

// Sets bit r of marks[c], for r < rows (at most 64) and c < cols, where element
// (first_row + r, first_col + c) is not zero, and clears the others. -0 is zero, NaN is not.
void mark_nonzero(const dense_view& matrix, int64_t batch, int64_t first_row, int64_t rows,
                  int64_t first_col, int64_t cols, uint64_t* marks);

}  // namespace magicube
