// SPDX-License-Identifier: Apache-2.0
#include "core/prune/algebra.hpp"

#include <algorithm>
#include <cmath>

#include "core/common/checked.hpp"

namespace magicube {
namespace {

constexpr int64_t panel = 64;  // rows of a factor that are computed at once
constexpr int64_t tile = 4;

// A tile of C += factor * A^T B, of at most 4 x 4.
void add_edge(double factor, int64_t depth, const double* a, int64_t lda, int64_t rows,
              const double* b, int64_t ldb, int64_t cols, double* c, int64_t ldc) {
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < cols; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < depth; ++k) sum += a[k * lda + i] * b[k * ldb + j];
            c[i * ldc + j] += factor * sum;
        }
    }
}

// The same for a whole tile: sixteen sums in registers.
void add_tile(double factor, int64_t depth, const double* a, int64_t lda, const double* b,
              int64_t ldb, double* c, int64_t ldc) {
    double sums[tile][tile] = {};
    for (int64_t k = 0; k < depth; ++k) {
        for (int64_t i = 0; i < tile; ++i) {
            for (int64_t j = 0; j < tile; ++j) sums[i][j] += a[k * lda + i] * b[k * ldb + j];
        }
    }
    for (int64_t i = 0; i < tile; ++i) {
        for (int64_t j = 0; j < tile; ++j) c[i * ldc + j] += factor * sums[i][j];
    }
}

// A diagonal block of at most `panel` rows.
int64_t factor_block(double* a, int64_t n, int64_t ld) {
    for (int64_t k = 0; k < n; ++k) {
        double* row = a + k * ld;
        const double pivot = row[k];
        if (!(pivot > 0) || !std::isfinite(pivot)) return k;
        const double scale = 1 / std::sqrt(pivot);
        for (int64_t j = k; j < n; ++j) row[j] *= scale;
        for (int64_t i = k + 1; i < n; ++i) {
            double* below = a + i * ld;
            for (int64_t j = i; j < n; ++j) below[j] -= row[i] * row[j];
        }
    }
    return -1;
}

// B = (U^T)^-1 B for a U of at most `panel` rows and a B of `cols` columns, from the top down.
void solve_panel(const context& ctx, const double* u, int64_t ldu, int64_t n, double* b,
                 int64_t ldb, int64_t cols) {
    ctx.parallel(ceil_div(cols, panel), 1, [&](int64_t begin, int64_t end) {
        const int64_t first = begin * panel;
        const int64_t last = std::min(end * panel, cols);
        for (int64_t i = 0; i < n; ++i) {
            double* row = b + i * ldb;
            for (int64_t k = 0; k < i; ++k) {
                const double* above = b + k * ldb;
                const double factor = u[k * ldu + i];
                for (int64_t j = first; j < last; ++j) row[j] -= factor * above[j];
            }
            const double scale = 1 / u[i * ldu + i];
            for (int64_t j = first; j < last; ++j) row[j] *= scale;
        }
    });
}

}  // namespace

void add_product(const context& ctx, double factor, int64_t depth, const double* a, int64_t lda,
                 int64_t rows, const double* b, int64_t ldb, int64_t cols, double* c, int64_t ldc,
                 part wanted) {
    // A panel of A's four columns stays in the first-level cache while B's passes by.
    const auto add_rows = [&](int64_t i, int64_t k, int64_t length) {
        const int64_t height = std::min(tile, rows - i);
        const double* left = a + k * lda + i;
        int64_t j = 0;
        if (wanted == part::upper) {
            j = i + tile;
            for (int64_t r = 0; r < height; ++r) {
                add_edge(factor, length, left + r, lda, 1, b + k * ldb + i + r, ldb, height - r,
                         c + (i + r) * ldc + i + r, ldc);
            }
        }
        for (; j < cols; j += tile) {
            const int64_t width = std::min(tile, cols - j);
            const double* right = b + k * ldb + j;
            double* target = c + i * ldc + j;
            if (height == tile && width == tile) {
                add_tile(factor, length, left, lda, right, ldb, target, ldc);
            } else {
                add_edge(factor, length, left, lda, height, right, ldb, width, target, ldc);
            }
        }
    };
    ctx.parallel(ceil_div(rows, tile), 8, [&](int64_t begin, int64_t end) {
        for (int64_t k = 0; k < depth; k += panel) {
            for (int64_t i = begin; i < end; ++i) {
                add_rows(i * tile, k, std::min(panel, depth - k));
            }
        }
    });
}

int64_t cholesky(const context& ctx, double* a, int64_t n, int64_t ld) {
    for (int64_t k = 0; k < n; k += panel) {
        const int64_t height = std::min(panel, n - k);
        double* diagonal = a + k * ld + k;
        const int64_t failed = factor_block(diagonal, height, ld);
        if (failed >= 0) return k + failed;
        const int64_t rest = n - k - height;
        double* right = diagonal + height;
        solve_panel(ctx, diagonal, ld, height, right, ld, rest);
        add_product(ctx, -1, height, right, ld, rest, right, ld, rest, right + height * ld, ld,
                    part::upper);
    }
    return -1;
}

void invert_transposed(const context& ctx, const double* u, int64_t n, int64_t ldu, double* x,
                       int64_t ldx) {
    for (int64_t k = 0; k < n; k += panel) {
        const int64_t height = std::min(panel, n - k);
        double* rows = x + k * ldx;
        for (int64_t i = 0; i < height; ++i) {
            std::fill_n(rows + i * ldx, n, 0.0);
            rows[i * ldx + k + i] = 1;
        }
        add_product(ctx, -1, k, u + k, ldu, height, x, ldx, k, rows, ldx);
        solve_panel(ctx, u + k * ldu + k, ldu, height, rows, ldx, k + height);
    }
}

void solve(const double* u, int64_t n, int64_t ld, double* b) {
    for (int64_t i = 0; i < n; ++i) {
        const double* row = u + i * ld;
        b[i] /= row[i];
        for (int64_t j = i + 1; j < n; ++j) b[j] -= row[j] * b[i];
    }
    for (int64_t i = n - 1; i >= 0; --i) {
        const double* row = u + i * ld;
        for (int64_t j = i + 1; j < n; ++j) b[i] -= row[j] * b[j];
        b[i] /= row[i];
    }
}

bool invert(const double* a, int64_t n, double* inverse, double* scratch) {
    context one_thread;
    one_thread.threads = 1;
    double* factor = scratch;
    double* x = scratch + n * n;
    std::copy_n(a, n * n, factor);
    if (cholesky(one_thread, factor, n, n) >= 0) return false;
    invert_transposed(one_thread, factor, n, n, x, n);
    std::fill_n(inverse, n * n, 0.0);
    add_product(one_thread, 1, n, x, n, n, x, n, n, inverse, n);
    return true;
}

}  // namespace magicube
