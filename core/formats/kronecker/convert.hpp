// SPDX-License-Identifier: Apache-2.0
// Conversions of Kronecker-sparse factors and chains, on the CPU. No result shares memory with a
// source.
#pragma once

#include "core/device/context.hpp"
#include "core/formats/csr/convert.hpp"
#include "core/formats/kronecker/kronecker.hpp"
#include "core/formats/sparse.hpp"

namespace magicube {

// dense = K. One factor: element for element; a chain: the products are summed in fp64 and rounded
// once, to a floating type.
void kronecker_to_dense(const context& ctx, const kronecker_view& source, const dense_view& dense);

// The values of one factor; elements of dense outside the factor's support must be 0.
void dense_to_kronecker(const context& ctx, const dense_view& dense, const kronecker_view& target);

// One factor as CSR with all a * b * c * d entries, zeros included: c in each row.
void kronecker_to_csr(const context& ctx, const kronecker_view& source, const csr_target& target);

// The values of one factor; entries outside its support must be 0, absent ones inside become 0.
void csr_to_kronecker(const context& ctx, const csr_view& source, const kronecker_view& target);

// The product of all factors, neighbours chainable, as one factor of product_shape(chain). Summed
// in fp64 and rounded once.
void multiply_factors(const context& ctx, const kronecker_view& chain,
                      const kronecker_view& product);

// The same in memory of one's own; `left` and `right` are chainable and hold fp64.
std::vector<double> multiply_pair(const kronecker_shape& left, const double* left_values,
                                  const kronecker_shape& right, const double* right_values);

// Writes [[1, 1], [1, -1]] * scale into every 2 x 2 block of every factor, all of which must have
// b = c = 2. With the shapes of butterfly_shapes the product is the Hadamard matrix of Sylvester
// times scale^n.
void fill_hadamard(const context& ctx, const kronecker_view& chain, float scale);

}  // namespace magicube
