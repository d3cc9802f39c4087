// SPDX-License-Identifier: Apache-2.0
// cpu_simd with an A in V:N:M at every level of instructions that this processor has.
#include <doctest/doctest.h>

#include <string>

#include "core/ops/simd_levels.hpp"
#include "core/ops/spmm_case.hpp"
#include "core/ops/vnm_mm/vnm_mm.hpp"

using namespace magicube;
using support::kind;
using support::run;

TEST_CASE("SpMM of V:N:M simd: every pair, V and value mode at every level, with every tail") {
    support::each_level([](uint64_t level) {
        uint64_t seed = 60'000 + 1000 * level;
        for (const auto pair : vnm_pairs)
            for (const int64_t v : {1, 16, 32, 64, 128, 256})
                for (const auto mode :
                     {value_mode::fixed, value_mode::updatable, value_mode::per_call}) {
                    auto test = support::case_of(pair);
                    test.v = v;
                    test.group = 4 + static_cast<int64_t>(seed % 13);
                    test.columns = static_cast<support::selection>(seed % 4);
                    test.values = mode;
                    test.m = v + static_cast<int64_t>(seed % 67);
                    test.k = 90 + static_cast<int64_t>(seed % 17);
                    test.n = 60 + static_cast<int64_t>(seed % 75);
                    test.b_col = seed % 2 == 0;
                    test.c_col = seed % 5 == 0;
                    test.seed = ++seed;
                    CHECK(run(test) == "");
                }
    });
}

TEST_CASE("SpMM of V:N:M simd: long rows at every level, exact where 32 bits do not suffice") {
    support::each_level([](uint64_t level) {
        for (const auto pair : vnm_pairs)
            for (const int64_t k : {1000, 140'000}) {
                auto test = support::case_of(pair);
                test.v = 16;
                test.group = k > 1000 ? 4 : 16;
                test.extreme = is_integer(pair.lhs);
                test.c = is_integer(pair.lhs) && level % 2 ? kind::int32 : kind::fp32;
                test.m = 3;
                test.k = k;
                test.n = 3;
                test.seed = 61'000 + level;
                CHECK(run(test) == "");
            }
    });
}

TEST_CASE("SpMM of V:N:M: on the CPU simd is chosen, and the reference where it is asked for") {
    const context ctx;
    vnm_mm::problem p;
    p.pattern.type = dtype::int8;
    p.pattern.vector_length = 64;
    p.pattern.m = 8;
    p.pattern.rows = p.pattern.cols = 256;
    p.n_max = 256;
    const auto list = vnm_mm::operation::implementations();
    CHECK(choose<vnm_mm::operation>(ctx, p, list).chosen->name == std::string("simd"));
    p.implementation = "reference";
    CHECK(choose<vnm_mm::operation>(ctx, p, list).chosen->reference);
    p.implementation = nullptr;
    p.pattern.cols = (int64_t{64} << 20) / 64 + 1;
    const auto choice = choose<vnm_mm::operation>(ctx, p, list);
    CHECK(choice.chosen->reference);
}
