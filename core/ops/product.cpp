// SPDX-License-Identifier: Apache-2.0
#include "core/ops/product.hpp"

#include "core/common/pointers.hpp"
#include "core/formats/validate.hpp"

namespace magicube {
namespace {

void check_int32_output(const product_problem& p) {
    if (p.c_type != dtype::int32) return;
    const bool plain = !p.a_scale.present() && !p.b_scale.present() && !p.bias.present() &&
                       p.function == activation::none;
    require(plain, status::not_supported,
            "problem->c_type is int32, which takes no scale, bias or activation; use fp32");
}

void check_int32_scalars(const context& ctx, const product_problem& p,
                         const product_arguments& args) {
    if (p.c_type != dtype::int32) return;
    require(ctx.scalars == pointer_mode::host || (!args.alpha && !args.beta), status::not_supported,
            "alpha and beta lie on the device; for C of int32 they must be in host memory");
    const float alpha = read_scalar(args.alpha, 1);
    const float beta = read_scalar(args.beta, 0);
    require(alpha == 1, status::not_supported, "alpha is ", alpha, "; for C of int32 it must be 1");
    require(beta == 0 || beta == 1, status::not_supported, "beta is ", beta,
            "; for C of int32 it must be 0 or 1");
}

}  // namespace

void check_product(const product_problem& p, const sparse_common& a) {
    require(is_product_output(a.type, p.c_type, false), status::not_supported,
            "problem->c_type is ", name_of(p.c_type), "; C of ", name_of(a.type), "/",
            name_of(p.b_type), " is ", is_integer(a.type) ? "int32, " : "",
            "fp32, fp16, bf16 or int8");
    check_range(p.n_min, p.n_max, "n");
    check_batch(p.batch_count, a, "problem->A");
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

void check_product_operands(const context& ctx, const product_problem& p, const sparse_common& a,
                            const product_arguments& args) {
    const int64_t n = args.b.cols;
    check_in_range(n, p.n_min, p.n_max, "B's number of columns");
    check_dense(args.b, {p.b_type, p.b_order, a.cols, n, p.batch_count}, "B");
    check_dense(args.c, {p.c_type, p.c_order, a.rows, n, p.batch_count}, "C");
    check_no_overlap(args.c, "C", args.b, "B");
    check_int32_scalars(ctx, p, args);
    check_scales(ctx, p.a_scale, args.a_scale, a.rows, p.batch_count, "args->a_scale");
    check_scales(ctx, p.b_scale, args.b_scale, n, p.batch_count, "args->b_scale");
    check_summands(p.bias, args.bias, a.rows, p.batch_count, "args->bias");
    check_scales(ctx, p.c_scale, args.c_scale, 1, p.batch_count, "args->c_scale", true);
}

void check_product_values(const context& ctx, const sparse_view& a, const char* argument) {
    const sparse_common& common = common_of(a);
    const int64_t count = std::visit([](const auto& view) { return view.value_count(); }, a);
    check_value_array(common.values, common.type, common.batch_count == 0 ? 0 : count, argument);
    if (ctx.validates()) validate_values(ctx, a, argument);
}

void check_update(const context& ctx, const product_problem& p, const void* values) {
    require(p.values == value_mode::updatable, status::not_supported,
            "plan was not made with problem->value_mode MAGICUBE_VALUES_UPDATABLE");
    if (values) require_reachable(ctx, values, "values");
}

epilogue read_epilogue(const product_problem& p, const product_arguments& args, int64_t batch) {
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

}  // namespace magicube
