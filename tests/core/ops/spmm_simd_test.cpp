// SPDX-License-Identifier: Apache-2.0
// cpu_simd at every level of instructions that this processor has.
#include <doctest/doctest.h>

#include <string>

#include "core/ops/simd_levels.hpp"
#include "core/ops/spmm_case.hpp"
#include "core/ops/views.hpp"
#include "core/types/pairs.hpp"

using namespace magicube;
using support::case_of;
using support::each_level;
using support::kind;
using support::run;
using support::spmm_case;

TEST_CASE("SpMM simd: every pair and vector length at every level, with every tail") {
    each_level([](uint64_t level) {
        uint64_t seed = 20'000 + 1000 * level;
        for (const auto pair : spmm_pairs) {
            for (const int64_t v : {1, 2, 4, 8, 16, 32, 64}) {
                auto test = case_of(pair);
                test.v = v;
                test.s = pair.lhs == dtype::int4 || seed % 3 ? 8 : 1;
                test.m = 3 * v + v / 2 + v % 2;
                test.k = 90 + static_cast<int64_t>(seed % 7);
                test.n = 60 + static_cast<int64_t>(seed % 75);
                test.b_col = seed % 2 == 0;
                test.c_col = seed % 5 == 0;
                test.mask = seed % 4 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE(
    "SpMM simd: rows of several segments at every level, exact where 32 bits do not suffice") {
    each_level([](uint64_t level) {
        uint64_t seed = 30'000 + 1000 * level;
        for (const auto pair : spmm_pairs) {
            for (const bool extreme : {false, true}) {
                if (extreme && !is_integer(pair.lhs)) continue;
                auto test = case_of(pair);
                test.extreme = extreme;
                test.m = 11;
                test.k = 1500;
                test.n = 7;
                test.long_block_row = 0;
                test.c = is_integer(pair.lhs) && seed % 2 ? kind::int32 : kind::fp32;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE("SpMM simd: epilogues, batches and value modes at every level") {
    each_level([](uint64_t level) {
        uint64_t seed = 40'000 + 1000 * level;
        for (const auto pair : spmm_pairs) {
            for (const auto mode :
                 {value_mode::fixed, value_mode::updatable, value_mode::per_call}) {
                auto test = case_of(pair);
                constexpr kind outputs[] = {kind::fp32, kind::fp16, kind::bf16, kind::int8};
                test.c = outputs[seed % 4];
                test.c_scale = test.c == kind::int8;
                test.values = mode;
                test.alpha = is_integer(pair.lhs) ? -0.001953f : 0.37f;
                test.beta = seed % 2 ? 0.75f : 0.0f;
                test.a_scale = granularity::row;
                test.b_scale = granularity::col;
                test.bias = true;
                test.scales_per_matrix = true;
                test.function = static_cast<activation>(seed % 3);
                test.batch = 3;
                test.a_batch = seed % 3 ? 3 : 1;
                if (seed % 3 == 2) test.batching = support::batch_kind::different_patterns;
                test.b_shared = seed % 5 == 0;
                test.n = 70;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE(
    "SpMM simd: narrow tiles, where C has up to 32 columns, and plans that have both widths") {
    each_level([](uint64_t level) {
        uint64_t seed = 50'000 + 1000 * level;
        for (const auto pair : spmm_pairs) {
            for (const int64_t n : {1, 2, 3, 8, 15, 16, 17, 31, 32, 33}) {
                auto test = case_of(pair);
                test.n = n;
                test.n_max = seed % 2 ? 100 : n;
                test.v = int64_t{1} << seed % 7;
                test.s = 8;
                test.m = 2 * test.v + 3;
                test.k = 60 + static_cast<int64_t>(seed % 9);
                test.b_col = seed % 3 == 0;
                test.c_col = seed % 5 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE("SpMM simd: a B that is packed in several parts") {
    auto test = case_of({dtype::fp32, dtype::fp32});
    test.m = 9;
    test.k = 70'000;  // a tile takes more than half of what is packed at once
    test.n = 150;
    test.density = 0.0005;
    CHECK(run(test) == "");
    test.batch = 2;
    CHECK(run(test) == "");
    test.b_shared = true;
    CHECK(run(test) == "");
}

TEST_CASE("SpMM: on the CPU simd is chosen, and the reference where it is asked for") {
    const context ctx;
    spmm::problem p;
    p.pattern.type = dtype::int8;
    p.pattern.vector_length = 8;
    p.pattern.rows = p.pattern.cols = 256;
    p.pattern.slots = 800;
    p.n_max = 256;
    const auto list = spmm::operation::implementations();
    CHECK(choose<spmm::operation>(ctx, p, list).chosen->name == std::string("simd"));
    p.implementation = "reference";
    CHECK(choose<spmm::operation>(ctx, p, list).chosen->reference);
}

TEST_CASE("SpMM: a batch of none needs no values") {
    support::generator random(70);
    support::sparse_sample a({kind::int8, 20, 30, 4, 8, 0.4}, random);
    for (const auto* row : spmm::operation::implementations()) {
        if (row->device != device_kind::cpu) continue;
        spmm::problem p;
        p.pattern = support::view_of(a);
        p.pattern.values = nullptr;
        p.pattern.batch_count = p.batch_count = 0;
        p.implementation = row->name;
        CHECK(create_plan<spmm::operation>(context(), p, nullptr, 0) != nullptr);
    }
}

TEST_CASE("SpMM: simd leaves the longest B to the reference, which packs fewer columns at once") {
    const context ctx;
    spmm::problem p;
    p.pattern.type = p.b_type = dtype::fp32;
    p.pattern.vector_length = 8;
    p.pattern.rows = 8;
    p.n_max = 64;
    p.pattern.cols = (int64_t{64} << 20) / (64 * 4);
    const auto list = spmm::operation::implementations();
    CHECK(choose<spmm::operation>(ctx, p, list).chosen->name == std::string("simd"));
    ++p.pattern.cols;
    const auto choice = choose<spmm::operation>(ctx, p, list);
    CHECK(choice.chosen->reference);
    CHECK(choice.reasons.find("64 packed columns of B take 67109120 bytes, more than 67108864") !=
          std::string::npos);
}
