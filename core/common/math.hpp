// SPDX-License-Identifier: Apache-2.0
// Functions of one float, built of IEEE operations alone, so that every back end gives the same
// bits.
#pragma once

#include "core/common/portable.hpp"

namespace magicube {
namespace detail {

// Least-squares fits on Chebyshev nodes, rounded to float: erf(x) / x in x^2 on [0, 1], and erf in
// |x| - 2.5 on [1, 4]. Together within 2.5 units in the last place of erf.
MAGICUBE_HOST_DEVICE inline float erf_over_x(float square) {
    constexpr float c[] = {1.128379226e+00f,  -3.761263788e-01f, 1.128378287e-01f,
                           -2.686543763e-02f, 5.221053492e-03f,  -8.484396385e-04f,
                           1.126825373e-04f,  -9.673591194e-06f};
    float r = c[7];
    for (int i = 6; i >= 0; --i) r = fma_rn(r, square, c[i]);
    return r;
}

MAGICUBE_HOST_DEVICE inline float erf_beyond_one(float magnitude) {
    constexpr float c[] = {
        9.995930195e-01f,  2.178278519e-03f,  -5.445688497e-03f, 8.350212127e-03f,
        -8.622604422e-03f, 6.116587669e-03f,  -2.797554713e-03f, 5.445338320e-04f,
        2.587301133e-04f,  -2.534241648e-04f, 8.110047202e-05f,  7.756445484e-06f,
        -1.571927169e-05f, 3.462653694e-06f,  8.901371302e-07f,  -3.512991498e-07f};
    const float t = add_rn(magnitude, -2.5f);
    float r = c[15];
    for (int i = 14; i >= 0; --i) r = fma_rn(r, t, c[i]);
    return r < 1.0f ? r : 1.0f;
}

}  // namespace detail

// The error function; NaN for NaN.
MAGICUBE_HOST_DEVICE inline float erf_fma(float x) {
    const float magnitude = float_of(bits_of(x) & 0x7fffffff);
    if (magnitude < 1.0f) return mul_rn(x, detail::erf_over_x(mul_rn(x, x)));
    if (magnitude < 3.92f) {
        return float_of(bits_of(detail::erf_beyond_one(magnitude)) | (bits_of(x) & 0x80000000));
    }
    if (magnitude >= 3.92f) return x < 0 ? -1.0f : 1.0f;
    return x;  // NaN
}

// GELU in the erf form: x * (1 + erf(x / sqrt(2))) / 2.
MAGICUBE_HOST_DEVICE inline float gelu(float x) {
    if (x == -INFINITY) return -0.0f;  // where the formula would give inf * 0
    return mul_rn(mul_rn(0.5f, x), add_rn(1.0f, erf_fma(mul_rn(x, 0.70710678f))));
}

// max(x, 0) that keeps NaN.
MAGICUBE_HOST_DEVICE inline float relu(float x) {
    return x < 0 ? 0.0f : x;
}

// Rounded to nearest even and saturated to a type of at most 16 bits; NaN becomes 0.
MAGICUBE_HOST_DEVICE inline int32_t round_saturate(float y, float lowest, float highest) {
    const float above = y > lowest ? y : lowest;
    const float clamped = above < highest ? above : highest;
    // Between 2^23 and 2^24 floats are integers: the addition rounds, and the difference of the
    // bits is the integer.
    constexpr float shift = 12582912.0f;  // 1.5 * 2^23, bits 0x4b400000
    const auto integer = static_cast<int32_t>(bits_of(add_rn(clamped, shift)) - 0x4b400000);
    // No branch, not even on NaN, so that a loop of these vectorises.
    const bool number = (bits_of(y) & 0x7fffffff) <= 0x7f800000;
    return integer & -static_cast<int32_t>(number);
}

}  // namespace magicube
