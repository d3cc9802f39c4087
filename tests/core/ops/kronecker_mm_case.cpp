// SPDX-License-Identifier: Apache-2.0
#include "core/ops/kronecker_mm_case.hpp"

#include <cmath>

#include "core/ops/every_implementation.hpp"
#include "core/ops/scale_sample.hpp"
#include "core/ops/views.hpp"
#include "support/product_model.hpp"

namespace support {
namespace {

using magicube::granularity;
using magicube::kronecker_shape;
using magicube::text;

dense_shape matrix_shape(kind type, int64_t features, const kronecker_mm_case& t, bool col,
                         bool shared) {
    return {
        type,  t.batch_last ? features : t.n, t.batch_last ? t.n : features, col, t.gap, t.batch,
        shared};
}

// Sums of one vector through the chain, as the definition of the format reads: every element of K.
std::vector<exact_sum> apply(const kronecker_shape& k, const packed_array& values, bool transpose,
                             const std::vector<exact_sum>& x) {
    const int64_t outputs = transpose ? k.cols() : k.rows();
    std::vector<exact_sum> y(static_cast<size_t>(outputs));
    int64_t at = 0;
    for (int64_t i = 0; i < k.a; ++i) {
        for (int64_t j = 0; j < k.b; ++j) {
            for (int64_t c = 0; c < k.c; ++c) {
                for (int64_t l = 0; l < k.d; ++l, ++at) {
                    const int64_t row = (i * k.b + j) * k.d + l;
                    const int64_t col = (i * k.c + c) * k.d + l;
                    const auto& from = x[static_cast<size_t>(transpose ? row : col)];
                    auto& to = y[static_cast<size_t>(transpose ? col : row)];
                    const double value = values.get(at);
                    to.integer += static_cast<__int128>(value) * from.integer;
                    to.real += static_cast<long double>(value) * from.real;
                    to.magnitude += std::fabs(static_cast<long double>(value)) * from.magnitude;
                    to.terms += from.terms;
                }
            }
        }
    }
    return y;
}

struct kronecker_mm_run {
    const kronecker_mm_case& test;
    generator random;
    int64_t m, k;
    std::vector<packed_array> values;
    dense_sample x;
    dense_sample y;
    scale_sample k_scale, x_scale, bias, y_scale;
    bool on_gpu = false;

    explicit kronecker_mm_run(const kronecker_mm_case& t)
        : test(t),
          random(t.seed),
          m(t.transpose ? t.factors.back().cols() : t.factors.front().rows()),
          k(t.transpose ? t.factors.front().rows() : t.factors.back().cols()),
          x(matrix_shape(t.type, k, t, t.x_col, t.x_shared), random),
          y(matrix_shape(t.y, m, t, t.y_col, false), random, 0x77),
          k_scale(t.k_scale, m, t.scales_per_matrix, t.batch, random),
          x_scale(t.x_scale, t.n, t.scales_per_matrix, t.batch, random),
          bias(t.bias ? granularity::row : granularity::none, m, t.scales_per_matrix, t.batch,
               random),
          y_scale(t.y_scale ? granularity::tensor : granularity::none, 1, t.scales_per_matrix,
                  t.batch, random) {
        for (const auto& factor : t.factors) {
            values.emplace_back(t.type, factor.value_count());
            for (int64_t i = 0; i < factor.value_count(); ++i)
                values.back().set(i, random_value(random, t.type));
        }
    }

    magicube::kronecker_mm::problem problem(mirror& device, const char* implementation) {
        magicube::kronecker_mm::problem p;
        for (size_t i = 0; i < values.size(); ++i)
            p.pattern.factors.emplace_back(test.factors[i], put_array(device, values[i]));
        p.pattern.type = static_cast<magicube::dtype>(test.type);
        p.pattern.chain = values.size() > 1;
        p.transpose = test.transpose;
        p.layout = test.batch_last ? magicube::kronecker_mm::batch_layout::last
                                   : magicube::kronecker_mm::batch_layout::first;
        p.x_order = test.x_col ? magicube::order::col : magicube::order::row;
        p.y_order = test.y_col ? magicube::order::col : magicube::order::row;
        p.y_type = static_cast<magicube::dtype>(test.y);
        p.n_min = 0;
        p.n_max = test.n_max == 0 ? test.n : test.n_max;
        p.batch_count = test.batch;
        p.k_scale = k_scale.shape;
        p.x_scale = x_scale.shape;
        p.bias = bias.shape;
        p.y_scale = y_scale.shape;
        p.function = test.function;
        p.values = test.values;
        p.implementation = implementation;
        return p;
    }

    // Every rounding of a sum in fp32 and, in a chain, of what passes on and of merged factors.
    int sum_error() const {
        return (on_gpu ? gpu_sum_error : float_sum_error) + (values.size() > 1 ? 3 : 0);
    }

