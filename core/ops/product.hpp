// SPDX-License-Identifier: Apache-2.0
// What the products of a sparse by a dense matrix share, whatever the format of A:
// C = act(scale * (A * B) + beta * C + bias), A (M x K), B and C dense. The exact arithmetic:
// core/ops/epilogue.hpp.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/ops/epilogue.hpp"
#include "core/ops/operands.hpp"
#include "core/ops/plan.hpp"
#include "core/types/pairs.hpp"

namespace magicube {

// What a plan is made for, besides A; the fields of magicubeSpMMProblem_t. A problem adds
// `pattern`, the view of A.
struct product_problem {
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
};

// What one execution gets. Pointers lie on the context's device, alpha and beta where its pointer
// mode says.
struct product_arguments {
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

// The rules of a problem that do not depend on the format of A.
void check_product(const product_problem& problem, const sparse_common& a);

// The rules of an execution, but those of the plan itself and of A's values.
void check_product_operands(const context& ctx, const product_problem& problem,
                            const sparse_common& a, const product_arguments& arguments);

// Values for A, in its public layout.
void check_product_values(const context& ctx, const sparse_view& a, const char* argument);

// Refuses to update the values of a plan that was not made for it, and values that the device does
// not reach.
void check_update(const context& ctx, const product_problem& problem, const void* values);

// The epilogue of one matrix of the batch, read on the CPU.
epilogue read_epilogue(const product_problem& problem, const product_arguments& arguments,
                       int64_t batch);

// A plan of a product with an A in the format of View.
template <class Operation, class View>
class product_plan : public plan_of<Operation> {
  public:
    using plan_of<Operation>::plan_of;

    // Repacks values, in A's public layout. For plans with value_mode::updatable.
    virtual void pack_values(const context& ctx, const void* values) = 0;

    // A in the public layout with these values; on the CPU its index arrays can be read. For plans
    // with value_mode::updatable or per_call.
    virtual View matrix_with(const void* values) const = 0;
};

template <class Operation, class View>
void update_product(const context& ctx, product_plan<Operation, View>& plan, const void* values) {
    plan.require_device(ctx);
    check_update(ctx, plan.problem(), values);
    check_product_values(ctx, plan.matrix_with(values), "values");
    plan.pack_values(ctx, values);
}

// Checks the arguments and computes.
template <class Operation, class View>
void execute_product(const context& ctx, const product_plan<Operation, View>& plan,
                     const product_arguments& arguments) {
    const auto& p = plan.problem();
    plan.check_call(ctx, arguments);
    check_product_operands(ctx, p, p.pattern, arguments);
    if (p.values == value_mode::per_call)
        check_product_values(ctx, plan.matrix_with(arguments.a_values), "args->a_values");
    if (!arguments.c.empty()) plan.execute(ctx, arguments);
}

}  // namespace magicube
