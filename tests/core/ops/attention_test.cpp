// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/ops/attention_case.hpp"

using namespace magicube;
using attention::pattern_sharing;
using support::attention_case;
using support::kind;
using support::run;

namespace {

constexpr kind types[] = {kind::fp32, kind::fp16, kind::bf16};
constexpr pattern_sharing sharings[] = {pattern_sharing::shared, pattern_sharing::head,
                                        pattern_sharing::batch, pattern_sharing::batch_head};

attention_case case_of(kind in, kind out) {
    attention_case test;
    test.in = in;
    test.out = out;
    return test;
}

}  // namespace

TEST_CASE("Attention: every type in and out with every vector length and stride") {
    uint64_t seed = 0;
    for (const kind in : types) {
        for (const kind out : types) {
            for (const int64_t v : {1, 2, 4, 8, 16, 32, 64}) {
                for (const int64_t s : {1, 8, 16, 32}) {
                    auto test = case_of(in, out);
                    test.v = v;
                    test.s = s;
                    test.lq = 2 * v + v / 2 + 1;
                    test.mask = seed % 2 == 0;
                    test.scale_given = seed % 3 == 0;
                    test.log_sum_exp = seed % 5 != 0;
                    test.seed = ++seed;
                    CHECK(run(test) == "");
                }
            }
        }
    }
}

TEST_CASE("Attention: every head_dim tail") {
    for (int64_t dim = 1; dim <= 70; ++dim) {
        auto test = case_of(types[dim % 3], types[dim % 2]);
        test.dim = dim;
        test.lk = 33;
        test.mask = dim % 2 == 0;
        test.seed = static_cast<uint64_t>(100 + dim);
        CHECK(run(test) == "");
    }
    auto wide = case_of(kind::fp16, kind::fp16);
    wide.dim = 256;
    CHECK(run(wide) == "");
}

TEST_CASE("Attention: batches, grouped heads, patterns of each kind, strides of each kind") {
    uint64_t seed = 1000;
    for (const auto patterns : sharings) {
        for (const int64_t kv_heads : {int64_t{1}, int64_t{2}, int64_t{6}}) {
            for (const bool inside : {false, true}) {
                auto test = case_of(types[seed % 3], types[seed % 2]);
                test.batch = 3;
                test.q_heads = 6;
                test.kv_heads = kv_heads;
                test.patterns = patterns;
                test.heads_inside = inside;
                test.gap = seed % 2 == 0 ? 0 : 5;
                test.shared_kv = seed % 5 == 0;
                test.lq = 19;
                test.lk = 40;
                test.v = 4;
                test.mask = seed % 2 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("Attention: causal rule and key lengths are exact to the element for every V") {
    uint64_t seed = 2000;
    for (const int64_t v : {1, 2, 4, 8, 16, 32, 64}) {
        for (const int64_t offset : {-45, -3, 0, 1, 33}) {
            for (const int kinds : {0, 1, 2}) {
                auto test = case_of(kind::fp32, kind::fp32);
                test.batch = 3;
                test.v = v;
                test.density = 1;
                test.causal = true;
                test.causal_offset = offset;
                test.causal_offsets = kinds == 1;
                test.key_lengths = kinds == 2;
                test.dim = 8;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
        auto lengths = case_of(kind::fp16, kind::fp32);
        lengths.batch = 4;
        lengths.v = v;
        lengths.key_lengths = true;
        lengths.mask = true;
        lengths.seed = ++seed;
        CHECK(run(lengths) == "");
    }
}

TEST_CASE("Attention: large, equal and zero scores") {
    for (const double magnitude : {0.0, 1e-6, 100.0}) {
        for (const kind in : types) {
            auto test = case_of(in, kind::fp32);
            test.magnitude = magnitude;
            test.mask = true;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("Attention: queries with NaN or infinity") {
    for (const kind in : types) {
        for (const kind out : types) {
            auto test = case_of(in, out);
            test.special_rows = true;
            test.mask = true;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("Attention: keys with NaN or infinity reach the queries that see them alone") {
    uint64_t seed = 2500;
    for (const kind in : types) {
        for (const int64_t v : {1, 8, 16, 64}) {
            auto test = case_of(in, kind::fp32);
            test.special_keys = true;
            test.v = v;
            test.density = 0.2;
            test.mask = true;
            test.causal = v != 8;
            test.causal_offset = test.causal ? 5 : 0;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("Attention: wide heads, many keys, and rows that are copied 16 bytes at a time") {
    uint64_t seed = 2600;
    for (const int64_t v : {1, 4, 8, 16, 32, 64}) {
        for (const int64_t dim : {64, 96, 128, 200, 256}) {
            auto test = case_of(seed % 2 == 0 ? kind::fp16 : kind::bf16, kind::fp32);
            test.v = v;
            test.s = seed % 3 == 0 ? 8 : 32;
            test.dim = dim;
            test.gap = seed % 4 == 0 ? 8 : 0;
            test.lq = v + 9;
            test.lk = 101 + static_cast<int64_t>(seed % 60);
            test.density = seed % 2 == 0 ? 1 : 0.5;
            test.mask = seed % 5 < 2;
            test.causal = seed % 3 != 1;
            test.causal_offset = test.causal ? test.lk - test.lq : 0;
            test.q_heads = 2;
            test.batch = 2;
            test.key_lengths = seed % 7 < 2;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("issue_20_attention_every_tail_of_queries_and_keys") {
    uint64_t seed = 3000;
    for (int64_t size = 1; size <= 70; ++size) {
        for (const bool queries : {false, true}) {
            auto test = case_of(types[seed % 3], types[seed % 2]);
            test.lq = queries ? size : 9;
            test.lk = queries ? 21 : size;
            test.dim = 5;
            test.causal = seed % 2 == 0;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("issue_06_attention_empty_rows_and_matrices") {
    for (const kind out : types) {
        auto test = case_of(kind::fp32, out);
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
