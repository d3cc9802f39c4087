// SPDX-License-Identifier: Apache-2.0
// Which elements of a dense matrix are not zero.
#pragma once

#include "core/types/view.hpp"

namespace magicube {

// The bits of an element that make it differ from zero: all but the sign of a float.
constexpr uint32_t nonzero_bits(dtype type) {
    const uint32_t all = ~uint32_t{0} >> (32 - storage_bits(type));
    return is_floating(type) ? all >> 1 : all;
}

// Sets bit r of marks[c], for r < rows (at most 64) and c < cols, where element
// (first_row + r, first_col + c) is not zero, and clears the others. -0 is zero, NaN is not.
void mark_nonzero(const dense_view& matrix, int64_t batch, int64_t first_row, int64_t rows,
                  int64_t first_col, int64_t cols, uint64_t* marks);

}  // namespace magicube
