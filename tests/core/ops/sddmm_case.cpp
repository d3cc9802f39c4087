// SPDX-License-Identifier: Apache-2.0
#include "core/ops/sddmm_case.hpp"

#include "core/ops/every_implementation.hpp"
#include "core/ops/scale_sample.hpp"
#include "core/ops/views.hpp"
#include "support/product_model.hpp"

namespace support {
namespace {

using magicube::granularity;
using magicube::text;

struct sddmm_run {
    const sddmm_case& test;
    int sum_error = -52;
    generator random;
    sparse_sample pattern;
    dense_sample a;
    dense_sample b;
    scale_sample a_scale, b_scale, out_scale;
    int64_t out_stride;
    packed_array out;

    explicit sddmm_run(const sddmm_case& t)
        : test(t),
          random(t.seed),
          pattern({kind::int8, t.m, t.n, t.v, t.s, t.density, t.mask, t.offsets32, t.pattern_batch,
                   t.batching, 0, 0, 0},
                  random),
          a({t.type, t.m, t.k, t.a_col, t.gap, t.batch, t.a_shared}, random),
          b({t.type, t.k, t.n, t.b_col, t.gap, t.batch, t.b_shared}, random),
          a_scale(t.a_scale, t.m, t.scales_per_matrix, t.batch, random),
          b_scale(t.b_scale, t.n, t.scales_per_matrix, t.batch, random),
          out_scale(t.out_scale ? granularity::tensor : granularity::none, 1, t.scales_per_matrix,
                    t.batch, random),
          out_stride(pattern.different() ? 0 : pattern.value_count() + t.out_gap),
          out(t.out,
              pattern.value_count() + out_stride * std::max<int64_t>(t.batch - 1, 0) + t.out_gap,
              0x77) {}

    magicube::sddmm::problem problem(mirror& device, const char* implementation) {
        magicube::sddmm::problem p;
        p.pattern = view_on(device, pattern);
        p.pattern.values = nullptr;
        p.a_type = p.b_type = static_cast<magicube::dtype>(test.type);
        p.a_order = test.a_col ? magicube::order::col : magicube::order::row;
        p.b_order = test.b_col ? magicube::order::col : magicube::order::row;
        p.out_type = static_cast<magicube::dtype>(test.out);
        p.k_min = 0;
        p.k_max = test.k_max == 0 ? test.k : test.k_max;
        p.batch_count = test.batch;
        p.out_batch_stride = test.out_gap == 0 ? 0 : out_stride;
        p.a_scale = a_scale.shape;
        p.b_scale = b_scale.shape;
        p.out_scale = out_scale.shape;
        p.implementation = implementation;
        return p;
    }

    bool right(const exact_sum& sum, int64_t batch, int64_t i, int64_t j, double found) const {
        if (test.out == kind::int32) return right_int32(sum, 0, 0, found);
        epilogue_terms e;
        e.alpha = test.alpha;
        if (a_scale.shape.present()) e.a_scale = a_scale.at(batch, i);
        if (b_scale.shape.present()) e.b_scale = b_scale.at(batch, j);
        e.scaled_output = test.out_scale;
        if (test.out_scale) e.c_scale = out_scale.at(batch, 0);
        return is_float(test.type) ? right_from_floats(test.out, sum, e, found, sum_error)
                                   : right_from_integers(test.out, sum, e, found);
    }

    // What the output must be: elements as found if right, everything else in the layout 0.
    std::string check(const packed_array& result) const {
        auto expected = out;
        std::string wrong;
        for (int64_t batch = 0; batch < test.batch; ++batch) {
            if (batch == 0 || !pattern.different()) {
                for (int64_t i = 0; i < pattern.value_count(); ++i)
                    expected.set(batch * out_stride + i, 0);
            }
            const int64_t matrix = test.pattern_batch == 1 ? 0 : batch;
            pattern.each_element(matrix, [&](int64_t i, int64_t j, int64_t slot, int64_t v) {
                exact_sum sum;
                for (int64_t k = 0; k < test.k; ++k) sum.add(a.at(batch, i, k), b.at(batch, k, j));
                const int64_t at = batch * out_stride + pattern.position(slot, v);
                const double found = result.get(at);
                if (wrong.empty() && !right(sum, batch, i, j, found))
                    wrong = text("element (", i, ", ", j, ") of matrix ", batch, " is ", found,
                                 "; the sum is ", static_cast<double>(sum.real));
                expected.set(at, found);
            });
        }
        if (!wrong.empty()) return wrong;
        return expected.bytes() == result.bytes() ? ""
                                                  : "padding is not 0, or bytes around changed";
    }

    std::string execute(const magicube::context& ctx, const char* implementation) {
        if (!ctx.on_cpu()) sum_error = gpu_sum_error;
        if (ctx.on_cpu() && implementation == std::string("simd")) sum_error = float_sum_error;
        mirror device(ctx);
        const auto p = problem(device, implementation);
        operation_memory<magicube::sddmm::operation> memory(device, ctx, p);
        auto result = out;
        magicube::sddmm::arguments args;
        args.alpha = &test.alpha;
        args.a = view_on(device, a);
        args.b = view_on(device, b);
        args.values = put_array(device, result);
        args.a_scale = put_floats(device, a_scale.data);
        args.b_scale = put_floats(device, b_scale.data);
        args.out_scale = put_floats(device, out_scale.data);
        memory.lend_workspace(args);
        magicube::sddmm::execute(ctx, memory.plan(), args);
        fetch_array(device, result);
        const auto wrong = memory.check();
        return wrong.empty() ? check(result) : wrong;
    }
};

}  // namespace

std::string run(const sddmm_case& t) {
    return run_everywhere<sddmm_run, magicube::sddmm::operation>(t, 0);
}

std::string describe(const sddmm_case& t) {
    return text(name_of(static_cast<magicube::dtype>(t.type)), " to ",
                name_of(static_cast<magicube::dtype>(t.out)), ", ", t.m, " x ", t.k, " x ", t.n,
                ", V ", t.v, ", S ", t.s, ", seed ", t.seed);
}

}  // namespace support
