// SPDX-License-Identifier: Apache-2.0
#include "core/common/checked.hpp"

#include <doctest/doctest.h>

using namespace magicube;

TEST_CASE("issue_05_sizes_that_overflow_are_refused") {
    CHECK(checked_mul(int64_t{1} << 31, int64_t{1} << 31, "x") == int64_t{1} << 62);
    CHECK_THROWS_WITH_AS(checked_mul(int64_t{1} << 32, int64_t{1} << 31, "the size"),
                         "the size overflows 64 bits: 4294967296 * 2147483648", error);
    CHECK_THROWS_AS(checked_add(INT64_MAX, 1, "x"), error);
}

TEST_CASE("division rounds up without overflow") {
    CHECK(ceil_div(0, 8) == 0);
    CHECK(ceil_div(1, 8) == 1);
    CHECK(ceil_div(16, 8) == 2);
    CHECK(ceil_div(INT64_MAX, 2) == (int64_t{1} << 62));
    CHECK(round_up(17, 8) == 24);
    CHECK(round_up(0, 32) == 0);
}