    bool right(exact_sum sum, int64_t batch, int64_t i, int64_t n, double old, double found) const {
        if (test.y == kind::int32) return right_int32(sum, test.beta, old, found);
        // Products and, in a chain, numbers that meet others may be subnormal in fp32.
        if (is_float(test.type)) sum.magnitude += std::ldexp(1.0L, values.size() > 1 ? -110 : -126);
        epilogue_terms e;
        e.alpha = test.alpha;
        e.beta = test.beta;
        e.c = static_cast<float>(old);
        if (k_scale.shape.present()) e.a_scale = k_scale.at(batch, i);
        if (x_scale.shape.present()) e.b_scale = x_scale.at(batch, n);
        if (bias.shape.present()) e.bias = bias.at(batch, i);
        e.scaled_output = test.y_scale;
        if (test.y_scale) e.c_scale = y_scale.at(batch, 0);
        if (test.function != magicube::activation::none)
            e.activation = [this](float v) { return magicube::activate(test.function, v); };
        return is_float(test.type) ? right_from_floats(test.y, sum, e, found, sum_error())
                                   : right_from_integers(test.y, sum, e, found);
    }

    std::string check(const dense_sample& result) const {
        auto expected = y;
        const auto place = [&](int64_t i, int64_t n) {
            return test.batch_last ? std::pair(i, n) : std::pair(n, i);
        };
        for (int64_t batch = 0; batch < test.batch; ++batch) {
            for (int64_t n = 0; n < test.n; ++n) {
                std::vector<exact_sum> sums(static_cast<size_t>(k));
                for (int64_t i = 0; i < k; ++i) {
                    const auto [row, col] = place(i, n);
                    sums[static_cast<size_t>(i)].add(x.at(batch, row, col), 1);
                }
                for (size_t f = 0; f < values.size(); ++f) {
                    const size_t at = test.transpose ? f : values.size() - 1 - f;
                    sums = apply(test.factors[at], values[at], test.transpose, sums);
                }
                for (int64_t i = 0; i < m; ++i) {
                    const auto [row, col] = place(i, n);
                    const double found = result.at(batch, row, col);
                    const double old = y.at(batch, row, col);
                    if (!right(sums[static_cast<size_t>(i)], batch, i, n, old, found))
                        return text("feature ", i, " of vector ", n, " of matrix ", batch, " is ",
                                    found, "; the sum is ",
                                    static_cast<double>(sums[static_cast<size_t>(i)].real));
                    expected.set(batch, row, col, found);
                }
            }
        }
        return expected.array().bytes() == result.array().bytes() ? "" : "bytes around changed";
    }

    std::string execute(const magicube::context& ctx, const char* implementation) {
        mirror device(ctx);
        on_gpu = !ctx.on_cpu();
        auto p = problem(device, implementation);
        std::vector<const void*> arrays;
        for (const auto& factor : p.pattern.factors) arrays.push_back(factor.values);
        std::vector<packed_array> others;
        if (test.values != magicube::value_mode::fixed) {
            // What the plan is made from counts for nothing.
            for (size_t i = 0; i < values.size(); ++i) {
                others.emplace_back(test.type, test.factors[i].value_count(), 0x3a);
                p.pattern.factors[i].values = put_array(device, others.back());
            }
        }
        operation_memory<magicube::kronecker_mm::operation> memory(device, ctx, p);
        if (test.values == magicube::value_mode::updatable)
            magicube::kronecker_mm::update_values(ctx, memory.plan(), arrays.data());
        auto result = y;
        magicube::kronecker_mm::arguments args;
        args.alpha = &test.alpha;
        args.beta = &test.beta;
        args.x = view_on(device, x);
        args.y = view_on(device, result);
        args.k_values = test.values == magicube::value_mode::per_call ? arrays.data() : nullptr;
        args.k_scale = put_floats(device, k_scale.data);
        args.x_scale = put_floats(device, x_scale.data);
        args.bias = put_floats(device, bias.data);
        args.y_scale = put_floats(device, y_scale.data);
        memory.lend_workspace(args);
        magicube::kronecker_mm::execute(ctx, memory.plan(), args);
        fetch_array(device, result.array());
        const auto wrong = memory.check();
        return wrong.empty() ? check(result) : wrong;
    }
};

}  // namespace

std::string run(const kronecker_mm_case& t) {
    return run_everywhere<kronecker_mm_run, magicube::kronecker_mm::operation>(t, 0);
}

std::string describe(const kronecker_mm_case& t) {
    std::string factors;
    for (const auto& factor : t.factors) factors += text_of(factor);
    return text(name_of(static_cast<magicube::dtype>(t.type)), " to ",
                name_of(static_cast<magicube::dtype>(t.y)), ", ", factors,
                t.transpose ? " transposed" : "", t.batch_last ? ", batch last" : ", batch first",
                ", orders ", t.x_col, t.y_col, ", n ", t.n, ", seed ", t.seed);
}

}  // namespace support
