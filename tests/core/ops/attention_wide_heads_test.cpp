// SPDX-License-Identifier: Apache-2.0
// Heads of 64 and 128 elements with many keys, as kernels that keep slabs of keys take them.
#include <doctest/doctest.h>

#include "core/ops/attention_case.hpp"

using namespace magicube;
using attention::pattern_sharing;
using support::attention_case;
using support::kind;
using support::run;

namespace {

struct shape {
    kind type;
    int64_t dim;
};
constexpr shape shapes[] = {
    {kind::int8, 64}, {kind::int8, 128}, {kind::fp16, 64}, {kind::bf16, 64}};

attention_case case_of(const shape& s, uint64_t seed) {
    attention_case test;
    test.in = s.type;
    test.out = seed % 3 == 0 ? kind::fp32 : seed % 3 == 1 ? kind::fp16 : kind::bf16;
    test.bits = s.type == kind::int8 ? 8 : 0;
    test.dim = s.dim;
    test.lk = 300;
    test.density = 0.4;
    test.seed = seed;
    return test;
}

}  // namespace

TEST_CASE("Attention with heads of 64 and 128: every V, tails of queries and keys") {
    uint64_t seed = 8000;
    for (const auto& s : shapes)
        for (const int64_t v : {8, 16, 32, 64}) {
            auto test = case_of(s, ++seed);
            test.v = v;
            test.s = seed % 2 == 0 ? 16 : 8;
            test.lq = v + v / 2 + 3;
            test.lk = 97 + static_cast<int64_t>(seed % 100);
            test.log_sum_exp = seed % 5 != 0;
            test.scale_given = seed % 3 == 0;
            CHECK(run(test) == "");
        }
}

TEST_CASE("Attention with heads of 64 and 128: many slabs of keys, and groups of queries") {
    uint64_t seed = 8100;
    for (const auto& s : shapes) {
        auto test = case_of(s, ++seed);
        test.lk = 1800;
        test.lq = 530;
        test.density = 0.1;
        CHECK(run(test) == "");
        test = case_of(s, ++seed);
        test.lq = 20;
        test.lk = 1700;
        test.density = 0.9;
        test.magnitude = 20;  // one key outweighs the others, and references move often
        CHECK(run(test) == "");
    }
}

TEST_CASE("Attention with heads of 64 and 128: batches, groups of heads, layouts and patterns") {
    uint64_t seed = 8200;
    for (const auto& s : shapes)
        for (const auto patterns : {pattern_sharing::shared, pattern_sharing::head,
                                    pattern_sharing::batch, pattern_sharing::batch_head}) {
            auto test = case_of(s, ++seed);
            test.patterns = patterns;
            test.batch = 2;
            test.q_heads = 4;
            test.kv_heads = seed % 2 == 0 ? 2 : 1;
            test.heads_inside = seed % 2 == 0;
            test.shared_kv = seed % 4 == 1;
            test.lq = 30;
            test.lk = 150;
            CHECK(run(test) == "");
        }
}

TEST_CASE("Attention with heads of 64 and 128: causal rules and key lengths to the element") {
    uint64_t seed = 8300;
    for (const auto& s : shapes)
        for (const int64_t offset : {-20, 0, 75, 3000}) {
            auto test = case_of(s, ++seed);
            test.causal = true;
            test.causal_offset = offset;
            test.causal_offsets = seed % 2 == 0;
            test.key_lengths = seed % 3 == 0;
            test.batch = 2;
            test.v = offset == 0 ? 32 : 8;
            test.lq = 100;
            test.lk = 170;
            CHECK(run(test) == "");
        }
}

TEST_CASE("Attention with heads of 64 and 128: rows that no tensor copy takes, NaN and infinity") {
    uint64_t seed = 8400;
    for (const auto& s : shapes) {
        auto test = case_of(s, ++seed);
        test.gap = 1;
        test.lk = 50;
        CHECK(run(test) == "");
        test = case_of(s, ++seed);
        test.density = 0.01;  // queries without a key
        CHECK(run(test) == "");
        if (s.type == kind::int8) continue;
        test = case_of(s, ++seed);
        test.special_rows = test.special_keys = true;
        CHECK(run(test) == "");
    }
}
