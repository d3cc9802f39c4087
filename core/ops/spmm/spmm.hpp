// SPDX-License-Identifier: Apache-2.0
// SpMM: the product (core/ops/product.hpp) of an A in SR-BCRS, or in CSR, which is seen as such.
#pragma once

#include "core/ops/product.hpp"

namespace magicube::spmm {

struct problem : product_problem {
    sr_bcrs_view pattern;  // A
    // Every row has two elements in each four slots of a block row, as the element mask says: what
    // an A in V:N:M becomes for cpu_simd.
    bool two_of_four = false;

    precision_pair pair() const { return {pattern.type, b_type}; }
};

using arguments = product_arguments;

class plan;

struct operation {
    using problem = spmm::problem;
    using arguments = spmm::arguments;
    using plan = spmm::plan;
    static constexpr const char* name = "SpMM";
    static constexpr const char* pattern_name = "problem->A";

    static implementation_list<operation> implementations();
    static void check(const problem& problem);
    static bool packs_values(const problem& problem) {
        return problem.values != value_mode::per_call;
    }
    static std::optional<dense_product> dense_equivalent(const problem& problem);
    static std::string benchmark(const problem& problem);
};

class plan : public product_plan<operation, sr_bcrs_view> {
  public:
    using product_plan::product_plan;
};

void update_values(const context& ctx, plan& plan, const void* values);

// Checks the arguments and computes.
void execute(const context& ctx, const plan& plan, const arguments& arguments);

}  // namespace magicube::spmm
