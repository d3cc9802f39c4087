// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm_case.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "core/ops/every_implementation.hpp"
#include "core/ops/scale_sample.hpp"
#include "core/ops/views.hpp"
#include "core/ops/vnm_mm/vnm_mm.hpp"
#include "support/product_model.hpp"

namespace support {
namespace {

using magicube::granularity;
using magicube::text;
using magicube::value_mode;

sparse_sample make_a(const spmm_case& t, generator& random, const sparse_sample*) {
    return {{t.a, t.m, t.k, t.v, t.s, t.density, t.mask, t.offsets32, t.a_batch, t.batching, 6, 0,
             0, t.long_block_row},
            random};
}

vnm_sample make_a(const spmm_case& t, generator& random, const vnm_sample*) {
    return {{t.a, t.m, t.k, t.v, t.group, 2, t.columns, t.a_batch,
             t.batching == batch_kind::shared_values, 6},
            random};
}

// Operands of a case, and its model. Sample is A.
template <class Operation, class Sample>
struct product_run {
    const spmm_case& test;
    int sum_error = -52;
    generator random;
    Sample a;
    dense_sample b;
    dense_sample c;
    scale_sample a_scale, b_scale, bias, c_scale;

    explicit product_run(const spmm_case& t)
        : test(t),
          random(t.seed),
          a(make_a(t, random, static_cast<const Sample*>(nullptr))),
          b({t.b, t.k, t.n, t.b_col, t.gap, t.batch, t.b_shared}, random),
          c({t.c, t.m, t.n, t.c_col, t.gap, t.batch, false}, random, 0x77),
          a_scale(t.a_scale, t.m, t.scales_per_matrix, t.batch, random),
          b_scale(t.b_scale, t.n, t.scales_per_matrix, t.batch, random),
          bias(t.bias ? granularity::row : granularity::none, t.m, t.scales_per_matrix, t.batch,
               random),
          c_scale(t.c_scale ? granularity::tensor : granularity::none, 1, t.scales_per_matrix,
                  t.batch, random) {
        if (t.extreme) go_to_extremes();
        if constexpr (std::is_same_v<Sample, vnm_sample>) {
            if (t.poisoned) poison();
        }
        // C that is not read may hold anything: NaN, where its type has one.
        for (int64_t i = 0; t.beta == 0 && i < c.array().count(); ++i)
            c.array().set_raw(i, 0xffffffff);
    }

    // The sums of all rows and columns become as large as they can.
    void go_to_extremes() {
        const auto of_a = limits_of(test.a), of_b = limits_of(test.b);
        a.each_element(0, [&](int64_t row, int64_t, int64_t slot, int64_t v) {
            a.values().set(a.position(slot, v), row % 2 ? of_a.highest : of_a.lowest);
        });
        for (int64_t k = 0; k < test.k; ++k)
            for (int64_t j = 0; j < test.n; ++j) b.set(0, k, j, j % 2 ? of_b.highest : of_b.lowest);
    }

    void poison() {
        const double infinity = std::numeric_limits<double>::infinity();
        for (int64_t k = 0; k < test.k; ++k)
            if (!a.selects(k))
                b.set_row(k, k % 2 && test.b != kind::e4m3 ? infinity : std::nan(""));
    }

    // The values in an array that starts value_shift elements later.
    packed_array shifted_values() const {
        const auto& from = a.values();
        packed_array values(from.type(), from.count() + test.value_shift, 0);
        for (int64_t i = 0; i < from.count(); ++i) values.set(i + test.value_shift, from.get(i));
        return values;
    }

    typename Operation::problem problem(mirror& device, const char* implementation) {
        typename Operation::problem p;
        p.pattern = view_on(device, a);
        p.b_type = static_cast<magicube::dtype>(test.b);
        p.b_order = test.b_col ? magicube::order::col : magicube::order::row;
        p.c_type = static_cast<magicube::dtype>(test.c);
        p.c_order = test.c_col ? magicube::order::col : magicube::order::row;
        p.n_min = 0;
        p.n_max = test.n_max == 0 ? test.n : test.n_max;
        p.batch_count = test.batch;
        p.a_scale = a_scale.shape;
        p.b_scale = b_scale.shape;
        p.bias = bias.shape;
        p.c_scale = c_scale.shape;
        p.function = test.function;
        p.values = test.values;
        p.implementation = implementation;
        return p;
    }

    epilogue_terms terms(int64_t batch, int64_t i, int64_t j, double old) const {
        epilogue_terms e;
        e.alpha = test.alpha;
        e.beta = test.beta;
        if (a_scale.shape.present()) e.a_scale = a_scale.at(batch, i);
        if (b_scale.shape.present()) e.b_scale = b_scale.at(batch, j);
        if (bias.shape.present()) e.bias = bias.at(batch, i);
        if (test.beta != 0) e.c = static_cast<float>(old);
        e.scaled_output = test.c_scale;
        if (test.c_scale) e.c_scale = c_scale.at(batch, 0);
        if (test.function == magicube::activation::relu) {
            e.activation = [](float x) { return x < 0 ? 0.0f : x; };
        } else if (test.function == magicube::activation::gelu) {
            e.activation = magicube::gelu;
        }
        return e;
    }

