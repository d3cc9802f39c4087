// SPDX-License-Identifier: Apache-2.0
// Rows of dense matrices, whatever their type and order, loaded as and stored from numbers.
#pragma once

#include <cstdint>

#include "core/types/view.hpp"

namespace magicube {

// Loads elements (row, first) to (row, first + count - 1) of a matrix.
void load_row(const dense_view& m, int64_t batch, int64_t row, int64_t first, int64_t count,
              double* out);

// Rounds numbers to a row of a matrix of a floating type. `floats` holds as many.
void store_row(const dense_view& m, int64_t row, const double* numbers, float* floats);

}  // namespace magicube
