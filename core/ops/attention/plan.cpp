// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/common/pointers.hpp"
#include "core/ops/attention/attention.hpp"

namespace magicube::attention {
namespace {

constexpr bool is_float(dtype type) {
    return type == dtype::fp32 || type == dtype::fp16 || type == dtype::bf16;
}

constexpr bool is_quantised(dtype type) {
    return type == dtype::int8 || type == dtype::int4;
}

void check_types(const problem& p) {
    require(is_float(p.in_type) || is_quantised(p.in_type), status::not_supported,
            "problem->in_type is ", name_of(p.in_type),
            "; Q, K and V are fp32, fp16, bf16, int8 or int4");
    require(is_float(p.out_type), status::not_supported, "problem->out_type is ",
            name_of(p.out_type), "; the output is fp32, fp16 or bf16");
}

// Sums of so many products of int8 fit in 32 bits.
constexpr int64_t most_integer_dim = 65536;

void check_quantisation(const problem& p) {
    if (!is_quantised(p.in_type)) {
        require_value(p.probability_bits == 0, "problem->probability_bits is ", p.probability_bits,
                      "; it must be 0 for Q, K and V of ", name_of(p.in_type));
        const auto none = [&](granularity per, const char* argument) {
            require_value(per == granularity::none, argument, " is ", name_of(per),
                          "; it must be NONE for Q, K and V of ", name_of(p.in_type));
        };
        none(p.q_scale, "problem->q_scale");
        none(p.k_scale, "problem->k_scale");
        none(p.v_scale, "problem->v_scale");
        return;
    }
    const bool wide = p.in_type == dtype::int8;
    require_value(p.probability_bits == 8 || p.probability_bits == (wide ? 16 : 4),
                  "problem->probability_bits is ", p.probability_bits, "; it must be ",
                  wide ? "16 or 8" : "8 or 4", " for Q, K and V of ", name_of(p.in_type));
    require_value(p.head_dim <= most_integer_dim, "problem->head_dim is ", p.head_dim,
                  "; it must be at most ", most_integer_dim, " for Q, K and V of ",
                  name_of(p.in_type));
    check_scale_shape({p.q_scale, 0}, {granularity::tensor, granularity::row}, p.batch_count,
                      "problem->q_scale");
    check_scale_shape({p.k_scale, 0}, {granularity::tensor, granularity::row}, p.batch_count,
                      "problem->k_scale");
    check_scale_shape({p.v_scale, 0}, {granularity::tensor, granularity::col}, p.batch_count,
                      "problem->v_scale");
}

void check_sizes(const problem& p) {
    require_value(p.batch_count >= 0, "problem->batch_count is ", p.batch_count,
                  "; it must be at least 0");
    require_value(p.kv_heads >= 1, "problem->kv_heads is ", p.kv_heads, "; it must be at least 1");
    require_value(p.q_heads >= 1 && p.q_heads % p.kv_heads == 0, "problem->q_heads is ", p.q_heads,
                  "; it must be a positive multiple of problem->kv_heads = ", p.kv_heads);
    require_value(p.head_dim >= 1, "problem->head_dim is ", p.head_dim, "; it must be at least 1");
    // The log-sum-exp's bytes; those of the tensors depend on their strides.
    const int64_t heads = checked_mul(p.batch_count, p.q_heads, "problem->batch_count");
    checked_mul(checked_mul(heads, p.pattern.rows, "problem->q_heads"), 4, "problem->q_heads");
}

struct expected_patterns {
    int64_t count;
    const char* rule;
};

expected_patterns patterns_of(const problem& p) {
    switch (p.patterns) {
        case pattern_sharing::head:
            return {p.q_heads, "problem->q_heads"};
        case pattern_sharing::batch:
            return {p.batch_count, "problem->batch_count"};
        case pattern_sharing::batch_head:
            return {p.batch_count * p.q_heads, "problem->batch_count * problem->q_heads"};
        default:
            return {1, "one, as problem->patterns is SHARED"};
    }
}

void check_patterns(const problem& p) {
    const auto expected = patterns_of(p);
    require_value(p.pattern.batch_count == expected.count, "problem->pattern has a batch of ",
                  p.pattern.batch_count, "; it must be ", expected.count, " (", expected.rule, ")");
}

void check_causal(const problem& p) {
    require_value(p.causal || (p.causal_offset == 0 && !p.causal_offsets),
                  "problem->causal is 0; problem->causal_offset and problem->causal_offsets must "
                  "then be 0, and are ",
                  p.causal_offset, " and ", p.causal_offsets);
}

// Size of one of a tensor's dimensions, and how far its elements are apart.
struct dimension {
    int64_t size;
    int64_t stride;
};

// One operand: what it is, and its shape.
struct operand {
    const char* name;
    const char* strides_name;
    const tensor& values;
    dtype type;
    int64_t batch;
    int64_t heads;
    int64_t length;
    int64_t head_dim;

