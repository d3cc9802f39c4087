// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/ops/sddmm_case.hpp"
#include "core/types/pairs.hpp"

using namespace magicube;
using support::kind;
using support::run;
using support::sddmm_case;

namespace {

sddmm_case case_of(dtype type) {
    sddmm_case test;
    test.type = static_cast<kind>(type);
    test.out = is_integer(type) ? kind::int32 : kind::fp32;
    return test;
}

}  // namespace

TEST_CASE("SDDMM: every type with every vector length and stride") {
    uint64_t seed = 0;
    for (const auto pair : sddmm_pairs) {
        for (const int64_t v : {1, 2, 4, 8, 16, 32, 64}) {
            for (const int64_t s : {1, 8, 16, 32}) {
                auto test = case_of(pair.lhs);
                test.v = v;
                test.s = s;
                test.m = 2 * v + v / 2 + 1;
                test.seed = ++seed;
                test.offsets32 = seed % 2 == 0;
                test.a_col = seed % 3 == 0;
                test.b_col = seed % 4 == 0;
                test.mask = seed % 5 == 0;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SDDMM: every output type after every type, with scales") {
    uint64_t seed = 100;
    for (const auto pair : sddmm_pairs) {
        for (const kind out : {kind::fp32, kind::fp16, kind::bf16, kind::int16, kind::int8}) {
            for (const bool tensor : {false, true}) {
                auto test = case_of(pair.lhs);
                test.out = out;
                test.alpha = is_integer(pair.lhs) ? -0.001953f : 0.37f;
                test.a_scale = tensor ? granularity::tensor : granularity::row;
                test.b_scale = tensor ? granularity::tensor : granularity::col;
                test.out_scale = !support::is_float(out);
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SDDMM: integer outputs saturate") {
    for (const kind type : {kind::int16, kind::int8, kind::int4}) {
        for (const kind out : {kind::int16, kind::int8}) {
            sddmm_case test;
            test.type = type;
            test.out = out;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("issue_20_sddmm_every_tail_of_m_n_and_k") {
    uint64_t seed = 1000;
    for (int64_t size = 1; size <= 70; ++size) {
        for (int direction = 0; direction < 3; ++direction) {
            auto test = case_of(sddmm_pairs[seed % std::size(sddmm_pairs)].lhs);
            test.m = direction == 0 ? size : 9;
            test.n = direction == 1 ? size : 21;
            test.k = direction == 2 ? size : 5;
            test.seed = ++seed;
            test.a_col = seed % 2 == 0;
            test.b_col = seed % 3 == 0;
            test.gap = static_cast<int64_t>(seed % 4);
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("issue_06_sddmm_empty_sums_rows_and_matrices") {
    for (const int64_t v : {1, 8}) {
        sddmm_case test;
        test.v = v;
        test.k = 0;
        test.k_max = 5;
        CHECK(run(test) == "");
        test.k = 37;
        test.k_max = 0;
        test.density = 0;
        CHECK(run(test) == "");
        test.density = 0.3;
        test.n = 0;
        CHECK(run(test) == "");
        test.n = 70;
        test.m = 0;
        CHECK(run(test) == "");
        test.m = 37;
        test.batch = test.pattern_batch = 0;
        CHECK(run(test) == "");
    }
}

TEST_CASE("issue_19_sddmm_batches_of_one_pattern_and_of_different_patterns") {
    uint64_t seed = 3000;
    for (const int64_t pattern_batch : {int64_t{1}, int64_t{5}}) {
        for (const bool different : {false, true}) {
            for (const bool shared : {false, true}) {
                for (const kind type : {kind::int4, kind::int16, kind::fp32}) {
                    if (pattern_batch == 1 && different) continue;
                    sddmm_case test;
                    test.type = type;
                    test.batch = 5;
                    test.pattern_batch = pattern_batch;
                    test.batching = different ? support::batch_kind::different_patterns
                                              : support::batch_kind::one_pattern;
                    test.a_shared = shared;
                    test.b_shared = seed % 2 == 0;
                    test.out_gap = different || seed % 3 == 0 ? 0 : 7;
                    test.scales_per_matrix = shared;
                    test.a_scale = granularity::row;
                    test.b_scale = granularity::col;
                    test.mask = seed % 2 == 0;
                    test.seed = ++seed;
                    CHECK(run(test) == "");
                }
            }
        }
    }
}

TEST_CASE("SDDMM: operands whose rows along K are loaded as they are, of every length") {
    uint64_t seed = 4000;
    for (const auto pair : sddmm_pairs) {
        for (const int64_t v : {1, 2, 8, 16, 32, 64}) {
            for (const int64_t bytes : {16, 48, 64, 80, 128, 144, 320}) {
                auto test = case_of(pair.lhs);
                test.k = bytes * 8 / storage_bits(pair.lhs);
                test.b_col = true;
                test.gap = seed % 2 == 0 ? 0 : 128 / storage_bits(pair.lhs);
                test.v = v;
                test.s = v > 1 && seed % 4 == 0 ? 32 : v == 1 && seed % 4 == 1 ? 1 : 8;
                test.m = v + v / 2 + 3;
                test.n = 90;
                test.density = 0.6;
                test.mask = seed % 5 == 0;
                test.batch = seed % 3 == 0 ? 2 : 1;
                test.out_gap = test.batch == 2 && seed % 2 == 0 ? 3 : 0;
                test.out = seed % 3 == 1 ? kind::fp16 : test.out;
                if (test.out == kind::fp16) test.alpha = is_integer(pair.lhs) ? 0.0004f : 0.3f;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SDDMM: sums beyond 32 bits are exact, and a workspace serves a smaller K") {
    sddmm_case test;
    test.type = kind::int16;
    test.k = 3000;
    test.k_max = 5000;
    test.m = 9;
    test.n = 11;
    CHECK(run(test) == "");
    test.out = kind::int32;
    CHECK(run(test) == "");
}

TEST_CASE("SDDMM: batches that are unpacked in several groups") {
    sddmm_case test;
    test.type = kind::fp32;
    test.v = 2;
    test.m = 3;
    test.n = 7;
    test.k = 1000;
    test.batch = 500;
    CHECK(run(test) == "");
}
