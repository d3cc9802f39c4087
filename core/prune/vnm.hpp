// SPDX-License-Identifier: Apache-2.0
// Pruning to V:N:M (VENOM, arXiv 2310.02065) by magnitude, and what goes with it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/prune/prune.hpp"

namespace magicube {

// n of the columns of each group of m are kept in each row, within the few columns that the rows of
// a row group share.
struct vnm_pattern {
    int32_t vector_length = 64;  // V: rows of a row group
    int32_t n = 2;
    int32_t m = 8;

    // Of a group of so many columns: the last one may be short.
    int64_t kept(int64_t width) const { return std::min<int64_t>(n, width); }
    int64_t budget(int64_t width) const { return std::min<int64_t>(n > 3 ? n + 2 : 4, width); }
};

// Errors name the fields of params.
void require_vnm(const vnm_pattern& pattern);

// Checks the pattern, and returns the bytes of scratch that prune_vnm needs.
size_t prune_vnm_workspace(const context& ctx, const dense_view& weight,
                           const vnm_pattern& pattern);

// mask = 1 in kept elements, else 0.
void prune_vnm(const context& ctx, const dense_view& weight, const vnm_pattern& pattern,
               prune_norm norm, const dense_view& mask, void* workspace, size_t workspace_size);

// Checks of a mask that pruning writes, beside weight.
void check_mask(const dense_view& mask, const dense_view& weight);

// Writes flags of rows x width elements, row after row, to a mask.
void store_flags(const dense_view& mask, int64_t batch, int64_t first_row, int64_t rows,
                 int64_t first_col, int64_t width, const uint8_t* flags);

// Sum of the squares of all elements, or of those where a mask of the same shape is not 0. Does not
// depend on the number of threads.
double sum_of_squares(const context& ctx, const dense_view& matrix,
                      const dense_view* mask = nullptr);

// Sum of squares of the weights where mask is not 0, of that of all; 1 if all are 0.
double kept_energy(const context& ctx, const dense_view& weight, const dense_view& mask);

// schedule[i] for `steps` steps: n of each step on the way from m to n, in equal ratios.
void vnm_schedule(int32_t m, int32_t n, int32_t steps, int32_t* schedule);

}  // namespace magicube
