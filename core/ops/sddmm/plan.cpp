// SPDX-License-Identifier: Apache-2.0
#include "core/ops/sddmm/sddmm.hpp"

namespace magicube::sddmm {
namespace {

void check_types(const problem& p) {
    const auto pair = p.pair();
    if (!contains(sddmm_pairs, pair)) {
        fail(status::not_supported, "problem->a_type and problem->b_type are ", name_of(pair.lhs),
             "/", name_of(pair.rhs), "; supported pairs: ", list_of(sddmm_pairs));
    }
    require(is_product_output(pair.lhs, p.out_type, true), status::not_supported,
            "problem->out_type is ", name_of(p.out_type), "; the output of ", name_of(pair.lhs),
            "/", name_of(pair.rhs), " is ", is_integer(pair.lhs) ? "int32, " : "",
            "fp32, fp16, bf16, int16 or int8");
}

void check_scale_shapes(const problem& p) {
    check_scale_shape(p.a_scale, {granularity::tensor, granularity::row}, p.batch_count,
                      "problem->a_scale");
    check_scale_shape(p.b_scale, {granularity::tensor, granularity::col}, p.batch_count,
                      "problem->b_scale");
    check_scale_shape(p.out_scale, {granularity::tensor}, p.batch_count, "problem->out_scale");
    require(p.out_type != dtype::int32 || (!p.a_scale.present() && !p.b_scale.present()),
            status::not_supported, "problem->out_type is int32, which takes no scale; use fp32");
    require_value(!p.out_scale.present() || p.out_type == dtype::int16 || p.out_type == dtype::int8,
                  "problem->out_scale is TENSOR; only an output of int16 or int8 has a scale, and "
                  "problem->out_type is ",
                  name_of(p.out_type));
}

void check_output(const plan& plan, const arguments& args) {
    const auto& p = plan.problem();
    const int64_t count = p.pattern.value_count();
    check_value_array(args.values, p.out_type, p.batch_count == 0 ? 0 : count, "values");
    const auto output = value_arrays(p.pattern, args.values, p.out_type,
                                     value_stride(p.pattern, p.out_batch_stride), p.batch_count);
    check_no_overlap(output, "values", args.a, "A");
    check_no_overlap(output, "values", args.b, "B");
}

void check_int32_alpha(const context& ctx, const plan& plan, const arguments& args) {
    if (plan.problem().out_type != dtype::int32) return;
    require(ctx.scalars == pointer_mode::host || !args.alpha, status::not_supported,
            "alpha lies on the device; for an output of int32 it must be in host memory");
    const float alpha = read_scalar(args.alpha, 1);
    require(alpha == 1, status::not_supported, "alpha is ", alpha,
            "; for an output of int32 it must be 1");
}

void check_arguments(const context& ctx, const plan& plan, const arguments& args) {
    const auto& p = plan.problem();
    plan.check_call(ctx, args);
    const int64_t m = p.pattern.rows;
    const int64_t n = p.pattern.cols;
    const int64_t k = args.a.cols;
    check_in_range(k, p.k_min, p.k_max, "A's number of columns");
    check_dense(args.a, {p.a_type, p.a_order, m, k, p.batch_count}, "A");
    check_dense(args.b, {p.b_type, p.b_order, k, n, p.batch_count}, "B");
    check_output(plan, args);
    check_int32_alpha(ctx, plan, args);
    check_scales(ctx, p.a_scale, args.a_scale, m, p.batch_count, "args->a_scale");
    check_scales(ctx, p.b_scale, args.b_scale, n, p.batch_count, "args->b_scale");
    check_scales(ctx, p.out_scale, args.out_scale, 1, p.batch_count, "args->out_scale", true);
}

}  // namespace

void operation::check(const sddmm::problem& p) {
    check_types(p);
    check_range(p.k_min, p.k_max, "k");
    check_batch(p.batch_count, p.pattern, "problem->pattern");
    check_value_stride(p.pattern, p.out_batch_stride, p.out_type, p.batch_count, true,
                       "problem->out_batch_stride");
    check_scale_shapes(p);
}

std::optional<dense_product> operation::dense_equivalent(const sddmm::problem& p) {
    return dense_product{p.pattern.rows, p.pattern.cols, p.k_max,
                         p.batch_count,  p.pair(),       p.out_type};
}

std::string operation::benchmark(const sddmm::problem& p) {
    return text("sddmm --m ", p.pattern.rows, " --k ", p.k_max, " --n ", p.pattern.cols, " --lhs ",
                name_of(p.a_type), " --rhs ", name_of(p.b_type), " --out ", name_of(p.out_type));
}

void execute(const context& ctx, const plan& plan, const arguments& args) {
    check_arguments(ctx, plan, args);
    const auto& p = plan.problem();
    if (p.pattern.slots > 0 && p.pattern.rows > 0 && p.batch_count > 0) plan.execute(ctx, args);
}

epilogue read_epilogue(const problem& p, const arguments& args, int64_t batch) {
    epilogue result;
    result.alpha = read_scalar(args.alpha, 1);
    result.a_scale = read_scales(p.a_scale, args.a_scale, batch);
    result.b_scale = read_scales(p.b_scale, args.b_scale, batch);
    if (p.out_scale.present()) {
        result.reciprocal = div_rn(1.0f, read_scales(p.out_scale, args.out_scale, batch)[0]);
    }
    return result;
}

}  // namespace magicube::sddmm
