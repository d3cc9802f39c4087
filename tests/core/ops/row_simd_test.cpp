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
#include "support/aligned_buffer.hpp"

using namespace magicube;
using support::kind;
using support::run;

namespace {

constexpr int64_t vector_lengths[] = {1, 2, 4, 8, 16, 32, 64};
constexpr float infinity = std::numeric_limits<float>::infinity();

// At each level that has kernels of its own.
template <class Test>
void each_level(const Test& test) {
    support::each_level(test, simd_level::avx512_vnni);
}

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
                // Short vectors have block rows of more than a tile, long ones a part of a row.
                test.m = v < 16 ? 2 * v + v / 2 + v % 2 : v + v / 2;
                test.n = v < 16 ? 110 + static_cast<int64_t>(seed % 25) : 30;
                test.k = 1 + static_cast<int64_t>(seed * 7 % (v < 16 ? 150 : 70));
                test.density = 0.7;
                test.a_col = seed % 2 == 0;
                test.b_col = seed % 4 == 0;
                test.mask = seed % 5 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE("SDDMM simd: the shortest sums of every type at every level") {
    each_level([](uint64_t level) {
        uint64_t seed = 65'000 + 1000 * level;
        for (const auto pair : sddmm_pairs) {
            for (const int64_t k : {1, 2, 3}) {
                support::sddmm_case test;
                test.type = static_cast<kind>(pair.lhs);
                test.out = is_integer(pair.lhs) ? kind::int32 : kind::fp32;
                test.k = k;
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
                test.m = test.n = 20;
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

TEST_CASE("SDDMM simd: the largest sums, beyond 32 bits, are exact at every level") {
    const int64_t begin[] = {0}, end[] = {5};
    const int32_t cols[8] = {0, 1, 2, 3, 4, -1, -1, -1};
    each_level([&](uint64_t) {
        for (const bool words : {true, false}) {
            const int64_t k = words ? 1003 : 140'003;
            const int64_t lowest = words ? -32768 : -128;
            const auto type = words ? kind::int16 : kind::int8;
            for (const int64_t right : {lowest, -lowest - 1}) {
                support::packed_array a(type, 8 * k), b(type, 5 * k), out(kind::fp32, 64);
                for (int64_t i = 0; i < a.count(); ++i) a.set(i, static_cast<double>(lowest));
                for (int64_t i = 0; i < b.count(); ++i) b.set(i, static_cast<double>(right));
                sddmm::problem p;
                p.pattern.rows = p.pattern.vector_length = p.pattern.stride = 8;
                p.pattern.cols = 5;
                p.pattern.slots = 8;
                p.pattern.row_begin = {begin, index_type::int64};
                p.pattern.row_end = {end, index_type::int64};
                p.pattern.col_indices = cols;
                p.a_type = p.b_type = words ? dtype::int16 : dtype::int8;
                p.k_max = k;
                p.implementation = "simd";
                const context ctx;
                const auto plan = create_plan<sddmm::operation>(ctx, p, nullptr, 0);
                const auto bytes = static_cast<size_t>(plan->resources().needs.workspace_bytes);
                const support::aligned_buffer workspace(bytes);
                sddmm::arguments args;
                args.a = {8, k, k, a.data(), p.a_type};
                args.b = {k, 5, 5, b.data(), p.a_type};
                args.values = out.data();
                args.workspace = workspace.data();
                args.workspace_size = bytes;
                sddmm::execute(ctx, *plan, args);
                const auto sum = static_cast<float>(k * lowest * right);
                for (int64_t v = 0; v < 8; ++v)
                    for (int64_t s = 0; s < 8; ++s)
                        CHECK(static_cast<float>(out.get(v * 8 + s)) == (s < 5 ? sum : 0.0f));
            }
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

TEST_CASE("SparseSoftmax simd: rows of several tiles, written onto the scores") {
    each_level([](uint64_t level) {
        for (const int64_t v : {1, 4}) {
            for (const bool in_place : {false, true}) {
                support::softmax_case test;
                test.v = v;
                test.s = v == 1 ? 1 : 32;
                test.m = 5;
                test.n = 10'000;
                test.density = 0.9;
                test.in_place = in_place;
                test.col_scale = granularity::col;
                test.special_rows = v == 4;
                test.seed = 95'000 + 10 * level + static_cast<uint64_t>(v);
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
        for (const float largest : {0.0f, 0.1f, 3.3f, -87.3f, 1e-20f, 700.0f, 65504.0f}) {
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
