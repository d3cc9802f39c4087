// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/ops/spmm_case.hpp"
#include "core/types/pairs.hpp"

using namespace magicube;
using support::allowed;
using support::case_of;
using support::kind;
using support::run;
using support::spmm_case;

namespace {

constexpr int64_t vector_lengths[] = {1, 2, 4, 8, 16, 32, 64};
constexpr int64_t strides[] = {1, 8, 16, 32};

}  // namespace

TEST_CASE("SpMM: every pair of types with every vector length and stride") {
    uint64_t seed = 0;
    for (const auto pair : spmm_pairs) {
        for (const int64_t v : vector_lengths) {
            for (const int64_t s : strides) {
                auto test = case_of(pair);
                test.v = v;
                test.s = s;
                test.m = 2 * v + v / 2 + 1;
                test.seed = ++seed;
                test.offsets32 = seed % 2 == 0;
                test.b_col = seed % 3 == 0;
                test.mask = seed % 5 == 0;
                if (allowed(test)) CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SpMM: every output type after every pair, through the whole epilogue") {
    constexpr kind outputs[] = {kind::fp32, kind::fp16, kind::bf16, kind::int8};
    uint64_t seed = 100;
    for (const auto pair : spmm_pairs) {
        for (const kind c : outputs) {
            for (const auto function : {activation::none, activation::relu, activation::gelu}) {
                auto test = case_of(pair);
                test.c = c;
                test.alpha = is_integer(pair.lhs) ? -0.001953f : 0.37f;
                test.beta = 0.75f;
                test.a_scale = seed % 2 ? granularity::row : granularity::tensor;
                test.b_scale = seed % 3 ? granularity::col : granularity::tensor;
                test.bias = true;
                test.c_scale = c == kind::int8;
                test.function = function;
                test.c_col = seed % 4 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SpMM: int8 outputs saturate and round to even in the middle of their range too") {
    spmm_case test;
    test.c = kind::int8;
    for (const float alpha : {1.0f, 0.5f, 0.01f, 0.001f}) {
        test.alpha = alpha;
        test.c_scale = alpha != 1;
        CHECK(run(test) == "");
    }
}

TEST_CASE("SpMM: beta of 1 adds C to int32 sums modulo 2^32") {
    spmm_case test;
    test.c = kind::int32;
    test.beta = 1;
    for (const kind a : {kind::int16, kind::int8}) {
        test.a = test.b = a;
        CHECK(run(test) == "");
    }
}

TEST_CASE("issue_20_spmm_every_tail_of_m_n_and_k") {
    uint64_t seed = 1000;
    for (int64_t size = 1; size <= 70; ++size) {
        for (int direction = 0; direction < 3; ++direction) {
            spmm_case test = case_of(spmm_pairs[seed % std::size(spmm_pairs)]);
            test.m = direction == 0 ? size : 9;
            test.k = direction == 1 ? size : 21;
            test.n = direction == 2 ? size : 5;
            test.seed = ++seed;
            test.b_col = seed % 2 == 0;
            test.c_col = seed % 3 == 0;
            test.gap = static_cast<int64_t>(seed % 4);
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("issue_20_spmm_n_around_the_tile_widths_odd_and_even_chunk_counts") {
    uint64_t seed = 2000;
    for (const int64_t n : {31, 32, 33, 255, 256, 257, 300, 513}) {
        for (const int64_t v : {1, 8, 64}) {
            spmm_case test;
            test.c = kind::int32;
            test.v = v;
            test.m = v + 1;
            test.k = 40 + 16 * static_cast<int64_t>(seed % 3);
            test.n = n;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("issue_06_spmm_empty_sums_rows_and_matrices") {
    for (const int64_t v : {1, 8}) {
        spmm_case test;
        test.v = v;
        test.beta = 0.5f;
        test.bias = true;
        test.function = activation::gelu;
        test.k = 0;
        CHECK(run(test) == "");
        test.k = 70;
        test.density = 0;
        CHECK(run(test) == "");
        test.density = 0.3;
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

TEST_CASE("SpMM: dense, a single vector, and so few that block rows are empty") {
    uint64_t seed = 5000;
    for (const auto pair : spmm_pairs) {
        for (const int64_t v : {1, 8, 16, 64}) {
            for (const double density : {1.0, 0.0004, 0.01}) {
                auto test = case_of(pair);
                test.v = v;
                test.s = 16;
                test.m = 10 * v + v / 2;
                test.k = 150;
                test.n = 9;
                test.density = density;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("issue_20_spmm_k_of_200000") {
    uint64_t seed = 6000;
    for (const auto pair :
         {precision_pair{dtype::int8, dtype::int8}, precision_pair{dtype::int16, dtype::int8},
          precision_pair{dtype::fp16, dtype::fp16}}) {
        for (const double density : {0.02, 0.4}) {
            auto test = case_of(pair);
            test.m = 9;
            test.k = 200000;
            test.n = 3;
            test.density = density;
            test.b_col = seed % 2 == 0;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("issue_19_spmm_batches_of_one_pattern_of_shared_values_and_of_different_patterns") {
    uint64_t seed = 3000;
    for (const auto batching :
         {support::batch_kind::one_pattern, support::batch_kind::shared_values,
          support::batch_kind::different_patterns}) {
        for (const int64_t a_batch : {int64_t{1}, int64_t{5}}) {
            for (const bool shared : {false, true}) {
                for (const kind a : {kind::int4, kind::int16, kind::fp32}) {
                    if (a_batch == 1 && batching != support::batch_kind::one_pattern) continue;
                    spmm_case test;
                    test.a = a;
                    test.b = a;
                    test.batch = 5;
                    test.a_batch = a_batch;
                    test.batching = batching;
                    test.b_shared = shared;
                    test.scales_per_matrix = shared;
                    test.a_scale = granularity::row;
                    test.b_scale = granularity::col;
                    test.bias = true;
                    test.beta = 2;
                    test.mask = seed % 2 == 0;
                    test.values = static_cast<value_mode>(seed % 3);
                    test.seed = ++seed;
                    CHECK(run(test) == "");
                }
            }
        }
    }
}

TEST_CASE("SpMM: values that are updated or given with each call") {
    uint64_t seed = 4000;
    for (const auto pair : spmm_pairs) {
        for (const auto values : {value_mode::updatable, value_mode::per_call}) {
            auto test = case_of(pair);
            test.values = values;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("SpMM: sums beyond 32 bits are exact, and a workspace serves a smaller N") {
    spmm_case test;
    test.a = kind::int16;
    test.b = kind::int16;
    test.k = 3000;
    test.m = 9;
    test.n = 4;
    test.density = 0.9;
    test.n_max = 1000;
    CHECK(run(test) == "");
    test.c = kind::int32;
    CHECK(run(test) == "");
}

TEST_CASE("SpMM: operands that are unpacked in several panels or groups of matrices") {
    spmm_case test;
    test.a = test.b = kind::fp32;
    test.v = 2;
    test.m = 3;
    test.density = 0.002;
    test.k = 17000;
    test.n = 260;
    CHECK(run(test) == "");
    test.density = 0.1;
    test.k = 300;
    test.n = 16;
    test.batch = 900;
    CHECK(run(test) == "");
}

TEST_CASE("SpMM: one thread and many give the same") {
    for (const int threads : {1, 2, 7}) {
        spmm_case test;
        test.threads = threads;
        test.m = 300;
        CHECK(run(test) == "");
    }
}
