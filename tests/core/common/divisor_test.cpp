// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <random>

#include "core/common/divisor.hpp"

namespace magicube {
namespace {

void check(uint32_t n, uint32_t d) {
    const divisor by(d);
    CAPTURE(n);
    CAPTURE(d);
    REQUIRE(by.value() == d);
    REQUIRE(by.quotient(n) == n / d);
    REQUIRE(by.remainder(n) == n % d);
}

}  // namespace

TEST_SUITE_BEGIN("common/divisor");

TEST_CASE("divisor divides as the operator does, up to the ends of its range") {
    constexpr uint32_t most = (uint32_t{1} << 31) - 1;
    for (uint32_t d = 1; d <= 700; ++d) {
        for (uint32_t n = 0; n <= 1500; ++n) check(n, d);
        for (uint32_t n = most - 3; n <= most; ++n) check(n, d);
    }
    for (int bit = 0; bit < 31; ++bit) {
        const uint32_t power = uint32_t{1} << bit;
        for (const uint32_t d : {power, power + 1, power > 1 ? power - 1 : 1}) {
            for (const uint32_t n : {uint32_t{0}, d - 1, d, most / d * d, most / d * d - 1, most})
                check(n > most ? most : n, d);
        }
    }
    std::mt19937 random(7);
    for (int i = 0; i < 100000; ++i) {
        const uint32_t d = (random() & most) >> random() % 31;
        check(random() & most, d == 0 ? 1 : d);
    }
}

TEST_SUITE_END();

}  // namespace magicube
