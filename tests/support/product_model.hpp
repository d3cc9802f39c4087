// SPDX-License-Identifier: Apache-2.0
// What a product's element must be, written without the library's code: exact sums in 128 bits, the
// epilogue in the documented order, roundings by definition. Products of floats get a bound.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "support/numbers.hpp"

namespace support {

// Terms of one element's sum.
struct exact_sum {
    __int128 integer = 0;
    long double real = 0;
    long double magnitude = 0;  // sum of the terms' magnitudes
    int64_t terms = 0;

    void add(double a, double b) {
        integer += static_cast<__int128>(std::isfinite(a) ? static_cast<int64_t>(a) : 0) *
                   (std::isfinite(b) ? static_cast<int64_t>(b) : 0);
        const auto product = static_cast<long double>(a) * b;
        real += product;
        magnitude += std::fabs(product);
        ++terms;
    }
};

// The numbers of the epilogue that meet in one element.
struct epilogue_terms {
    float alpha = 1;
    float a_scale = 1;
    float b_scale = 1;
    float beta = 0;
    float c = 0;
    float bias = 0;
    float c_scale = 1;
    bool scaled_output = false;
    std::function<float(float)> activation;  // empty: none
};

inline bool right_int32(const exact_sum& sum, float beta, double c, double found) {
    uint32_t expected = static_cast<uint32_t>(sum.integer & 0xffffffff);
    if (beta == 1) expected += static_cast<uint32_t>(static_cast<int64_t>(c));
    return static_cast<int32_t>(expected) == static_cast<int32_t>(found);
}

inline float apply_epilogue(const epilogue_terms& e, float sum) {
    const float s = (e.alpha * e.a_scale) * e.b_scale;
    const float old = e.beta == 0 ? 0.0f : e.c;
    float y = std::fma(s, sum, std::fma(e.beta, old, e.bias));
    if (e.activation) y = e.activation(y);
    return e.scaled_output ? y * (1.0f / e.c_scale) : y;
}

inline bool right_from_integers(kind out, const exact_sum& sum, const epilogue_terms& e,
                                double found) {
    const auto rounded = static_cast<float>(static_cast<long double>(sum.integer));
    return same_number(round_to(out, static_cast<double>(apply_epilogue(e, rounded))), found);
}

// Sums of floats may be formed in any order, each step within 2^sum_error of its terms (double by
// default); the rest is as exact as for integers.
inline bool right_from_floats(kind out, const exact_sum& sum, const epilogue_terms& e, double found,
                              int sum_error = -52) {
    const float s = (e.alpha * e.a_scale) * e.b_scale;
    const long double scaled = static_cast<long double>(s) * sum.real;
    const long double addend =
        (e.beta == 0 ? 0.0L : static_cast<long double>(e.beta) * e.c) + e.bias;
    auto y = static_cast<double>(scaled + addend);
    const double size = static_cast<double>(std::fabs(static_cast<long double>(s)) * sum.magnitude);
    // Sums in fp32 that are subnormal lose up to half of the least number with each term.
    const double lost = sum_error == -52 ? 0 : std::fabs(s) * static_cast<double>(sum.terms);
    double bound = std::ldexp(size * static_cast<double>(sum.terms + 1), sum_error) +
                   std::ldexp(lost, -149) +
                   std::ldexp(std::fabs(static_cast<double>(scaled)) +
                                  2 * std::fabs(static_cast<double>(e.beta) * e.c) +
                                  std::fabs(static_cast<double>(e.bias)),
                              -22);
    if (e.activation) {
        y = static_cast<double>(e.activation(static_cast<float>(y)));
        bound = 2 * bound + std::ldexp(std::fabs(y), -21);
    }
    if (e.scaled_output) {
        y /= static_cast<double>(e.c_scale);
        bound = bound / std::fabs(static_cast<double>(e.c_scale)) + std::ldexp(std::fabs(y), -22);
    }
    if (!is_float(out)) {
        const auto l = limits_of(out);
        y = std::fmin(std::fmax(y, l.lowest), l.highest);
    }
    return std::fabs(found - y) <= bound + 0.5001 * spacing(out, std::fabs(y) + bound);
}

}  // namespace support
