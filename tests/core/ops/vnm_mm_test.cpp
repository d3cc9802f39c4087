// SPDX-License-Identifier: Apache-2.0
// SpMM with an A in V:N:M, every implementation against the exact model.
#include "core/ops/vnm_mm/vnm_mm.hpp"

#include <doctest/doctest.h>

#include <string>

#include "core/ops/spmm_case.hpp"

using namespace magicube;
using support::kind;
using support::run;
using support::selection;
using support::spmm_case;

namespace {

constexpr int64_t vector_lengths[] = {1, 16, 32, 64, 128, 256};
constexpr int64_t groups[] = {4, 5, 8, 16, 40, 257, 300};

spmm_case vnm_case(precision_pair pair, int64_t v, int64_t group) {
    auto test = support::case_of(pair);
    test.v = v;
    test.group = group;
    return test;
}

}  // namespace

TEST_CASE("SpMM of V:N:M: every pair with every V, several M, every selection") {
    uint64_t seed = 50'000;
    for (const auto pair : vnm_pairs)
        for (const int64_t v : vector_lengths)
            for (const int64_t group : groups) {
                auto test = vnm_case(pair, v, group);
                test.m = v + v / 2 + 1;
                test.k = 70 + static_cast<int64_t>(seed % 9);
                test.n = 1 + static_cast<int64_t>(seed % 40);
                test.columns = static_cast<selection>(seed % 4);
                test.b_col = seed % 3 == 0;
                test.c_col = seed % 2 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
}

TEST_CASE("SpMM of V:N:M: every tail of M, N and K, groups of 1 to M columns at the end") {
    uint64_t seed = 51'000;
    for (int64_t size = 1; size <= 70; ++size)
        for (int direction = 0; direction < 3; ++direction)
            for (const int64_t group : {4, 8}) {
                auto test = vnm_case(vnm_pairs[seed % std::size(vnm_pairs)], 16, group);
                test.m = direction == 0 ? size : 9;
                test.k = direction == 1 ? size : 21;
                test.n = direction == 2 ? size : 5;
                test.columns = static_cast<selection>(seed % 4);
                test.b_col = seed % 2 == 0;
                test.c_col = seed % 3 == 0;
                test.gap = static_cast<int64_t>(seed % 4);
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
}

TEST_CASE("SpMM of V:N:M: every output through the whole epilogue") {
    uint64_t seed = 52'000;
    for (const auto pair : vnm_pairs)
        for (const kind c : {kind::fp32, kind::fp16, kind::bf16, kind::int8})
            for (const auto function : {activation::none, activation::relu, activation::gelu}) {
                auto test = vnm_case(pair, vector_lengths[seed % 6], 8);
                test.m = 150;
                test.c = c;
                test.alpha = is_integer(pair.lhs) ? -0.001953f : 0.37f;
                test.beta = seed % 5 ? 0.75f : 0.0f;
                test.a_scale = seed % 2 ? granularity::row : granularity::tensor;
                test.b_scale = seed % 3 ? granularity::col : granularity::tensor;
                test.bias = true;
                test.c_scale = c == kind::int8;
                test.function = function;
                test.c_col = seed % 4 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
    for (const float beta : {0.0f, 1.0f}) {
        auto test = vnm_case({dtype::int8, dtype::int8}, 64, 16);
        test.beta = beta;
        CHECK(run(test) == "");
    }
}

TEST_CASE("SpMM of V:N:M: batches and value modes") {
    uint64_t seed = 53'000;
    for (const auto pair : vnm_pairs)
        for (const auto mode : {value_mode::fixed, value_mode::updatable, value_mode::per_call})
            for (const int64_t a_batch : {1, 4})
                for (const bool shared : {false, true}) {
                    auto test = vnm_case(pair, vector_lengths[seed % 6], 7);
                    test.values = mode;
                    test.batch = 4;
                    test.a_batch = a_batch;
                    if (a_batch > 1 && seed % 3 == 0)
                        test.batching = support::batch_kind::shared_values;
                    test.b_shared = shared;
                    test.scales_per_matrix = shared;
                    test.c = kind::fp32;
                    test.a_scale = granularity::row;
                    test.b_scale = granularity::col;
                    test.bias = true;
                    test.value_shift = seed % 2 ? 4 : 0;
                    test.seed = ++seed;
                    CHECK(run(test) == "");
                }
}

TEST_CASE("SpMM of V:N:M: empty sums, rows and matrices") {
    for (const int64_t v : {1, 64}) {
        auto test = vnm_case({dtype::int8, dtype::int8}, v, 8);
        test.c = kind::fp32;
        test.beta = 0.5f;
        test.bias = true;
        test.function = activation::gelu;
        test.k = 0;
        CHECK(run(test) == "");
        test.k = 70;
        test.n = 0;
        test.n_max = 5;
        CHECK(run(test) == "");
        test.n = 37;
        test.n_max = 0;
        test.m = 0;
        CHECK(run(test) == "");
        test.m = 37;
        test.batch = test.a_batch = 0;
        test.bias = false;
        CHECK(run(test) == "");
    }
}

TEST_CASE("SpMM of V:N:M: sums at the ends of their ranges, and beyond 32 bits, are exact") {
    for (const int64_t k : {1000, 280'000}) {
        auto test = vnm_case({dtype::int8, dtype::int8}, 16, 4);
        test.c = kind::fp32;
        test.extreme = true;
        test.m = 3;
        test.k = k;
        test.n = 2;
        CHECK(run(test) == "");
        test.c = kind::int32;
        CHECK(run(test) == "");
    }
}

TEST_CASE("SpMM of V:N:M: many tiles of columns and rows, a smaller N than planned, threads") {
    for (const int threads : {1, 2, 7}) {
        auto test = vnm_case({dtype::int8, dtype::int8}, 64, 8);
        test.threads = threads;
        test.m = 300;
        test.k = 150;
        test.n = 300;
        test.n_max = 1000;
        CHECK(run(test) == "");
    }
    auto test = vnm_case({dtype::fp32, dtype::fp32}, 16, 16);
    test.m = 20;
    test.k = 17'000;
    test.n = 260;
    CHECK(run(test) == "");
}

TEST_CASE("SpMM of V:N:M: wide and narrow tiles, more units than stages, more tiles than CTAs") {
    uint64_t seed = 55'000;
    for (const auto pair :
         {precision_pair{dtype::fp16, dtype::fp16}, precision_pair{dtype::bf16, dtype::bf16},
          precision_pair{dtype::int8, dtype::int8}})
        for (const int64_t v : {1, 32, 64, 128, 256})
            for (const int64_t n : {16, 32, 33, 72, 264, 520}) {
                auto test = vnm_case(pair, v, v == 1 ? 4 : 8);
                test.m = v < 64 ? 140 : 2 * v + 17;
                test.k = n > 72 ? 333 : 1100;
                test.n = n;
                test.gap = seed % 2 ? 0 : 8;
                test.columns = static_cast<selection>(seed % 4);
                test.c = seed % 3 == 0 ? kind::fp32 : seed % 3 == 1 ? kind::fp16 : kind::bf16;
                test.a_scale = seed % 5 ? granularity::none : granularity::row;
                test.b_scale = seed % 7 ? granularity::none : granularity::col;
                test.bias = seed % 4 == 0;
                test.beta = seed % 6 ? 0.0f : 0.5f;
                test.c_col = seed % 11 == 0;
                test.batch = seed % 13 ? 1 : 2;
                test.alpha = is_integer(pair.lhs) ? 0.001953f : 0.37f;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
}

TEST_CASE("SpMM of V:N:M: NaN and infinity in columns that no block row selects never reach C") {
    uint64_t seed = 54'000;
    for (const auto pair : vnm_pairs) {
        if (is_integer(pair.lhs)) continue;
        for (const int64_t v : vector_lengths)
            for (const auto columns : {selection::all_the_same, selection::first, selection::last})
                for (const int64_t k : {64, 65, 67, 70}) {
                    auto test = vnm_case(pair, v, 8);
                    test.m = v == 1 ? 1 : v + 3;
                    test.k = k;
                    test.columns = columns;
                    test.poisoned = true;
                    test.values = static_cast<value_mode>(seed % 3);
                    test.seed = ++seed;
                    CHECK(run(test) == "");
                }
    }
}