    bool empty() const { return batch == 0 || length == 0; }
};

void check_strides(const operand& t) {
    const auto rule = [&](const char* stride, int64_t value, int64_t lowest) {
        require_value(value >= lowest, t.strides_name, "->", stride, " is ", value,
                      "; it must be at least ", lowest);
    };
    rule("batch", t.values.batch_stride, 0);
    rule("head", t.values.head_stride, 0);
    rule("row", t.values.row_stride, t.head_dim);
    require_value(
        t.type != dtype::int4 || (t.values.batch_stride % 2 == 0 && t.values.head_stride % 2 == 0 &&
                                  t.values.row_stride % 2 == 0),
        t.strides_name, " are ", t.values.batch_stride, ", ", t.values.head_stride, ", ",
        t.values.row_stride, "; they must be even for int4");
    if (t.empty()) return;
    int64_t last = t.head_dim;
    for (const dimension d :
         {dimension{t.batch, t.values.batch_stride}, dimension{t.heads, t.values.head_stride},
          dimension{t.length, t.values.row_stride}})
        last = checked_add(last, checked_mul(d.size - 1, d.stride, t.strides_name), t.strides_name);
    checked_mul(last, 4, t.strides_name);
}

// Every dimension steps over all those with smaller strides.
void check_apart(const operand& t) {
    if (t.empty()) return;
    dimension dimensions[] = {{t.length, t.values.row_stride},
                              {t.heads, t.values.head_stride},
                              {t.batch, t.values.batch_stride}};
    std::sort(std::begin(dimensions), std::end(dimensions),
              [](const dimension& a, const dimension& b) { return a.stride < b.stride; });
    int64_t extent = t.head_dim;
    for (const auto& d : dimensions) {
        if (d.size == 1) continue;
        require_value(d.stride >= extent, t.strides_name, " are ", t.values.batch_stride, ", ",
                      t.values.head_stride, ", ", t.values.row_stride,
                      "; elements of an output must not share memory");
        extent += (d.size - 1) * d.stride;
    }
}

void check_tensor(const operand& t) {
    check_strides(t);
    require_value(t.values.values != nullptr || t.empty(), t.name, " is null; it must hold ",
                  t.batch, " x ", t.heads, " x ", t.length, " x ", t.head_dim, " elements");
    require_aligned(t.values.values, element_alignment(t.type), t.name);
}

// All heads as one batch of matrices; of tensors that are none in either way, the first matrix of
// the batch, which is enough for what must surely overlap. Strides that lead nowhere are left out:
// nothing bounds them.
dense_view view_of(const operand& t) {
    dense_view view;
    view.type = t.type;
    if (t.empty()) return view;
    view.rows = t.length;
    view.cols = t.head_dim;
    view.ld = t.length == 1 ? t.head_dim : t.values.row_stride;
    view.values = t.values.values;
    view.batch_count = t.heads;
    view.batch_stride = t.heads == 1 ? 0 : t.values.head_stride;
    if (t.batch == 1 || t.values.batch_stride == 0) return view;
    if (t.heads == 1) {
        view.batch_count = t.batch;
        view.batch_stride = t.values.batch_stride;
    } else if (t.values.batch_stride == t.heads * t.values.head_stride) {
        view.batch_count = t.batch * t.heads;
    } else if (t.values.batch_stride == t.length * t.values.row_stride) {
        view.rows = t.batch * t.length;
        view.ld = t.values.row_stride;
    }
    return view;
}

void check_operands(const problem& p, const arguments& args) {
    const int64_t lq = p.pattern.rows;
    const int64_t lk = p.pattern.cols;
    const operand q{"q",           "args->q_strides", args.q, p.in_type,
                    p.batch_count, p.q_heads,         lq,     p.head_dim};
    const operand k{"k",           "args->k_strides", args.k, p.in_type,
                    p.batch_count, p.kv_heads,        lk,     p.head_dim};
    const operand v{"v",           "args->v_strides", args.v, p.in_type,
                    p.batch_count, p.kv_heads,        lk,     p.head_dim};
    const operand out{"out",         "args->out_strides", args.out, p.out_type,
                      p.batch_count, p.q_heads,           lq,       p.head_dim};
    for (const auto* t : {&q, &k, &v, &out}) check_tensor(*t);
    check_apart(out);
    const auto statistics =
        array_view(args.log_sum_exp, dtype::fp32, p.batch_count * p.q_heads * lq);
    for (const auto* input : {&q, &k, &v}) {
        check_no_overlap(view_of(out), "out", view_of(*input), input->name);
        if (p.log_sum_exp)
            check_no_overlap(statistics, "args->log_sum_exp", view_of(*input), input->name);
    }
    if (p.log_sum_exp) check_no_overlap(statistics, "args->log_sum_exp", view_of(out), "out");
}

void check_lengths(const context& ctx, const problem& p, const arguments& args) {
    if (p.causal_offsets)
        require_array(args.causal_offsets, p.batch_count, alignof(int64_t), "args->causal_offsets");
    if (!p.key_lengths) return;
    require_array(args.key_lengths, p.batch_count, alignof(int64_t), "args->key_lengths");
    if (!ctx.validates()) return;
    for (int64_t b = 0; b < p.batch_count; ++b) {
        const int64_t length = args.key_lengths[b];
        require_value(length >= 0 && length <= p.pattern.cols, "args->key_lengths[", b, "] is ",
                      length, "; it must lie in [0, ", p.pattern.cols, "]");
    }
}

// One array of scales: all heads of the batch as one matrix.
struct scale_array {
    granularity per;
    const float* data;
    int64_t heads;
    int64_t length;
    const char* name;
};

void check_scale_arrays(const context& ctx, const problem& p, const arguments& args) {
    const scale_array arrays[] = {
        {p.q_scale, args.q_scale, p.q_heads, p.pattern.rows, "args->q_scale"},
        {p.k_scale, args.k_scale, p.kv_heads, p.pattern.cols, "args->k_scale"},
        {p.v_scale, args.v_scale, p.kv_heads, p.head_dim, "args->v_scale"}};
    for (const auto& a : arrays) {
        if (a.per == granularity::none) continue;
        const int64_t all =
            checked_mul(checked_mul(p.batch_count, a.heads, a.name), a.length, a.name);
        const int64_t count = a.per == granularity::tensor ? (p.batch_count == 0 ? 0 : 1) : all;
        check_scales(ctx, {granularity::row, 0}, a.data, count, 1, a.name);
        const auto scales = array_view(a.data, dtype::fp32, count);
        const operand out{"out",         "args->out_strides", args.out,       p.out_type,
                          p.batch_count, p.q_heads,           p.pattern.rows, p.head_dim};
        check_no_overlap(view_of(out), "out", scales, a.name);
        if (p.log_sum_exp)
            check_no_overlap(array_view(args.log_sum_exp, dtype::fp32,
                                        p.batch_count * p.q_heads * p.pattern.rows),
                             "args->log_sum_exp", scales, a.name);
    }
}

void check_arguments(const context& ctx, const plan& plan, const arguments& args) {
    const auto& p = plan.problem();
    plan.check_call(ctx, args);
    if (p.log_sum_exp) {
        require_array(args.log_sum_exp, p.batch_count * p.q_heads * p.pattern.rows, alignof(float),
                      "args->log_sum_exp");
    }
    check_operands(p, args);
    check_scale_arrays(ctx, p, args);
    check_lengths(ctx, p, args);
}

}  // namespace

void operation::check(const attention::problem& p) {
    check_types(p);
    check_sizes(p);
    check_quantisation(p);
    check_patterns(p);
    check_causal(p);
}

// The command takes one matrix of the batch, and as many heads of K and V as of Q; no integers.
std::string operation::benchmark(const attention::problem& p) {
    if (p.quantised()) return {};
    return text("attention --m ", p.pattern.rows, " --k ", p.head_dim, " --n ", p.pattern.cols,
                " --heads ", p.q_heads, " --in ", name_of(p.in_type), " --out ",
                name_of(p.out_type));
}

void execute(const context& ctx, const plan& plan, const arguments& args) {
    check_arguments(ctx, plan, args);
    const auto& p = plan.problem();
    if (p.pattern.rows > 0 && p.batch_count > 0) plan.execute(ctx, args);
}

}  // namespace magicube::attention
