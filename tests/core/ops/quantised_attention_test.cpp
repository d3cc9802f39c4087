// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/ops/attention_case.hpp"

using namespace magicube;
using attention::pattern_sharing;
using support::attention_case;
using support::kind;
using support::run;

namespace {

// Type of Q, K and V, and bits of the softmax.
struct scheme {
    kind type;
    int bits;
};
constexpr scheme schemes[] = {{kind::int8, 16}, {kind::int8, 8}, {kind::int4, 8}, {kind::int4, 4}};
constexpr kind outputs[] = {kind::fp32, kind::fp16, kind::bf16};

attention_case case_of(const scheme& s, uint64_t seed) {
    attention_case test;
    test.in = s.type;
    test.bits = s.bits;
    test.out = outputs[seed % 3];
    test.seed = seed;
    return test;
}

}  // namespace

TEST_CASE("Quantised attention: every scheme with every vector length and stride") {
    uint64_t seed = 5000;
    for (const auto& s : schemes) {
        for (const int64_t v : {1, 2, 4, 8, 16, 32, 64}) {
            for (const int64_t stride : {1, 8, 16, 32}) {
                auto test = case_of(s, ++seed);
                test.v = v;
                test.s = stride;
                test.lq = 2 * v + v / 2 + 1;
                test.mask = seed % 2 == 0;
                test.scale_given = seed % 3 == 0;
                test.log_sum_exp = seed % 5 != 0;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("Quantised attention: every head_dim tail, and wide heads") {
    for (const auto& s : schemes) {
        for (int64_t dim = 1; dim <= 40; ++dim) {
            auto test = case_of(s, static_cast<uint64_t>(5200 + dim));
            test.dim = dim;
            test.lk = 33;
            test.gap = dim % 4 == 0 ? 3 : 0;
            CHECK(run(test) == "");
        }
        for (const int64_t dim : {64, 96, 128, 256, 1100}) {
            auto test = case_of(s, static_cast<uint64_t>(5300 + dim));
            test.dim = dim;
            test.lk = 150;
            test.density = 1;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("Quantised attention: every kind of scales") {
    uint64_t seed = 5400;
    constexpr granularity lines[] = {granularity::none, granularity::tensor, granularity::row};
    for (const auto& s : schemes) {
        for (const auto q : lines) {
            for (const auto k : lines) {
                for (const auto v : {granularity::none, granularity::tensor, granularity::col}) {
                    auto test = case_of(s, ++seed);
                    test.q_scale = q;
                    test.k_scale = k;
                    test.v_scale = v;
                    test.batch = 2;
                    test.q_heads = 4;
                    test.kv_heads = 2;
                    test.lq = 11;
                    test.lk = 30;
                    test.dim = 9;
                    CHECK(run(test) == "");
                }
            }
        }
    }
}

TEST_CASE("Quantised attention: batches, grouped heads, patterns, strides, causal rule, lengths") {
    uint64_t seed = 5600;
    for (const auto& s : schemes) {
        for (const auto patterns : {pattern_sharing::shared, pattern_sharing::head,
                                    pattern_sharing::batch, pattern_sharing::batch_head}) {
            for (const bool inside : {false, true}) {
                auto test = case_of(s, ++seed);
                test.batch = 3;
                test.q_heads = 6;
                test.kv_heads = seed % 2 == 0 ? 2 : 6;
                test.patterns = patterns;
                test.heads_inside = inside;
                test.gap = seed % 2 == 0 ? 0 : 6;
                test.shared_kv = seed % 5 == 0;
                test.lq = 19;
                test.lk = 40;
                test.v = 4;
                test.causal = seed % 3 != 0;
                test.causal_offsets = test.causal && seed % 2 == 0;
                test.key_lengths = seed % 4 < 2;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("Quantised attention: scores that are equal, zero, large, infinite or NaN") {
    uint64_t seed = 5700;
    for (const auto& s : schemes) {
        for (const double magnitude : {0.0, 1e-6, 0.5, 100.0}) {
            auto test = case_of(s, ++seed);
            test.magnitude = magnitude;
            test.mask = true;
            CHECK(run(test) == "");
        }
        auto special = case_of(s, ++seed);
        special.special_rows = true;
        CHECK(run(special) == "");
    }
}

TEST_CASE("Quantised attention: empty rows and matrices") {
    for (const auto& s : schemes) {
        auto test = case_of(s, 5800);
        test.density = 0;
        CHECK(run(test) == "");
        test.density = 0.3;
        test.lk = 0;
        CHECK(run(test) == "");
        test.lk = 70;
        test.lq = 0;
        CHECK(run(test) == "");
        test.lq = 37;
        test.batch = 0;
        CHECK(run(test) == "");
    }
}
