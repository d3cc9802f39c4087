// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/common/pointers.hpp"
#include "core/formats/validate.hpp"
#include "core/ops/spmm/spmm.hpp"

namespace magicube::spmm {
namespace {

void check_types(const problem& p) {
    const auto pair = p.pair();
    if (!contains(spmm_pairs, pair)) {
        fail(status::not_supported, "the types of problem->A and problem->b_type are ",
             name_of(pair.lhs), "/", name_of(pair.rhs), "; supported pairs: ", list_of(spmm_pairs));
    }
    require(is_product_output(pair.lhs, p.c_type, false), status::not_supported,
            "problem->c_type is ", name_of(p.c_type), "; C of ", name_of(pair.lhs), "/",
            name_of(pair.rhs), " is ", is_integer(pair.lhs) ? "int32, " : "",
            "fp32, fp16, bf16 or int8");
}

void check_int32_output(const problem& p) {
    if (p.c_type != dtype::int32) return;
    const bool plain = !p.a_scale.present() && !p.b_scale.present() && !p.bias.present() &&
                       p.function == activation::none;
    require(plain, status::not_supported,
            "problem->c_type is int32, which takes no scale, bias or activation; use fp32");
}

void check_values(const context& ctx, const plan& plan, const void* values, const char* argument) {
    const auto a = plan.matrix_with(values);
    check_value_array(values, a.type, a.batch_count == 0 ? 0 : a.value_count(), argument);
    if (ctx.validates()) validate_values(ctx, a, argument);
}

void check_int32_scalars(const context& ctx, const plan& plan, const arguments& args) {
    if (plan.problem().c_type != dtype::int32) return;
    require(ctx.scalars == pointer_mode::host || (!args.alpha && !args.beta), status::not_supported,
            "alpha and beta lie on the device; for C of int32 they must be in host memory");
    const float alpha = read_scalar(args.alpha, 1);
    const float beta = read_scalar(args.beta, 0);
    require(alpha == 1, status::not_supported, "alpha is ", alpha, "; for C of int32 it must be 1");
    require(beta == 0 || beta == 1, status::not_supported, "beta is ", beta,
            "; for C of int32 it must be 0 or 1");
}

void check_arguments(const context& ctx, const plan& plan, const arguments& args) {
    const auto& p = plan.problem();
    plan.check_call(ctx, args);
    const int64_t m = p.pattern.rows;
    const int64_t n = args.b.cols;
    check_in_range(n, p.n_min, p.n_max, "B's number of columns");
    check_dense(args.b, {p.b_type, p.b_order, p.pattern.cols, n, p.batch_count}, "B");
    check_dense(args.c, {p.c_type, p.c_order, m, n, p.batch_count}, "C");
    check_no_overlap(args.c, "C", args.b, "B");
    check_int32_scalars(ctx, plan, args);
    check_scales(ctx, p.a_scale, args.a_scale, m, p.batch_count, "args->a_scale");
    check_scales(ctx, p.b_scale, args.b_scale, n, p.batch_count, "args->b_scale");
    check_summands(p.bias, args.bias, m, p.batch_count, "args->bias");
    check_scales(ctx, p.c_scale, args.c_scale, 1, p.batch_count, "args->c_scale", true);
    if (p.values == value_mode::per_call) {
        check_values(ctx, plan, args.a_values, "args->a_values");
    }
}

}  // namespace

void operation::check(const spmm::problem& p) {
    check_types(p);
    check_range(p.n_min, p.n_max, "n");
    check_batch(p.batch_count, p.pattern, "problem->A");
    check_scale_shape(p.a_scale, {granularity::tensor, granularity::row}, p.batch_count,
                      "problem->a_scale");
    check_scale_shape(p.b_scale, {granularity::tensor, granularity::col}, p.batch_count,
                      "problem->b_scale");
    check_scale_shape(p.bias, {granularity::row}, p.batch_count, "problem->bias");
    check_scale_shape(p.c_scale, {granularity::tensor}, p.batch_count, "problem->c_scale");
    check_int32_output(p);
    require_value(!p.c_scale.present() || p.c_type == dtype::int8,
                  "problem->c_scale is TENSOR; only C of int8 has a scale, and problem->c_type is ",
                  name_of(p.c_type));
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
    plan.require_device(ctx);
    require(plan.problem().values == value_mode::updatable, status::not_supported,
            "plan was not made with problem->value_mode MAGICUBE_VALUES_UPDATABLE");
    if (values) require_reachable(ctx, values, "values");
    check_values(ctx, plan, values, "values");
    plan.pack_values(ctx, values);
}

void execute(const context& ctx, const plan& plan, const arguments& args) {
    check_arguments(ctx, plan, args);
    if (!args.c.empty()) plan.execute(ctx, args);
}

epilogue read_epilogue(const problem& p, const arguments& args, int64_t batch) {
    epilogue result;
    result.alpha = read_scalar(args.alpha, 1);
    result.beta = read_scalar(args.beta, 0);
    result.a_scale = read_scales(p.a_scale, args.a_scale, batch);
    result.b_scale = read_scales(p.b_scale, args.b_scale, batch);
    result.bias = read_scales(p.bias, args.bias, batch, 0);
    result.function = p.function;
    if (p.c_scale.present()) {
        result.reciprocal = div_rn(1.0f, read_scales(p.c_scale, args.c_scale, batch)[0]);
    }
    return result;
}

}  // namespace magicube::spmm
