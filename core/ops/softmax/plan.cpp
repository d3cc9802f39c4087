// SPDX-License-Identifier: Apache-2.0
#include "core/common/pointers.hpp"
#include "core/ops/softmax/softmax.hpp"

namespace magicube::softmax {
namespace {

constexpr bool is_input(dtype type) {
    return type == dtype::fp32 || type == dtype::fp16 || type == dtype::int32;
}

constexpr bool is_output(dtype type) {
    return type == dtype::fp32 || type == dtype::fp16 || type == dtype::bf16 ||
           type == dtype::int16 || type == dtype::int8 || type == dtype::uint8 ||
           type == dtype::int4;
}

void check_types(const problem& p) {
    require(is_input(p.in_type), status::not_supported, "problem->in_type is ", name_of(p.in_type),
            "; scores are fp32, fp16 or int32");
    require(is_output(p.out_type), status::not_supported, "problem->out_type is ",
            name_of(p.out_type), "; the output is fp32, fp16, bf16, int16, int8, uint8 or int4");
    require_value(
        p.out_type != dtype::int4 || p.pattern.stride >= 8 || p.pattern.vector_length % 2 == 0,
        "problem->out_type is int4; the pattern then needs a stride of at least 8 or an even "
        "vector length, and has ",
        p.pattern.stride, " and ", p.pattern.vector_length);
}

void check_strides(const problem& p) {
    check_value_stride(p.pattern, p.in_batch_stride, p.in_type, p.batch_count, false,
                       "problem->in_batch_stride");
    check_value_stride(p.pattern, p.out_batch_stride, p.out_type, p.batch_count, true,
                       "problem->out_batch_stride");
    check_value_stride(p.pattern, p.bias_batch_stride, dtype::fp32, p.batch_count, false,
                       "problem->bias_batch_stride");
    const int64_t stride = p.out_scale_batch_stride;
    require_value(stride == 0 || stride >= p.pattern.rows, "problem->out_scale_batch_stride is ",
                  stride, "; it must be 0 or at least ", p.pattern.rows,
                  ", the rows of one matrix");
    checked_mul(p.out_scale_stride(), checked_mul(p.batch_count, 4, "problem->batch_count"),
                "problem->out_scale_batch_stride");
}

// The output may be the scores' array, element on element, and no other input.
void check_overlap(const problem& p, const arguments& args) {
    const int64_t in_stride = value_stride(p.pattern, p.in_batch_stride);
    const int64_t out_stride = value_stride(p.pattern, p.out_batch_stride);
    const int64_t bias_stride = p.pattern.different_patterns ? 0 : p.bias_batch_stride;
    const auto scores = value_arrays(p.pattern, args.scores, p.in_type, in_stride, p.batch_count);
    const auto out = value_arrays(p.pattern, args.out, p.out_type, out_stride, p.batch_count);
    const bool same = args.out == args.scores && p.in_type == p.out_type &&
                      (in_stride == out_stride || p.batch_count <= 1);
    require_value(same || !surely_overlap(out, scores),
                  "out overlaps scores in memory; they may be one array if their types and batch "
                  "strides are the same, and must be apart otherwise");
    if (!p.bias) return;
    check_no_overlap(out, "out",
                     value_arrays(p.pattern, args.bias, dtype::fp32, bias_stride, p.batch_count),
                     "args->bias");
}

void check_arguments(const context& ctx, const plan& plan, const arguments& args) {
    const auto& p = plan.problem();
    plan.check_call(ctx, args);
    const int64_t count = p.batch_count == 0 ? 0 : p.pattern.value_count();
    check_value_array(args.scores, p.in_type, count, "scores");
    check_value_array(args.out, p.out_type, count, "out");
    check_scales(ctx, p.row_scale, args.row_scale, p.pattern.rows, p.batch_count,
                 "args->row_scale");
    check_scales(ctx, p.col_scale, args.col_scale, p.pattern.cols, p.batch_count,
                 "args->col_scale");
    if (p.bias) check_value_array(args.bias, dtype::fp32, count, "args->bias");
    if (is_integer(p.out_type)) {
        require_array(args.out_scale, p.batch_count == 0 ? 0 : p.pattern.rows, alignof(float),
                      "args->out_scale");
    }
    check_overlap(p, args);
}

}  // namespace

void operation::check(const softmax::problem& p) {
    check_types(p);
    check_batch(p.batch_count, p.pattern, "problem->pattern");
    check_strides(p);
    check_scale_shape(p.row_scale, {granularity::tensor, granularity::row}, p.batch_count,
                      "problem->row_scale");
    check_scale_shape(p.col_scale, {granularity::tensor, granularity::col}, p.batch_count,
                      "problem->col_scale");
}

std::string operation::benchmark(const softmax::problem& p) {
    return text("softmax --m ", p.pattern.rows, " --n ", p.pattern.cols, " --in ",
                name_of(p.in_type), " --out ", name_of(p.out_type));
}

void execute(const context& ctx, const plan& plan, const arguments& args) {
    check_arguments(ctx, plan, args);
    const auto& p = plan.problem();
    if (p.pattern.rows > 0 && p.batch_count > 0) plan.execute(ctx, args);
}

}  // namespace magicube::softmax
