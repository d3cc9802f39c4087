// SPDX-License-Identifier: Apache-2.0
#include "core/ops/softmax_case.hpp"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/ops/every_implementation.hpp"
#include "core/ops/scale_sample.hpp"
#include "core/ops/views.hpp"

namespace support {
namespace {

using magicube::granularity;
using magicube::text;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct softmax_run {
    const softmax_case& test;
    generator random;
    sparse_sample pattern;
    scale_sample row_scale, col_scale;
    int64_t stride;  // of scores and output
    int64_t bias_stride;
    packed_array scores;
    packed_array bias;
    packed_array out;
    packed_array out_scale;
    // Where exponentials are fp32, what the rounding of subnormal ones loses, and how far integers
    // may lie beyond their rounding, as part of the largest; others round as the reference does.
    double lost = 0, beyond = 1e-9;

    explicit softmax_run(const softmax_case& t)
        : test(t),
          random(t.seed),
          pattern({kind::int8, t.m, t.n, t.v, t.s, t.density, t.mask, false, t.pattern_batch,
                   t.batching, 0, 0, 0},
                  random),
          row_scale(t.row_scale, t.m, t.per_matrix, t.batch, random),
          col_scale(t.col_scale, t.n, t.per_matrix, t.batch, random),
          stride(pattern.different() ? 0 : pattern.value_count() + t.stride_gap),
          bias_stride(t.per_matrix && !pattern.different() ? pattern.value_count() : 0),
          scores(t.in, length(stride), 0xff),  // NaN wherever no element is
          bias(kind::fp32, length(bias_stride), 0xff),
          out(t.out, length(stride), 0x77),
          out_scale(kind::fp32, t.m * t.batch, 0x77) {
        for (int64_t b = 0; b < t.batch; ++b) {
            pattern.each_element(
                t.pattern_batch == 1 ? 0 : b, [&](int64_t, int64_t, int64_t slot, int64_t v) {
                    const int64_t at = pattern.position(slot, v);
                    scores.set(b * stride + at, random_score());
                    bias.set(b * bias_stride + at,
                             static_cast<double>(uniform(random, -1024, 1024)) / 512);
                });
        }
        if (t.special_rows) make_special_rows();
    }

    int64_t length(int64_t distance) const {
        return pattern.value_count() + distance * std::max<int64_t>(test.batch - 1, 0);
    }

    double random_score() {
        if (test.in == kind::int32) return random_value(random, kind::int32);
        return static_cast<double>(uniform(random, -1024, 1024)) / 64;
    }

    // Row r of the first matrix: -infinity alone, with one NaN, with +infinity, with -infinity.
    void make_special_rows() {
        pattern.each_element(0, [&](int64_t row, int64_t, int64_t slot, int64_t v) {
            const int64_t at = pattern.position(slot, v);
            if (row % 5 == 0) scores.set(at, -infinity);
            if (row % 5 == 1 && slot % 4 == 0) scores.set(at, std::nan(""));
            if (row % 5 == 2 && slot % 4 == 0) scores.set(at, infinity);
            if (row % 5 == 3 && slot % 4 == 0) scores.set(at, -infinity);
        });
    }

    magicube::softmax::problem problem(mirror& device, const char* implementation) {
        magicube::softmax::problem p;
        p.pattern = view_on(device, pattern);
        p.pattern.values = nullptr;
        p.in_type = static_cast<magicube::dtype>(test.in);
        p.out_type = static_cast<magicube::dtype>(test.out);
        p.batch_count = test.batch;
        p.in_batch_stride = test.stride_gap == 0 ? 0 : stride;
        p.out_batch_stride = p.in_batch_stride;
        p.row_scale = row_scale.shape;
        p.col_scale = col_scale.shape;
        p.bias = test.bias;
        p.bias_batch_stride = bias_stride;
        p.implementation = implementation;
        return p;
    }

    float x_of(int64_t batch, int64_t i, int64_t j, int64_t position) const {
        float s = test.alpha;
        if (row_scale.shape.present()) s = s * row_scale.at(batch, i);
        if (col_scale.shape.present()) s = s * col_scale.at(batch, j);
        const auto score = static_cast<float>(scores.get(batch * stride + position));
        const auto summand = static_cast<float>(bias.get(batch * bias_stride + position));
        return std::fma(s, score, test.bias ? summand : 0.0f);
    }

    // Elements of one row: position in the value array, and x.
    using row_elements = std::vector<std::pair<int64_t, float>>;

    std::string check_row(const row_elements& row, double scale, int64_t batch,
                          const packed_array& result) const {
        double largest = -infinity;
        bool invalid = false;
        for (const auto& [at, x] : row) {
            largest = std::fmax(largest, static_cast<double>(x));
            invalid = invalid || std::isnan(x) || x == infinity;
        }
        const bool empty = largest == -infinity && !invalid;
        long double sum = 0;
        for (const auto& [at, x] : row) sum += std::exp(static_cast<long double>(x) - largest);
        const double highest = limits_of(test.out).highest;
        if (!is_float(test.out)) {
            const double right = invalid ? std::nan("")
                                 : empty ? 1
                                         : static_cast<double>(1 / (sum * highest));
            const bool fits = invalid || empty ? same_number(scale, right)
                                               : std::fabs(scale - right) <= 1e-6 * right;
            if (!fits) return text("a scale is ", scale, " instead of ", right);
        }
        for (const auto& [at, x] : row) {
            const double found = result.get(batch * stride + at);
            const auto e = static_cast<double>(std::exp(static_cast<long double>(x) - largest));
            double right = static_cast<double>(e / sum);
            double bound = 1e-6 * right + 0.5001 * spacing(test.out, right) + lost;
            if (!is_float(test.out)) {
                right = e * highest;
                bound = 0.5 + beyond * highest;
            }
            if (empty || (invalid && !is_float(test.out))) right = bound = 0;
            const bool fits = invalid && is_float(test.out) ? std::isnan(found)
                                                            : std::fabs(found - right) <= bound;
            if (!fits) return text("an element is ", found, " instead of ", right);
        }
        return {};
    }

    std::string check(const packed_array& result, const packed_array& scales) const {
        auto expected = test.in_place ? scores : out;
        for (int64_t batch = 0; batch < test.batch; ++batch) {
            if (batch == 0 || !pattern.different()) {
                for (int64_t i = 0; i < pattern.value_count(); ++i)
                    expected.set(batch * stride + i, 0);
            }
            std::vector<row_elements> rows(static_cast<size_t>(test.m));
            const int64_t matrix = test.pattern_batch == 1 ? 0 : batch;
            pattern.each_element(matrix, [&](int64_t i, int64_t j, int64_t slot, int64_t v) {
                const int64_t at = pattern.position(slot, v);
                rows[static_cast<size_t>(i)].emplace_back(at, x_of(batch, i, j, at));
                expected.set_raw(batch * stride + at, result.raw(batch * stride + at));
            });
            for (int64_t i = 0; i < test.m; ++i) {
                const auto wrong = check_row(rows[static_cast<size_t>(i)],
                                             scales.get(batch * test.m + i), batch, result);
                if (!wrong.empty()) return text("row ", i, " of matrix ", batch, ": ", wrong);
            }
        }
        if (is_float(test.out) && scales.bytes() != out_scale.bytes()) return "scales were written";
        return expected.bytes() == result.bytes() ? ""
                                                  : "padding is not 0, or bytes around changed";
    }

    std::string execute(const magicube::context& ctx, const char* implementation) {
        if (implementation == std::string("simd")) lost = std::ldexp(1.0, -149), beyond = 1e-6;
        mirror device(ctx);
        const auto p = problem(device, implementation);
        operation_memory<magicube::softmax::operation> memory(device, ctx, p);
        auto result = test.in_place ? scores : out;
        auto scales = out_scale;
        magicube::softmax::arguments args;
        args.alpha = &test.alpha;
        args.out = put_array(device, result);
        args.scores = test.in_place ? args.out : put_array(device, scores);
        args.row_scale = put_floats(device, row_scale.data);
        args.col_scale = put_floats(device, col_scale.data);
        args.bias = static_cast<const float*>(put_array(device, bias));
        args.out_scale = static_cast<float*>(put_array(device, scales));
        memory.lend_workspace(args);
        magicube::softmax::execute(ctx, memory.plan(), args);
        fetch_array(device, result);
        fetch_array(device, scales);
        const auto wrong = memory.check();
        return wrong.empty() ? check(result, scales) : wrong;
    }
};

}  // namespace

std::string run(const softmax_case& t) {
    return run_everywhere<softmax_run, magicube::softmax::operation>(t, 0);
}

std::string describe(const softmax_case& t) {
    return text(name_of(static_cast<magicube::dtype>(t.in)), " to ",
                name_of(static_cast<magicube::dtype>(t.out)), ", ", t.m, " x ", t.n, ", V ", t.v,
                ", S ", t.s, ", seed ", t.seed);
}

}  // namespace support
