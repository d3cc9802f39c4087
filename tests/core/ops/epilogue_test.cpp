// SPDX-License-Identifier: Apache-2.0
#include "core/ops/epilogue.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/product_model.hpp"

using namespace magicube;

namespace {

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

float uniform_float(support::generator& random) {
    return static_cast<float>(support::uniform(random, -(1 << 24), 1 << 24)) / 1048576.0f;
}

}  // namespace

TEST_CASE("the epilogue rounds in the documented order and contracts nothing else") {
    support::generator random(1);
    int differing = 0;
    for (int i = 0; i < 20000; ++i) {
        support::epilogue_terms e;
        e.alpha = uniform_float(random);
        e.a_scale = uniform_float(random);
        e.b_scale = uniform_float(random);
        e.beta = uniform_float(random);
        e.c = uniform_float(random);
        e.bias = uniform_float(random);
        e.c_scale = uniform_float(random);
        e.scaled_output = true;
        const float sum = uniform_float(random);
        epilogue ours;
        ours.alpha = e.alpha;
        ours.beta = e.beta;
        ours.a_scale = {&e.a_scale, 0, 1};
        ours.b_scale = {&e.b_scale, 0, 1};
        ours.bias = {&e.bias, 0, 0};
        ours.reciprocal = 1.0f / e.c_scale;
        const float y = ours(5, 7, sum, e.c);
        REQUIRE(support::same_number(static_cast<double>(y),
                                     static_cast<double>(support::apply_epilogue(e, sum))));
        // The data tell this order from its neighbour: (alpha * b) * a.
        differing += (e.alpha * e.a_scale) * e.b_scale != (e.alpha * e.b_scale) * e.a_scale;
    }
    CHECK(differing > 1000);
}

TEST_CASE("beta 0 never reads C, whatever beta's sign; any other beta does") {
    epilogue e;
    for (const float zero : {0.0f, -0.0f}) {
        e.beta = zero;
        CHECK_FALSE(e.reads_c());
        CHECK(e(0, 0, 3, nan_value) == 3);
    }
    e.beta = 1;
    CHECK(e.reads_c());
    CHECK(std::isnan(e(0, 0, 3, nan_value)));
    e.beta = nan_value;
    CHECK(e.reads_c());
}

TEST_CASE("scales go by tensor, row or column, and by matrix of the batch") {
    const float data[] = {10, 20, 30, 40};
    CHECK(read_scales({granularity::none, 0}, data, 1)[2] == 1);
    CHECK(read_scales({granularity::none, 0}, data, 1, 0)[2] == 0);
    CHECK(read_scales({granularity::tensor, 0}, data, 1)[2] == 10);
    CHECK(read_scales({granularity::tensor, 3}, data, 1)[2] == 40);
    CHECK(read_scales({granularity::row, 0}, data, 1)[2] == 30);
    CHECK(read_scales({granularity::col, 2}, data, 1)[1] == 40);
}

TEST_CASE("rounding to integers is to even, saturates, and makes NaN 0") {
    const auto int8 = [](float y) { return round_saturate(y, -128, 127); };
    CHECK(int8(0.5f) == 0);
    CHECK(int8(1.5f) == 2);
    CHECK(int8(-0.5f) == 0);
    CHECK(int8(-1.5f) == -2);
    CHECK(int8(-2.5f) == -2);
    CHECK(int8(127.49f) == 127);
    CHECK(int8(127.5f) == 127);
    CHECK(int8(-128.5f) == -128);
    CHECK(int8(1e30f) == 127);
    CHECK(int8(-std::numeric_limits<float>::infinity()) == -128);
    CHECK(int8(nan_value) == 0);
    CHECK(int8(1e-40f) == 0);
    for (int i = -40000; i <= 40000; ++i) {
        const float y = static_cast<float>(i) * 0.90625f;
        const double expected =
            std::fmin(std::fmax(std::nearbyint(static_cast<double>(y)), -32768), 32767);
        REQUIRE(round_saturate(y, -32768, 32767) == static_cast<int32_t>(expected));
    }
}
