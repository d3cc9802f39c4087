// SPDX-License-Identifier: Apache-2.0
// The one place that decomposes matrices: truncated singular value decompositions, in fp64.
#pragma once

#include <cstdint>

namespace magicube {

// left * right, of rows x rank and rank x cols, becomes the matrix of rank at most `rank` that is
// nearest to block (Eckart, Young, Mirsky). All are row-major without gaps; block is finite. The
// columns of left are orthonormal, but for zeros past min(rows, cols). Returns the square of the
// error's Frobenius norm.
double best_low_rank(const double* block, int64_t rows, int64_t cols, int64_t rank, double* left,
                     double* right);

}  // namespace magicube
