// SPDX-License-Identifier: Apache-2.0
// SpMM with few columns, which streaming kernels serve: every N up to 64, more in panels, A cut
// into segments of K and parts of warps, rows of very different lengths, two packings in one plan.
#include <doctest/doctest.h>

#include "core/ops/spmm_case.hpp"
#include "core/types/pairs.hpp"

using namespace magicube;
using support::case_of;
using support::kind;
using support::run;
using support::spmm_case;

TEST_CASE("issue_20_spmm_every_n_up_to_64_with_a_plan_for_it_and_for_64") {
    uint64_t seed = 7000;
    for (int64_t n = 1; n <= 64; ++n) {
        for (const int64_t n_max : {n, int64_t{64}}) {
            for (const auto layout : {0, 1, 2, 3}) {
                auto test = case_of(spmm_pairs[seed % std::size(spmm_pairs)]);
                test.m = 29;
                test.k = 131;
                test.n = n;
                test.n_max = n_max;
                test.b_col = layout % 2 == 1;
                test.c_col = layout / 2 == 1;
                test.gap = static_cast<int64_t>(seed % 5);
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SpMM: B and C of few columns whose rows and columns are aligned to 1 to 16 bytes") {
    uint64_t seed = 8000;
    for (const auto pair :
         {precision_pair{dtype::int8, dtype::int8}, precision_pair{dtype::int8, dtype::int4},
          precision_pair{dtype::fp16, dtype::fp16}}) {
        for (const int64_t n : {1, 2, 4, 8, 16, 32, 64}) {
            for (const int64_t gap : {0, 1, 2, 4, 8, 16}) {
                auto test = case_of(pair);
                test.n = n;
                test.gap = gap;
                test.k = 256;
                test.b_col = seed % 2 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SpMM: columns in several panels, and plans for more of them than an execution has") {
    uint64_t seed = 8500;
    for (const auto pair : spmm_pairs) {
        for (const int64_t n : {65, 127, 256, 385}) {
            auto test = case_of(pair);
            test.m = 61;
            test.k = 300;
            test.n = n;
            test.n_max = seed % 3 == 0 ? 1000 : n;
            test.b_col = seed % 2 == 0;
            test.c_col = seed % 4 < 2;
            test.gap = static_cast<int64_t>(seed % 5);
            test.values = static_cast<value_mode>(seed / 2 % 3);
            test.batch = test.a_batch = seed % 5 == 0 ? 3 : 1;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("SpMM: one block row holds nearly everything") {
    uint64_t seed = 9000;
    for (const auto pair : spmm_pairs) {
        for (const int64_t v : {1, 4, 8, 32}) {
            auto test = case_of(pair);
            test.v = v;
            test.m = 12 * v + 3;
            test.k = 4000;
            test.n = 3;
            test.density = 0.01;
            test.long_block_row = 2;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("SpMM: K in several segments, for many block rows and few, through a batch") {
    uint64_t seed = 10000;
    for (const auto pair :
         {precision_pair{dtype::int4, dtype::int4}, precision_pair{dtype::int8, dtype::int8},
          precision_pair{dtype::int16, dtype::int8}, precision_pair{dtype::bf16, dtype::bf16},
          precision_pair{dtype::e4m3, dtype::e4m3}}) {
        for (const int64_t n : {2, 20}) {
            for (const int64_t batch : {1, 3}) {
                auto test = case_of(pair);
                test.m = 19;
                test.k = 14003;
                test.n = n;
                test.batch = test.a_batch = batch;
                test.b_shared = batch > 1 && seed % 2 == 0;
                if (seed % 3 == 0) test.batching = support::batch_kind::different_patterns;
                test.density = 0.02;
                test.values = static_cast<value_mode>(seed % 3);
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SpMM: more bundles of rows than a streaming kernel holds at once") {
    for (const int64_t n : {1, 20}) {
        spmm_case test;
        test.m = 40007;
        test.k = 24;
        test.n = n;
        test.n_max = n;
        CHECK(run(test) == "");
        test.v = 1;
        test.s = 1;
        CHECK(run(test) == "");
    }
}

TEST_CASE("SpMM: a plan for few columns and for many, in every value mode") {
    uint64_t seed = 11000;
    for (const auto values : {value_mode::fixed, value_mode::updatable, value_mode::per_call}) {
        for (const int64_t n : {1, 16, 17, 33, 64, 65, 300}) {
            spmm_case test;
            test.values = values;
            test.m = 210;
            test.k = 300;
            test.n = n;
            test.n_max = 2000;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}
