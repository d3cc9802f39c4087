// SPDX-License-Identifier: Apache-2.0
// The two forms of second-order pruning, of arguments that are checked. Both go through the groups
// of a row group from left to right and choose in each with what is still free to make up for it.
#pragma once

#include "core/prune/obs_group.hpp"
#include "core/types/rows.hpp"

namespace magicube {

// Layer-wise (OBC): one curvature for all rows, from layer inputs or given.
int64_t layer_form_bytes(const context& ctx, const dense_view& weight, const obs_params& params);
void prune_layer_form(const context& ctx, const obs_operands& operands, const obs_params& params,
                      void* workspace);

// Block Fisher (optimal BERT surgeon): one curvature a row, of blocks of columns, from gradients.
int64_t fisher_form_bytes(const context& ctx, const dense_view& weight, const dense_view& gradients,
                          const obs_params& params);
void prune_fisher_form(const context& ctx, const obs_operands& operands, const obs_params& params,
                       void* workspace);

// Where a layer's rows and columns are cut.
struct obs_cut {
    const dense_view& weight;
    const vnm_pattern& pattern;

    int64_t row_groups() const { return ceil_div(weight.rows, pattern.vector_length); }
    int64_t most_rows() const { return std::min<int64_t>(pattern.vector_length, weight.rows); }
    int64_t most_cols() const { return std::min<int64_t>(pattern.m, weight.cols); }
    int64_t first_row(int64_t group) const { return group * pattern.vector_length; }
    int64_t rows(int64_t group) const {
        return std::min(most_rows(), weight.rows - first_row(group));
    }
    int64_t width(int64_t first_col) const {
        return std::min(most_cols(), weight.cols - first_col);
    }
};

}  // namespace magicube
