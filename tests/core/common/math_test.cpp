// SPDX-License-Identifier: Apache-2.0
#include "core/common/math.hpp"

#include <doctest/doctest.h>
#include <cmath>
#include <limits>

using namespace magicube;

TEST_CASE("erf is within 2.5 units in the last place of the C library's in double") {
    double worst = 0;
    for (uint32_t bits = 0; bits < 0x7f800000; bits += 997) {
        const float x = float_of(bits);
        const double exact = std::erf(double{x});
        const double ulp = std::nextafter(static_cast<float>(exact), 2.0f) -
                           static_cast<double>(static_cast<float>(exact));
        worst = std::max(worst, std::abs(erf_fma(x) - exact) / ulp);
        REQUIRE(erf_fma(-x) == -erf_fma(x));
    }
    CHECK(worst < 2.5);
}

TEST_CASE("activations keep NaN and have the right limits") {
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(erf_fma(nan)));
    CHECK(std::isnan(gelu(nan)));
    CHECK(std::isnan(relu(nan)));
    CHECK(gelu(inf) == inf);
    CHECK(gelu(-inf) == 0);
    CHECK(gelu(0.0f) == 0);
    CHECK(relu(-inf) == 0);
    CHECK(relu(3.5f) == 3.5f);
    for (float x = -6; x < 6; x += 0.01f) {
        const double exact = 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
        CHECK(gelu(x) == doctest::Approx(exact).epsilon(1e-6).scale(1));
    }
}
