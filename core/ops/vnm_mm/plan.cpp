// SPDX-License-Identifier: Apache-2.0
#include "core/ops/vnm_mm/vnm_mm.hpp"

namespace magicube::vnm_mm {

void operation::check(const vnm_mm::problem& p) {
    const auto pair = p.pair();
    if (!contains(vnm_pairs, pair)) {
        fail(status::not_supported, "the types of problem->A and problem->b_type are ",
             name_of(pair.lhs), "/", name_of(pair.rhs),
             "; supported pairs with a V:N:M matrix: ", list_of(vnm_pairs));
    }
    require(p.pattern.n == 2, status::not_supported, "problem->A is ", p.pattern.vector_length, ":",
            p.pattern.n, ":", p.pattern.m, "; products take n = 2, other n are storage only");
    check_product(p, p.pattern);
}

std::optional<dense_product> operation::dense_equivalent(const vnm_mm::problem& p) {
    return dense_product{p.pattern.rows, p.n_max,  p.pattern.cols,
                         p.batch_count,  p.pair(), p.c_type};
}

void update_values(const context& ctx, plan& plan, const void* values) {
    update_product(ctx, plan, values);
}

void execute(const context& ctx, const plan& plan, const arguments& args) {
    execute_product(ctx, plan, args);
}

}  // namespace magicube::vnm_mm
