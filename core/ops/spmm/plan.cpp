// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/spmm.hpp"

namespace magicube::spmm {

void operation::check(const spmm::problem& p) {
    const auto pair = p.pair();
    if (!contains(spmm_pairs, pair)) {
        fail(status::not_supported, "the types of problem->A and problem->b_type are ",
             name_of(pair.lhs), "/", name_of(pair.rhs), "; supported pairs: ", list_of(spmm_pairs));
    }
    check_product(p, p.pattern);
}

std::optional<dense_product> operation::dense_equivalent(const spmm::problem& p) {
    return dense_product{p.pattern.rows, p.n_max,  p.pattern.cols,
                         p.batch_count,  p.pair(), p.c_type};
}

std::string operation::benchmark(const spmm::problem& p) {
    return text("spmm --m ", p.pattern.rows, " --k ", p.pattern.cols, " --n ", p.n_max, " --lhs ",
                name_of(p.pattern.type), " --rhs ", name_of(p.b_type), " --out ",
                name_of(p.c_type));
}

void update_values(const context& ctx, plan& plan, const void* values) {
    update_product(ctx, plan, values);
}

void execute(const context& ctx, const plan& plan, const arguments& args) {
    execute_product(ctx, plan, args);
}

}  // namespace magicube::spmm
