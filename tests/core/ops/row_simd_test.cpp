// SPDX-License-Identifier: Apache-2.0
// SDDMM, softmax and attention by simd at every level of instructions that this processor has, and
// what their kernels promise.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/ops/attention_case.hpp"
#include "core/ops/cpu/row_kernels.hpp"
#include "core/ops/sddmm_case.hpp"
#include "core/ops/simd_levels.hpp"
#include "core/ops/softmax_case.hpp"
#include "core/types/pairs.hpp"

using namespace magicube;
using support::each_level;
using support::kind;
using support::run;

namespace {

constexpr int64_t vector_lengths[] = {1, 2, 4, 8, 16, 32, 64};
constexpr float infinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("SDDMM simd: every type and vector length at every level, with every tail") {
    each_level([](uint64_t level) {
        uint64_t seed = 60'000 + 1000 * level;
        for (const auto pair : sddmm_pairs) {
            for (const int64_t v : vector_lengths) {
                support::sddmm_case test;
                test.type = static_cast<kind>(pair.lhs);
                test.out = is_integer(pair.lhs) && seed % 2 ? kind::int32 : kind::fp32;
                test.v = v;
                test.s = seed % 3 ? 16 : 1;
                test.m = 2 * v + v / 2 + v % 2;
                test.n = 60 + static_cast<int64_t>(seed % 75);
                test.k = 1 + static_cast<int64_t>(seed * 7 % 150);
                test.density = 0.6;  // block rows of more than a tile
                test.a_col = seed % 2 == 0;
                test.b_col = seed % 4 == 0;
                test.mask = seed % 5 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE("SDDMM simd: scales, outputs and batches at every level") {
    each_level([](uint64_t level) {
        uint64_t seed = 70'000 + 1000 * level;
        for (const auto pair : sddmm_pairs) {
            for (const kind out : {kind::fp32, kind::fp16, kind::bf16, kind::int16, kind::int8}) {
                support::sddmm_case test;
                test.type = static_cast<kind>(pair.lhs);
                test.out = out;
                test.alpha = is_integer(pair.lhs) ? -0.001953f : 0.37f;
                test.a_scale = granularity::row;
                test.b_scale = granularity::col;
                test.out_scale = !support::is_float(out);
                test.scales_per_matrix = true;
                test.batch = 2;
                test.pattern_batch = seed % 2 ? 2 : 1;
                test.a_shared = seed % 3 == 0;
                test.b_shared = seed % 5 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE("SDDMM simd: sums beyond 32 bits are exact at every level") {
    each_level([](uint64_t level) {
        for (const kind type : {kind::int16, kind::int8}) {
            support::sddmm_case test;
            test.type = type;
            test.out = kind::fp32;
            test.m = test.n = 9;
            test.k = type == kind::int16 ? 1003 : 140'003;
            test.density = type == kind::int16 ? 0.5 : 0.1;
            test.seed = 80'000 + level;
            CHECK(run(test) == "");
        }
    });
}

TEST_CASE("SparseSoftmax simd: every type in and out and vector length at every level") {
    constexpr kind outputs[] = {kind::fp32, kind::fp16,  kind::bf16, kind::int16,
                                kind::int8, kind::uint8, kind::int4};
    each_level([&](uint64_t level) {
        uint64_t seed = 90'000 + 1000 * level;
        for (const kind in : {kind::fp32, kind::fp16, kind::int32}) {
            for (const kind out : outputs) {
                support::softmax_case test;
                test.in = in;
                test.out = out;
                if (in == kind::int32) test.alpha = 1.0f / 67108864;
                test.v = vector_lengths[seed % 7];
                test.s = out == kind::int4 || seed % 3 ? 8 : 1;
                test.m = 2 * test.v + 1;
                test.n = 150;
                test.mask = seed % 2 == 0;
                test.bias = seed % 3 == 0;
                if (seed % 4 == 0) test.row_scale = granularity::row;
                if (seed % 5 == 0) test.col_scale = granularity::col;
                test.special_rows = in == kind::fp32 && seed % 2 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE("Attention simd: types, masks, causal rule and special rows at every level") {
    constexpr kind types[] = {kind::fp32, kind::fp16, kind::bf16};
    each_level([&](uint64_t level) {
        uint64_t seed = 100'000 + 1000 * level;
        for (const kind in : types) {
            for (const int64_t v : vector_lengths) {
                support::attention_case test;
                test.in = in;
                test.out = types[seed % 3];
                test.v = v;
                test.lq = 2 * v + v / 2 + v % 2;
                test.dim = 1 + static_cast<int64_t>(seed * 11 % 150);
                test.density = 0.6;
                test.mask = seed % 2 == 0;
                test.causal = seed % 3 == 0;
                test.batch = 2;
                test.q_heads = 4;
                test.kv_heads = 2;
                test.key_lengths = seed % 5 == 0;
                test.special_rows = seed % 7 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE("exponentials are within 1.5 units in the last place, subnormal ones within a unit") {
    each_level([](uint64_t) {
        const auto& kernels = rows_of(usable_level());
        for (const float largest : {0.0f, -87.3f, 1e-20f, 700.0f, 65504.0f}) {
            std::vector<float> x;
            for (int i = 0; i < 4096; ++i) {
                const float below = static_cast<float>(i) * static_cast<float>(i) * 7e-6f;
                x.push_back(largest - below);
            }
            x[7] = -infinity;
            x[8] = -3e38f;
            const auto before = x;
            const double sum = kernels.exponentials(x.data(), 4096, largest);
            double expected = 0;
            bool right = true;
            for (size_t i = 0; i < x.size(); ++i) {
                const double exact =
                    std::exp(static_cast<double>(before[i]) - static_cast<double>(largest));
                expected += exact;
                const double unit = std::fmax(std::ldexp(exact, -23), std::ldexp(1.0, -149));
                right = right && std::fabs(static_cast<double>(x[i]) - exact) <= 1.5 * unit;
            }
            CHECK(right);
            CHECK(std::fabs(sum - expected) <= 1e-7 * expected);
            CHECK(x[7] == 0);
            CHECK(x[8] == 0);
        }
    });
}

TEST_CASE("the largest of a row is NaN where the row has NaN or +infinity") {
    each_level([](uint64_t) {
        const auto& kernels = rows_of(usable_level());
        std::vector<float> x(48, -infinity);
        CHECK(kernels.largest(x.data(), 48) == -infinity);
        x[33] = -5;
        CHECK(kernels.largest(x.data(), 48) == -5);
        x[47] = infinity;
        CHECK(std::isnan(kernels.largest(x.data(), 48)));
        x[47] = std::nanf("");
        CHECK(std::isnan(kernels.largest(x.data(), 48)));
        CHECK(kernels.largest(x.data(), 0) == -infinity);
    });
}

TEST_CASE("Attention simd: hidden keys whose V is NaN or infinite do not contribute") {
    constexpr int64_t length = 16, dim = 20;
    std::vector<float> q(length * dim, 0.5f), k(length * dim, 0.25f), v(length * dim, 2.0f);
    std::vector<float> out(length * dim);
    for (int64_t d = 0; d < dim; ++d) v[static_cast<size_t>(15 * dim + d)] = d % 2 ? NAN : INFINITY;
    std::vector<int32_t> cols;
    for (int32_t i = 0; i < length; ++i) cols.push_back(i);
    const int64_t begin[] = {0, 0}, end[] = {length, length};
    attention::problem p;
    p.pattern.rows = p.pattern.cols = p.pattern.slots = length;
    p.pattern.vector_length = 8;
    p.pattern.row_begin = {begin, index_type::int64};
    p.pattern.row_end = {end, index_type::int64};
    p.pattern.col_indices = cols.data();
    p.in_type = p.out_type = dtype::fp32;
    p.head_dim = dim;
    p.causal = true;
    p.implementation = "simd";
    each_level([&](uint64_t) {
        const context ctx;
        const auto plan = create_plan<attention::operation>(ctx, p, nullptr, 0);
        const auto bytes = static_cast<size_t>(plan->resources().needs.workspace_bytes);
        alignas(256) static char workspace[1 << 20];
        REQUIRE(bytes <= sizeof(workspace));
        attention::arguments args;
        args.q = attention::packed_tensor(q.data(), 1, length, dim);
        args.k = attention::packed_tensor(k.data(), 1, length, dim);
        args.v = attention::packed_tensor(v.data(), 1, length, dim);
        args.out = attention::packed_tensor(out.data(), 1, length, dim);
        args.workspace = workspace;
        args.workspace_size = sizeof(workspace);
        attention::execute(ctx, *plan, args);
        for (int64_t i = 0; i < 15 * dim; ++i)
            CHECK(std::fabs(out[static_cast<size_t>(i)] - 2.0f) < 1e-5f);
        for (int64_t d = 0; d < dim; ++d)
            CHECK_FALSE(std::isfinite(out[static_cast<size_t>(15 * dim + d)]));
    });
}
