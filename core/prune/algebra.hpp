// SPDX-License-Identifier: Apache-2.0
// Dense algebra of second-order pruning, in fp64. Matrices are row-major and square unless said;
// `ld` is the distance of their rows.
#pragma once

#include <cstdint>

#include "core/device/context.hpp"

namespace magicube {

// Which part of a product is wanted.
enum class part { all, upper };

// C += factor * A^T B for A of depth x rows and B of depth x cols. With part::upper, of a square C,
// nothing below the diagonal is written.
void add_product(const context& ctx, double factor, int64_t depth, const double* a, int64_t lda,
                 int64_t rows, const double* b, int64_t ldb, int64_t cols, double* c, int64_t ldc,
                 part wanted = part::all);

// Replaces the upper triangle of a symmetric A by U with A = U^T U; nothing below the diagonal is
// read or written. Returns -1, or the column at which A turns out not to be positive definite.
int64_t cholesky(const context& ctx, double* a, int64_t n, int64_t ld);

// X = (U^T)^-1, lower triangular with zeros above, for the U of cholesky.
void invert_transposed(const context& ctx, const double* u, int64_t n, int64_t ldu, double* x,
                       int64_t ldx);

// b = (U^T U)^-1 b for the U of cholesky.
void solve(const double* u, int64_t n, int64_t ld, double* b);

// inverse = A^-1 for a symmetric A of which the upper triangle is read, both with ld = n. scratch
// holds 2 n^2 numbers. False if A is not positive definite.
bool invert(const double* a, int64_t n, double* inverse, double* scratch);

}  // namespace magicube
