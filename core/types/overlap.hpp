// SPDX-License-Identifier: Apache-2.0
// Whether matrices share memory.
#pragma once

#include "core/types/view.hpp"

namespace magicube {

// Whether two matrices or batches surely share memory. Exact where the stored lines of each lie at
// one distance from one another: single matrices, batches without gaps between their matrices,
// batches whose matrices lie side by side in the lines of a larger one, batches of one-line
// matrices. Of other batches only the first matrices are compared.
bool surely_overlap(const dense_view& a, const dense_view& b);

// Throws if an output surely shares memory with an input.
void check_no_overlap(const dense_view& output, const char* output_name, const dense_view& input,
                      const char* input_name);

// An array of `count` elements as a matrix of one row.
dense_view array_view(const void* data, dtype type, int64_t count);

}  // namespace magicube
