// SPDX-License-Identifier: Apache-2.0
// The libraries that the product is compared with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "../own_product.hpp"
#include "../stopwatch.hpp"

namespace bench {

struct peer_products {
    std::vector<side> sides;
    std::vector<std::pair<std::string, std::string>> missing;  // name and reason
};

// The peers whose name contains one of the parts, each with its fastest algorithm.
peer_products make_peers(const session& s, const spmm_case& c, const sparse_data& a, bool cold,
                         const std::vector<std::string>& parts, stopwatch& watch);

// The candidates of one peer. Operands are dense for cuBLASLt, whose layouts are those it is
// fastest with; fp16 for cuSPARSE.
std::vector<side> cublaslt_int8(const session& s, const spmm_case& c, bool cold);
std::vector<side> cublaslt_fp16(const session& s, const spmm_case& c, bool cold);

// The pattern itself.
std::vector<side> cusparse_csr(const session& s, const spmm_case& c, const pattern& a, bool cold);
// Square blocks of the vector length (8 at the least), as many nonzeros, at random places: these
// formats cannot hold column vectors without filling them up to blocks.
std::vector<side> cusparse_bsr(const session& s, const spmm_case& c, bool cold);
std::vector<side> cusparse_blocked_ell(const session& s, const spmm_case& c, bool cold);

// A matrix of 2:4, which is what V:N:M becomes with groups of four columns, pruned from random
// elements; int8 to int32 if the case's elements are int8, fp16 otherwise.
std::vector<side> cusparselt(const session& s, const spmm_case& c, bool cold);

}  // namespace bench
