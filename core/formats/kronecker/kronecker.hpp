// SPDX-License-Identifier: Apache-2.0
// Kronecker-sparse factors and their chains: K = I_a (x) 1_{b x c} (x) I_d with values
// W[a][b][c][d], K[(i*b + j)*d + l, (i*c + k)*d + l] = W[i, j, k, l], and everything else 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/types/view.hpp"

namespace magicube {

struct kronecker_shape {
    int64_t a = 1;
    int64_t b = 1;
    int64_t c = 1;
    int64_t d = 1;

    MAGICUBE_HOST_DEVICE int64_t rows() const { return a * b * d; }
    MAGICUBE_HOST_DEVICE int64_t cols() const { return a * c * d; }
    int64_t value_count() const { return a * b * c * d; }
    int64_t value_index(int64_t i, int64_t j, int64_t k, int64_t l) const {
        return ((i * b + j) * c + k) * d + l;
    }
};

// "(a, b, c, d)"
std::string text_of(const kronecker_shape& shape);

struct kronecker_factor : kronecker_shape {
    void* values = nullptr;  // value_count() elements; null: pattern alone

    kronecker_factor() = default;
    kronecker_factor(const kronecker_shape& shape, void* array)
        : kronecker_shape(shape), values(array) {}
};

// The product of its factors, leftmost first; one factor or more, all of one type.
struct kronecker_view {
    std::vector<kronecker_factor> factors;
    dtype type = dtype::fp32;
    bool read_only = false;
    bool chain = false;  // made as a list of factors, which error messages then name by position

    int64_t rows() const { return factors.front().rows(); }
    int64_t cols() const { return factors.back().cols(); }
    int64_t count() const { return static_cast<int64_t>(factors.size()); }
};

// Sizes at least 1, byte counts within 64 bits, neighbours that fit, alignment: what holds for
// every descriptor from its creation on. Errors name the sizes, in a chain with their position.
void validate_sizes(const kronecker_view& view);

// Throws unless every factor has values.
void require_values(const kronecker_view& view, const char* argument);

// Throws unless there is exactly one factor.
const kronecker_factor& only_factor(const kronecker_view& view, const char* argument);

// What two neighbours are to one another, K = left * right, whose inner sizes agree. Chainable: the
// product is again a Kronecker-sparse factor, `product`, in which every b x c block that belongs
// to one pair of (row residue, column group) has rank `rank`. Redundant: that rank is no
// restriction, so that the pair expresses what one factor does. The definitions of Le, Zheng,
// Riccietti and Gribonval, "Butterfly factorization with error guarantees" (2024).
struct kronecker_pair {
    bool chainable = false;
    bool redundant = false;
    int64_t rank = 0;
    kronecker_shape product;
};

kronecker_pair pair_of(const kronecker_shape& left, const kronecker_shape& right);

// The shape of the product of all factors; throws, naming the position, where two are not
// chainable.
kronecker_shape product_shape(const kronecker_view& view, const char* argument);

// Shapes of well-known chains. Sizes are checked; errors name them.
// 2^log2_size: factors (2^(l-1), 2, 2, 2^(n-l)), l = 1 to n.
std::vector<kronecker_shape> butterfly_shapes(int64_t log2_size);
// (1, rows / step, blocks * rank, step) (blocks, rank * step, cols / blocks, 1): `blocks` blocks of
// columns, `step` residues of rows, and a block of that rank where one meets the other.
std::vector<kronecker_shape> monarch_shapes(int64_t rows, int64_t cols, int64_t blocks,
                                            int64_t step, int64_t rank);

}  // namespace magicube
