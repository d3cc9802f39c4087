// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/common/pointers.hpp"
#include "core/formats/validate.hpp"
#include "core/ops/kronecker_mm/kronecker_mm.hpp"

namespace magicube {

void forget_arrays(kronecker_view& pattern) {
    for (auto& factor : pattern.factors) factor.values = nullptr;
}

std::string benchmark_options(const context&, const kronecker_view&, const char* implementation) {
    return text("--implementation ", implementation);
}

void check_array_places(const context& ctx, const kronecker_view& pattern, const char* argument) {
    if (ctx.on_cpu()) return;
    for (int64_t i = 0; i < pattern.count(); ++i) {
        require_reachable(ctx, pattern.factors[static_cast<size_t>(i)].values,
                          text(argument, "'s values[", i, ']').c_str());
    }
}

void check_sparse_arrays(const context& ctx, const kronecker_view& pattern, const void*,
                         bool values, const char* argument) {
    if (values) require_values(pattern, argument);
    check_array_places(ctx, pattern, argument);
}

namespace kronecker_mm {
namespace {

void check_types(const problem& p) {
    const dtype type = p.pattern.type;
    const bool known =
        type == dtype::fp32 || type == dtype::fp16 || type == dtype::bf16 || type == dtype::int8;
    require(known, status::not_supported, "the type of problem->K is ", name_of(type),
            "; it must be fp32, fp16, bf16 or int8");
    require(is_product_output(type, p.y_type, false), status::not_supported, "problem->y_type is ",
            name_of(p.y_type), "; Y of ", name_of(type), " is ", is_integer(type) ? "int32, " : "",
            "fp32, fp16, bf16 or int8");
    require(is_floating(type) || p.pattern.count() == 1, status::not_supported,
            "problem->K is a chain of ", p.pattern.count(), " factors of ", name_of(type),
            "; chains are of floating types, for what passes between integer factors has no scale");
}

void check_int32_output(const problem& p) {
    if (p.y_type != dtype::int32) return;
    const bool plain = !p.k_scale.present() && !p.x_scale.present() && !p.bias.present() &&
                       p.function == activation::none;
    require(plain, status::not_supported,
            "problem->y_type is int32, which takes no scale, bias or activation; use fp32");
}

void check_int32_scalars(const context& ctx, const plan& plan, const arguments& args) {
    if (plan.problem().y_type != dtype::int32) return;
    require(ctx.scalars == pointer_mode::host || (!args.alpha && !args.beta), status::not_supported,
            "alpha and beta lie on the device; for Y of int32 they must be in host memory");
    const float alpha = read_scalar(args.alpha, 1);
    const float beta = read_scalar(args.beta, 0);
    require(alpha == 1, status::not_supported, "alpha is ", alpha, "; for Y of int32 it must be 1");
    require(beta == 0 || beta == 1, status::not_supported, "beta is ", beta,
            "; for Y of int32 it must be 0 or 1");
}

void check_values(const kronecker_view& pattern, const void* const* values, const char* argument) {
    require_value(values != nullptr, argument, " is null; it must hold ", pattern.count(),
                  " pointers");
    for (int64_t i = 0; i < pattern.count(); ++i) {
        check_value_array(values[i], pattern.type,
                          pattern.factors[static_cast<size_t>(i)].value_count(),
                          text(argument, '[', i, ']').c_str());
    }
}

dense_expectation expected(const problem& p, int64_t features, int64_t n, dtype type,
                           order storage) {
    const bool first = p.layout == batch_layout::first;
    return {type, storage, first ? n : features, first ? features : n, p.batch_count};
}

void check_arguments(const context& ctx, const plan& plan, const arguments& args) {
    const auto& p = plan.problem();
    plan.check_call(ctx, args);
    const bool first = p.layout == batch_layout::first;
    const int64_t n = first ? args.x.rows : args.x.cols;
    check_in_range(n, p.n_min, p.n_max, first ? "X's number of rows" : "X's number of columns");
    check_dense(args.x, expected(p, p.k(), n, p.pattern.type, p.x_order), "X");
    check_dense(args.y, expected(p, p.m(), n, p.y_type, p.y_order), "Y");
    check_no_overlap(args.y, "Y", args.x, "X");
    check_int32_scalars(ctx, plan, args);
    check_scales(ctx, p.k_scale, args.k_scale, p.m(), p.batch_count, "args->k_scale");
    check_scales(ctx, p.x_scale, args.x_scale, n, p.batch_count, "args->x_scale");
    check_summands(p.bias, args.bias, p.m(), p.batch_count, "args->bias");
    check_scales(ctx, p.y_scale, args.y_scale, 1, p.batch_count, "args->y_scale", true);
    if (p.values == value_mode::per_call) check_values(p.pattern, args.k_values, "args->k_values");
}

}  // namespace

void operation::check(const kronecker_mm::problem& p) {
    check_types(p);
    check_range(p.n_min, p.n_max, "n");
    require_value(p.batch_count >= 0, "problem->batch_count is ", p.batch_count,
                  "; it must be at least 0");
    check_scale_shape(p.k_scale, {granularity::tensor, granularity::row}, p.batch_count,
                      "problem->k_scale");
    check_scale_shape(p.x_scale, {granularity::tensor, granularity::col}, p.batch_count,
                      "problem->x_scale");
    check_scale_shape(p.bias, {granularity::row}, p.batch_count, "problem->bias");
    check_scale_shape(p.y_scale, {granularity::tensor}, p.batch_count, "problem->y_scale");
    check_int32_output(p);
    require_value(!p.y_scale.present() || p.y_type == dtype::int8,
                  "problem->y_scale is TENSOR; only Y of int8 has a scale, and problem->y_type is ",
                  name_of(p.y_type));
}

std::optional<dense_product> operation::dense_equivalent(const kronecker_mm::problem& p) {
    return dense_product{p.m(),   p.n_max, p.k(), p.batch_count, {p.pattern.type, p.pattern.type},
                         p.y_type};
}

void update_values(const context& ctx, plan& plan, const void* const* values) {
    plan.require_device(ctx);
    require(plan.problem().values == value_mode::updatable, status::not_supported,
            "plan was not made with problem->value_mode MAGICUBE_VALUES_UPDATABLE");
    check_values(plan.problem().pattern, values, "values");
    plan.pack_values(ctx, values);
}

void execute(const context& ctx, const plan& plan, const arguments& args) {
    check_arguments(ctx, plan, args);
    if (!args.y.empty()) plan.execute(ctx, args);
}

epilogue read_epilogue(const problem& p, const arguments& args, int64_t batch) {
    epilogue result;
    result.alpha = read_scalar(args.alpha, 1);
    result.beta = read_scalar(args.beta, 0);
    result.a_scale = read_scales(p.k_scale, args.k_scale, batch);
    result.b_scale = read_scales(p.x_scale, args.x_scale, batch);
    result.bias = read_scales(p.bias, args.bias, batch, 0);
    result.function = p.function;
    if (p.y_scale.present()) {
        result.reciprocal = div_rn(1.0f, read_scales(p.y_scale, args.y_scale, batch)[0]);
    }
    return result;
}

step step_of(const kronecker_shape& shape, int64_t first, int64_t last, bool transpose) {
    step result;
    static_cast<kronecker_shape&>(result) = shape;
    result.first = first;
    result.last = last;
    result.j_step = shape.c * shape.d;
    result.k_step = shape.d;
    if (transpose) {
        std::swap(result.b, result.c);
        std::swap(result.j_step, result.k_step);
    }
    return result;
}

std::vector<step> steps_of(const kronecker_view& view, bool transpose) {
    std::vector<step> steps;
    for (int64_t i = 0; i < view.count(); ++i)
        steps.push_back(step_of(view.factors[static_cast<size_t>(i)], i, i + 1, transpose));
    // K = K_1 ... K_L applies the last factor first, K^T the first.
    if (!transpose) std::reverse(steps.begin(), steps.end());
    return steps;
}

}  // namespace kronecker_mm
}  // namespace magicube
