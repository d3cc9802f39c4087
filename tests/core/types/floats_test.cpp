// SPDX-License-Identifier: Apache-2.0
#include "core/types/floats.hpp"

#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace magicube;

namespace {

// Every finite value of a small float, ascending, with its bits; the brute-force rounding below
// searches it.
template <class Small, class Bits>
std::vector<std::pair<double, Bits>> finite_magnitudes(Bits count) {
    std::vector<std::pair<double, Bits>> values;
    for (Bits bits = 0; bits < count; ++bits) {
        Small small;
        small.bits = bits;
        const double value = static_cast<float>(small);
        if (std::isfinite(value)) values.emplace_back(value, bits);
    }
    return values;
}

// The nearest magnitude, ties to the even pattern.
template <class Bits>
Bits nearest(const std::vector<std::pair<double, Bits>>& values, double x) {
    const auto above = std::lower_bound(values.begin(), values.end(), x,
                                        [](const auto& v, double y) { return v.first < y; });
    if (above == values.begin()) return above->second;
    if (above == values.end()) return values.back().second;
    const auto below = above - 1;
    const double up = above->first - x;
    const double down = x - below->first;
    if (up != down) return up < down ? above->second : below->second;
    return above->second % 2 == 0 ? above->second : below->second;
}

template <class Small, class Bits>
void check_rounding(Bits count, float largest, Bits sign) {
    const auto values = finite_magnitudes<Small, Bits>(count);
    REQUIRE(values.back().first == largest);
    for (size_t i = 1; i < values.size(); ++i) REQUIRE(values[i - 1].first < values[i].first);
    std::mt19937 random(1);
    const auto check = [&](float x) {
        if (!(std::abs(x) < largest)) return;
        const Bits expected =
            static_cast<Bits>(nearest(values, std::abs(x)) | (std::signbit(x) ? sign : 0));
        REQUIRE(Small(x).bits == expected);
    };
    for (const auto& [value, bits] : values) check(static_cast<float>(value));
    for (size_t i = 1; i < values.size(); ++i) {  // midpoints and their neighbours
        const float middle = static_cast<float>((values[i - 1].first + values[i].first) / 2);
        for (float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
            check(x);
            check(-x);
        }
    }
    for (int i = 0; i < 200000; ++i) check(float_of(random()));
}

}  // namespace

TEST_CASE("fp16 rounds to nearest even and widens exactly") {
    check_rounding<half, uint16_t>(0x7c00, 65504.0f, 0x8000);
    CHECK(half(65519.996f).bits == 0x7bff);
    CHECK(half(65520.0f).bits == 0x7c00);
    CHECK(half(-1e30f).bits == 0xfc00);
    CHECK(static_cast<float>(half(6e-8f)) == std::ldexp(1.0f, -24));
    CHECK(std::isnan(static_cast<float>(half(std::numeric_limits<float>::quiet_NaN()))));
    half infinity;
    infinity.bits = 0x7c00;
    CHECK(std::isinf(static_cast<float>(infinity)));
}

TEST_CASE("e4m3 rounds to nearest even, saturates and widens exactly") {
    check_rounding<float8_e4m3, uint8_t>(0x7f, 448.0f, 0x80);
    CHECK(float8_e4m3(1e30f).bits == 0x7e);
    CHECK(float8_e4m3(-std::numeric_limits<float>::infinity()).bits == 0xfe);
    CHECK(std::isnan(static_cast<float>(float8_e4m3(std::nanf("")))));
    CHECK(static_cast<float>(float8_e4m3(std::ldexp(1.0f, -9))) == std::ldexp(1.0f, -9));
}

TEST_CASE("bf16 rounds to nearest even and widens exactly") {
    std::mt19937 random(2);
    for (int i = 0; i < 200000; ++i) {
        const float x = float_of(random());
        const float y = static_cast<float>(bfloat16(x));
        if (std::isnan(x)) {
            REQUIRE(std::isnan(y));
            continue;
        }
        // Neighbours on both sides are no closer; on a tie the even pattern is taken.
        bfloat16 low, high;
        low.bits = static_cast<uint16_t>(bits_of(x) >> 16);
        high.bits = static_cast<uint16_t>(low.bits + 1);
        const double down = std::abs(double{x} - static_cast<float>(low));
        const double up = std::abs(double{x} - static_cast<float>(high));
        if (!std::isfinite(static_cast<float>(high))) continue;
        const float expected = up != down ? static_cast<float>(up < down ? high : low)
                                          : static_cast<float>(low.bits % 2 == 0 ? low : high);
        REQUIRE(y == expected);
    }
    CHECK(bfloat16(std::numeric_limits<float>::max()).bits == 0x7f80);
}
