// SPDX-License-Identifier: Apache-2.0
// One product to time: C (m x n) = A (m x k, sparse) times B (k x n).
#pragma once

#include <string>

#include "common.hpp"
#include "pattern.hpp"

namespace bench {

struct spmm_case {
    int64_t m = 4096, k = 4096, n = 4096;
    int vector_length = 8;
    int stride = 0;  // 0: the default of the vector length and type
    int group = 0;   // columns of a group of V:N:M, of which a row keeps two; 0: SR-BCRS
    double sparsity = 0.9;
    magicubeDataType_t lhs = MAGICUBE_INT8, rhs = MAGICUBE_INT8, out = MAGICUBE_INT32;
    magicubeOrder_t b_order = MAGICUBE_ORDER_ROW, c_order = MAGICUBE_ORDER_ROW;
    row_lengths lengths = row_lengths::uniform;
    bool scales = false;     // one a row of A and one a column of B
    int64_t ld_padding = 0;  // elements between the end of a row (or column) and the next
    std::string implementation;
    uint64_t seed = 1;

    bool is_vnm() const { return group != 0; }
    const char* operation() const { return is_vnm() ? "vnm" : "spmm"; }

    // What other types, layouts and patterns are compared with: the plain case of the same size.
    spmm_case baseline() const {
        spmm_case plain;
        plain.m = round_up(m, 16);
        plain.k = round_up(k, 16);
        plain.n = round_up(n, 16);
        plain.vector_length = vector_length;
        plain.sparsity = sparsity;
        plain.seed = seed;
        return plain;
    }
};

inline const char* order_name(magicubeOrder_t order) {
    return order == MAGICUBE_ORDER_ROW ? "row" : "col";
}

}  // namespace bench
