// SPDX-License-Identifier: Apache-2.0
// What both kinds of projection do with their arguments.
#pragma once

#include <vector>

#include "core/project/project.hpp"

namespace magicube {

// weight is one finite matrix in host memory.
void check_weight(const context& ctx, const dense_view& weight);

// A positive number a column; throws where what is given does not fit `cols` columns.
std::vector<double> read_weights(const context& ctx, const column_weights& weights, int64_t cols);

// Throws if a number of the array is too large for a floating type.
void require_fits(const std::vector<double>& numbers, dtype type, const char* argument);

// The sum of per-row partial sums, in row order, so that threads do not show in it.
double sum_of(const std::vector<double>& partial);

}  // namespace magicube
