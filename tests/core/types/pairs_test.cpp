// SPDX-License-Identifier: Apache-2.0
#include "core/types/pairs.hpp"

#include <doctest/doctest.h>

using namespace magicube;

TEST_CASE("a sum is 32 bits wide exactly as long as no sum of so many products can pass them") {
    for (const auto pair : spmm_pairs) {
        if (is_floating(pair.lhs)) {
            CHECK(sum_for(pair, 1) == sum_type::float64);
            continue;
        }
        const int64_t largest = largest_product(pair);
        const int64_t terms = ((int64_t{1} << 31) - 1) / largest;
        CHECK(terms * largest <= INT32_MAX);
        CHECK((terms + 1) * largest > INT32_MAX);
        CHECK(sum_for(pair, terms) == sum_type::int32);
        CHECK(sum_for(pair, terms + 1) == sum_type::int64);
    }
    CHECK(largest_product({dtype::int8, dtype::int8}) == 16384);
    CHECK(largest_product({dtype::uint8, dtype::int8}) == 255 * 128);
    CHECK(largest_product({dtype::int16, dtype::int4}) == 32768 * 8);
}

TEST_CASE("the pairs of the operations") {
    CHECK(contains(spmm_pairs, {dtype::uint8, dtype::int4}));
    CHECK_FALSE(contains(spmm_pairs, {dtype::int8, dtype::uint8}));
    CHECK_FALSE(contains(sddmm_pairs, {dtype::uint8, dtype::uint8}));
    CHECK(list_of(sddmm_pairs).rfind("int16/int16, int8/int8, int4/int4, fp32/fp32", 0) == 0);
    CHECK(is_product_output(dtype::int8, dtype::int32, false));
    CHECK_FALSE(is_product_output(dtype::fp16, dtype::int32, false));
    CHECK_FALSE(is_product_output(dtype::int8, dtype::int16, false));
    CHECK(is_product_output(dtype::int8, dtype::int16, true));
}
