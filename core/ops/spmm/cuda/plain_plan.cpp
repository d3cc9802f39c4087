// SPDX-License-Identifier: Apache-2.0
// The plain kernel as an implementation of SpMM: the last row of CUDA, which takes every problem.
#include <utility>

#include "core/ops/reference.hpp"
#include "core/ops/spmm/cuda/plain.hpp"

namespace magicube::spmm {
namespace {

class plain_plan final : public stored_plan<operation> {
  public:
    plain_plan(const context& ctx, const spmm::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources), p.values != value_mode::per_call) {
        cuda::load_plain(ctx, p.pattern.type);
    }

    void pack_values(const context& ctx, const void* values) override {
        stored().copy_values(ctx, values);
    }

    sr_bcrs_view matrix_with(const void* values) const override {
        return stored().view_with(values);
    }

    void run(const context& ctx, const arguments& args) const override {
        const bool per_call = problem().values == value_mode::per_call;
        cuda::run_plain(ctx, problem(),
                        per_call ? stored().view_with(args.a_values) : stored().view(), args);
    }
};

// A slot's V values meet one element of B a thread; loads and 64-bit sums bound it.
double plain_cost(const context&, const problem& p) {
    constexpr double products_per_us = 2e6, launch_us = 3;
    return launch_us + static_cast<double>(p.pattern.value_count()) * static_cast<double>(p.n_max) *
                           static_cast<double>(p.batch_count) / products_per_us;
}

buffer_needs plain_needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, p.values != value_mode::per_call).bytes(), 0};
}

}  // namespace

extern const implementation<operation> cuda_plain;
const implementation<operation> cuda_plain = reference_implementation<operation, plain_plan>(
    "plain", device_kind::cuda, plain_cost, plain_needs);

}  // namespace magicube::spmm
