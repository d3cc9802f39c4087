// SPDX-License-Identifier: Apache-2.0
// Products with a Kronecker-sparse factor or chain K: Y = act(scale * (K * X) + beta * Y + bias) of
// vectors that are the columns of X (batch last) or, as X * K^T, its rows (batch first). The exact
// arithmetic: core/ops/epilogue.hpp, with K as its A and X, a column a vector, as its B.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/formats/kronecker/kronecker.hpp"
#include "core/ops/epilogue.hpp"
#include "core/ops/operands.hpp"
#include "core/ops/plan.hpp"
#include "core/ops/unpack.hpp"

namespace magicube {

// What plan.hpp asks of a sparse operand.
void forget_arrays(kronecker_view& pattern);
std::string benchmark_options(const context& ctx, const kronecker_view& pattern,
                              const char* implementation);
void check_array_places(const context& ctx, const kronecker_view& pattern, const char* argument);
void check_sparse_arrays(const context& ctx, const kronecker_view& pattern, const void* given,
                         bool values, const char* argument);

namespace kronecker_mm {

// Same numbers as magicubeBatchLayout_t; capi asserts it.
enum class batch_layout : int { first = 1, last = 2 };

// What a plan is made for; the fields of magicubeKroneckerMMProblem_t. X has K's type.
struct problem {
    kronecker_view pattern;  // K
    bool transpose = false;  // K^T in place of K
    batch_layout layout = batch_layout::first;
    order x_order = order::row;
    dtype y_type = dtype::fp32;
    order y_order = order::row;
    int64_t n_min = 1;  // vectors
    int64_t n_max = 1;
    int64_t batch_count = 1;  // of X and Y; one K serves all
    scale_shape k_scale;
    scale_shape x_scale;
    scale_shape bias;
    scale_shape y_scale;
    activation function = activation::none;
    value_mode values = value_mode::fixed;
    const char* implementation = nullptr;

    // Features of a result and of an operand.
    int64_t m() const { return transpose ? pattern.cols() : pattern.rows(); }
    int64_t k() const { return transpose ? pattern.rows() : pattern.cols(); }
};

// What one execution gets.
struct arguments {
    const float* alpha = nullptr;  // null: 1
    const float* beta = nullptr;   // null: 0
    dense_view x;
    dense_view y;
    const void* const* k_values = nullptr;  // one array a factor
    const float* k_scale = nullptr;
    const float* x_scale = nullptr;
    const float* bias = nullptr;
    const float* y_scale = nullptr;
    void* workspace = nullptr;
    size_t workspace_size = 0;
};

class plan;

struct operation {
    using problem = kronecker_mm::problem;
    using arguments = kronecker_mm::arguments;
    using plan = kronecker_mm::plan;
    static constexpr const char* name = "KroneckerMM";
    static constexpr const char* pattern_name = "problem->K";

    static implementation_list<operation> implementations();
    static void check(const problem& problem);
    static bool packs_values(const problem& problem) {
        return problem.values != value_mode::per_call;
    }
    static std::optional<dense_product> dense_equivalent(const problem& problem);
    static std::string benchmark(const problem&) { return {}; }
};

class plan : public plan_of<operation> {
  public:
    using plan_of::plan_of;

    // Repacks values, one array a factor. For plans with value_mode::updatable.
    virtual void pack_values(const context& ctx, const void* const* values) = 0;
};

void update_values(const context& ctx, plan& plan, const void* const* values);

// Checks the arguments and computes.
void execute(const context& ctx, const plan& plan, const arguments& arguments);

// The epilogue of one matrix of the batch, read on the CPU.
epilogue read_epilogue(const problem& problem, const arguments& arguments, int64_t batch);

// X or Y seen as features x vectors, whatever the layout.
inline dense_view as_columns(const dense_view& view, batch_layout layout) {
    return layout == batch_layout::last ? view : transposed(view);
}

// One factor as it is applied: y[(i*b + j)*d + l] = sum over k of W(i, j, k, l) * x[(i*c + k)*d +
// l], b outputs and c inputs, whether transposed or not.
struct step : kronecker_shape {
    int64_t first = 0;  // factors [first, last) of the chain, merged if there are several
    int64_t last = 1;
    int64_t j_step = 0;  // between values
    int64_t k_step = 0;

    MAGICUBE_HOST_DEVICE int64_t index(int64_t i, int64_t j, int64_t k, int64_t l) const {
        return i * b * c * d + j * j_step + k * k_step + l;
    }
};

// A factor, or the product of neighbours, as a step.
step step_of(const kronecker_shape& shape, int64_t first, int64_t last, bool transpose);

// Every factor of the chain as a step, that which is applied first in front.
std::vector<step> steps_of(const kronecker_view& view, bool transpose);

// gradient = the derivative of sum(dY * (K X)) by K's values: sum over vectors of dY[(i*b + j)*d +
// l] * X[(i*c + k)*d + l], summed in fp64 and rounded once to the factor's type.
void gradient(const context& ctx, const dense_view& x, const dense_view& dy, batch_layout layout,
              const kronecker_view& gradient);

}  // namespace kronecker_mm
}  // namespace magicube