    // Tensor Cores align products by the exponents that their operands have as stored, and those of
    // subnormal numbers are stored as that of the least normal one.
    double lost_by_alignment(double x, double y) const {
        constexpr double least_normal = 0x1p-14;
        if (sum_error != gpu_sum_error || test.a != kind::fp16 || !std::isfinite(x * y)) return 0;
        return std::max(std::fabs(x), least_normal) * std::max(std::fabs(y), least_normal) -
               std::fabs(x * y);
    }

    bool right(const exact_sum& sum, int64_t batch, int64_t i, int64_t j, double old,
               double found) const {
        if (test.c == kind::int32) return right_int32(sum, test.beta, old, found);
        const auto e = terms(batch, i, j, old);
        return is_float(test.a) ? right_from_floats(test.c, sum, e, found, sum_error)
                                : right_from_integers(test.c, sum, e, found);
    }

    // Compares result with the model; `before` is C as it was.
    std::string check(const dense_sample& before, const dense_sample& result) const {
        auto untouched = before;
        for (int64_t batch = 0; batch < test.batch; ++batch) {
            const auto dense = a.dense(test.a_batch == 1 ? 0 : batch);
            for (int64_t i = 0; i < test.m; ++i) {
                for (int64_t j = 0; j < test.n; ++j) {
                    exact_sum sum;
                    for (int64_t k = 0; k < test.k; ++k) {
                        const double value = dense[static_cast<size_t>(i * test.k + k)];
                        if (value == 0) continue;
                        sum.add(value, b.at(batch, k, j));
                        sum.magnitude += lost_by_alignment(value, b.at(batch, k, j));
                    }
                    const double found = result.at(batch, i, j);
                    if (!right(sum, batch, i, j, before.at(batch, i, j), found))
                        return text("C[", batch, "](", i, ", ", j, ") is ", found, "; the sum is ",
                                    static_cast<double>(sum.real));
                    untouched.set(batch, i, j, found);
                }
            }
        }
        return untouched.array().bytes() == result.array().bytes() ? "" : "bytes around C changed";
    }

    std::string execute(const magicube::context& ctx, const char* implementation) {
        if (!ctx.on_cpu()) sum_error = gpu_sum_error;
        if (ctx.on_cpu() && implementation == std::string("simd")) sum_error = float_sum_error;
        mirror device(ctx);
        const auto p = problem(device, implementation);
        operation_memory<Operation> memory(device, ctx, p);
        if (test.values != value_mode::fixed) a.fill_values(random);
        auto values = shifted_values();
        const void* new_values = static_cast<const char*>(put_array(device, values)) +
                                 magicube::storage_bytes(p.pattern.type, test.value_shift);
        if (test.values == value_mode::updatable)
            magicube::update_product(ctx, memory.plan(), new_values);
        auto result = c;
        magicube::product_arguments args;
        args.alpha = &test.alpha;
        args.beta = &test.beta;
        args.b = view_on(device, b);
        args.c = view_on(device, result);
        args.a_values = new_values;
        args.a_scale = put_floats(device, a_scale.data);
        args.b_scale = put_floats(device, b_scale.data);
        args.bias = put_floats(device, bias.data);
        args.c_scale = put_floats(device, c_scale.data);
        memory.lend_workspace(args);
        magicube::execute_product(ctx, memory.plan(), args);
        fetch_array(device, result.array());
        const auto wrong = memory.check();
        return wrong.empty() ? check(c, result) : wrong;
    }
};

}  // namespace

spmm_case case_of(magicube::precision_pair pair) {
    spmm_case test;
    test.a = static_cast<kind>(pair.lhs);
    test.b = static_cast<kind>(pair.rhs);
    test.c = magicube::is_integer(pair.lhs) ? kind::int32 : kind::fp32;
    return test;
}

bool allowed(const spmm_case& test) {
    return test.a != kind::int4 || test.s >= 8 || test.v % 2 == 0;
}

std::string run(const spmm_case& test) {
    using magicube::spmm::operation;
    using vnm_operation = magicube::vnm_mm::operation;
    if (test.group == 0)
        return run_everywhere<product_run<operation, sparse_sample>, operation>(test, test.threads);
    return run_everywhere<product_run<vnm_operation, vnm_sample>, vnm_operation>(test,
                                                                                 test.threads);
}

std::string describe(const spmm_case& t) {
    return text(name_of(static_cast<magicube::dtype>(t.a)), "/",
                name_of(static_cast<magicube::dtype>(t.b)), " to ",
                name_of(static_cast<magicube::dtype>(t.c)), ", ", t.m, " x ", t.k, " x ", t.n,
                ", V ", t.v, t.group ? ", M " : ", S ", t.group ? t.group : t.s, ", seed ", t.seed);
}

}  // namespace support
