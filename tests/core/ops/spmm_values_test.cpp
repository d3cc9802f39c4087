// SPDX-License-Identifier: Apache-2.0
// SpMM where values are read in the public layout: every stride, vector length and alignment in
// every value mode; and sums of integers at the ends of their ranges.
#include <doctest/doctest.h>

#include "core/ops/spmm_case.hpp"
#include "core/types/pairs.hpp"

using namespace magicube;
using support::allowed;
using support::case_of;
using support::kind;
using support::run;
using support::spmm_case;

TEST_CASE("SpMM: every value mode with every vector length and stride") {
    uint64_t seed = 5000;
    for (const auto mode : {value_mode::updatable, value_mode::per_call}) {
        for (const int64_t v : {1, 2, 4, 8, 16, 32, 64}) {
            for (const int64_t s : {1, 8, 16, 32}) {
                auto test = case_of(spmm_pairs[seed % std::size(spmm_pairs)]);
                test.values = mode;
                test.v = v;
                test.s = s;
                test.m = 3 * v + v / 2;
                test.k = 150;
                test.n = 70;
                test.density = 0.6;
                test.seed = ++seed;
                if (allowed(test)) CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SpMM: values of each call at any address of an element") {
    uint64_t seed = 6000;
    for (const auto pair : spmm_pairs) {
        for (const int64_t shift : {2, 8, 14}) {
            auto test = case_of(pair);
            test.values = value_mode::per_call;
            test.value_shift = shift;
            test.v = seed % 2 ? 8 : 32;
            test.s = 32;
            test.m = 70;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("SpMM: rows of many steps, whose numbers of slots leave every remainder") {
    uint64_t seed = 7000;
    for (const auto pair : spmm_pairs) {
        for (const int64_t v : {2, 8, 16, 64}) {
            auto test = case_of(pair);
            test.v = v;
            test.s = 8;
            test.m = 9 * v + 1;
            test.k = 400;
            test.n = 9;
            test.density = 0.5;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("issue_20 SpMM: sums of 200,000 extreme products are exact") {
    constexpr int64_t vector_lengths[] = {8, 2, 16};
    // One of each way to divide operands into byte planes.
    constexpr precision_pair pairs[] = {{dtype::int16, dtype::int16},
                                        {dtype::int16, dtype::int8},
                                        {dtype::int8, dtype::int8},
                                        {dtype::uint8, dtype::int8}};
    uint64_t seed = 8000;
    for (const auto pair : pairs) {
        auto test = case_of(pair);
        test.c = seed % 2 ? kind::int32 : kind::fp32;
        test.extreme = true;
        test.v = vector_lengths[seed % 3];
        test.s = 32;
        test.m = 8;
        test.k = 200'000;
        test.n = 2;
        test.long_block_row = 0;
        test.seed = ++seed;
        CHECK(run(test) == "");
    }
}
