// SPDX-License-Identifier: Apache-2.0
// Random sparsity patterns in SR-BCRS's layout (capi/include/magicube/matrix.h), in host memory.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace bench {

using generator = std::mt19937_64;

enum class row_lengths {
    uniform,   // every vector exists with the same probability
    lognormal  // lengths of block rows vary as exp(normal), the sum stays
};

struct pattern {
    int64_t rows, cols;
    int vector_length, stride;
    std::vector<int64_t> row_begin, row_end;
    std::vector<int32_t> col_indices;

    int64_t block_rows() const { return static_cast<int64_t>(row_begin.size()); }
    int64_t slots() const { return static_cast<int64_t>(col_indices.size()); }
    int64_t vectors() const;
};

struct pattern_shape {
    int64_t rows, cols;
    int vector_length, stride;
    double density;
    row_lengths lengths;
};

pattern make_pattern(const pattern_shape& shape, generator& random);

// Distinct columns of each group of max(V, 8) rows, summed over the groups: how often a kernel
// that shares loads of B inside such a group must read a row of B.
int64_t shared_gathers(const pattern& p);

// Ascending columns, `count` of `cols`, all choices alike.
void append_columns(int64_t count, int64_t cols, generator& random, std::vector<int32_t>& columns);

}  // namespace bench
