// SPDX-License-Identifier: Apache-2.0
// SpMM: C = act(scale * (A * B) + beta * C + bias), A sparse (M x K), B and C dense. The exact
// arithmetic: core/ops/epilogue.hpp.
#pragma once

#include <memory>
#include <optional>

#include "core/ops/epilogue.hpp"
#include "core/ops/operands.hpp"
#include "core/ops/plan.hpp"
#include "core/types/pairs.hpp"

namespace magicube::spmm {

// What a plan is made for; the fields of magicubeSpMMProblem_t.
struct problem {
    sr_bcrs_view pattern;  // A
    dtype b_type = dtype::int8;
    order b_order = order::row;
    dtype c_type = dtype::fp32;
    order c_order = order::row;
    int64_t n_min = 1;
    int64_t n_max = 1;
    int64_t batch_count = 1;
    scale_shape a_scale;
    scale_shape b_scale;
    scale_shape bias;
    scale_shape c_scale;
    activation function = activation::none;
    value_mode values = value_mode::fixed;
    const char* implementation = nullptr;

    precision_pair pair() const { return {pattern.type, b_type}; }
};

// What one execution gets. Pointers lie on the context's device, alpha and beta where its pointer
// mode says.
struct arguments {
    const float* alpha = nullptr;  // null: 1
    const float* beta = nullptr;   // null: 0
    dense_view b;
    dense_view c;
    const void* a_values = nullptr;
    const float* a_scale = nullptr;
    const float* b_scale = nullptr;
    const float* bias = nullptr;
    const float* c_scale = nullptr;
    void* workspace = nullptr;
    size_t workspace_size = 0;
};

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

class plan : public plan_of<operation> {
  public:
    using plan_of::plan_of;

    // Repacks values, in A's public layout. For plans with value_mode::updatable.
    virtual void pack_values(const context& ctx, const void* values) = 0;

    // A in the public layout with these values; on the CPU its index arrays can be read. For plans
    // with value_mode::updatable or per_call.
    virtual sr_bcrs_view matrix_with(const void* values) const = 0;
};

void update_values(const context& ctx, plan& plan, const void* values);

// Checks the arguments and computes.
void execute(const context& ctx, const plan& plan, const arguments& arguments);

// The epilogue of one matrix of the batch, read on the CPU.
epilogue read_epilogue(const problem& problem, const arguments& arguments, int64_t batch);

}  // namespace magicube::spmm
