// SPDX-License-Identifier: Apache-2.0
// The product (core/ops/product.hpp) of an A in V:N:M, n = 2. To a user it is SpMM; here it is an
// operation of its own, for every kernel of SpMM reads an SR-BCRS pattern and none of them could
// take this one.
#pragma once

#include "core/ops/product.hpp"

namespace magicube::vnm_mm {

struct problem : product_problem {
    vnm_view pattern;  // A

    precision_pair pair() const { return {pattern.type, b_type}; }
};

using arguments = product_arguments;

class plan;

struct operation {
    using problem = vnm_mm::problem;
    using arguments = vnm_mm::arguments;
    using plan = vnm_mm::plan;
    static constexpr const char* name = "SpMM of V:N:M";
    static constexpr const char* pattern_name = "problem->A";

    static implementation_list<operation> implementations();
    static void check(const problem& problem);
    static bool packs_values(const problem& problem) {
        return problem.values != value_mode::per_call;
    }
    static std::optional<dense_product> dense_equivalent(const problem& problem);
};

class plan : public product_plan<operation, vnm_view> {
  public:
    using product_plan::product_plan;
};

void update_values(const context& ctx, plan& plan, const void* values);

// Checks the arguments and computes.
void execute(const context& ctx, const plan& plan, const arguments& arguments);

}  // namespace magicube::vnm_mm
