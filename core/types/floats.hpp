// SPDX-License-Identifier: Apache-2.0
// The 16- and 8-bit floating types as bit patterns that convert to float exactly, and from float
// with one rounding to nearest even. Subnormals are kept on both sides. NaN comes out as the one
// NaN that the GPU's conversions give, so that both back ends agree to the bit.
#pragma once

#include "core/common/portable.hpp"

namespace magicube {
namespace detail {

// Rounds away the low `drop` bits (1..31), ties to even.
MAGICUBE_HOST_DEVICE constexpr uint32_t round_shift(uint32_t bits, int drop) {
    const uint32_t kept = bits >> drop;
    const uint32_t rest = bits & ((uint32_t{1} << drop) - 1);
    const uint32_t middle = uint32_t{1} << (drop - 1);
    return kept + (rest > middle || (rest == middle && (kept & 1)));
}

// Magnitude of a finite float as a small binary float with `mantissa` bits and exponent bias
// `bias`. A magnitude too large comes out with an exponent field beyond the format's, which the
// caller handles.
MAGICUBE_HOST_DEVICE inline uint32_t narrow(uint32_t magnitude, int mantissa, int bias) {
    const int exponent = static_cast<int>(magnitude >> 23) - 127 + bias;
    const int drop = 23 - mantissa;
    if (exponent > 0)
        return round_shift(magnitude - (static_cast<uint32_t>(127 - bias) << 23), drop);
    // Subnormal in the target: the implicit bit becomes explicit and moves right.
    const int shift = drop + 1 - exponent;
    if (shift > 24 + 1) return 0;
    const uint32_t significand = (magnitude & 0x7fffff) | (magnitude >> 23 ? 0x800000 : 0);
    return round_shift(significand, shift);
}

// The inverse, exact. `bits` holds exponent and mantissa of a finite number.
MAGICUBE_HOST_DEVICE inline float widen(uint32_t bits, int mantissa, int bias) {
    const uint32_t exponent = bits >> mantissa;
    const uint32_t fraction = bits & ((uint32_t{1} << mantissa) - 1);
    if (exponent == 0) {
        // fraction * 2^(1 - bias - mantissa), a power of two that float holds
        return static_cast<float>(fraction) *
               float_of(static_cast<uint32_t>(127 + 1 - bias - mantissa) << 23);
    }
    return float_of((exponent + static_cast<uint32_t>(127 - bias)) << 23 | fraction
                                                                               << (23 - mantissa));
}

}  // namespace detail

// IEEE binary16.
struct half {
    uint16_t bits = 0;

    half() = default;
    MAGICUBE_HOST_DEVICE explicit half(float value) {
#if MAGICUBE_PTX_ARCH > 0
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
        const uint32_t all = bits_of(value);
        const uint32_t magnitude = all & 0x7fffffff;
        if (magnitude > 0x7f800000) {
            bits = 0x7fff;  // the NaN that the GPU's instruction gives
        } else {
            const uint32_t result =
                magnitude >= 0x47800000 ? 0x7c00 : detail::narrow(magnitude, 10, 15);
            bits = static_cast<uint16_t>(all >> 31 << 15 | result);
        }
#endif
    }
    MAGICUBE_HOST_DEVICE explicit operator float() const {
#if MAGICUBE_PTX_ARCH > 0
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
#else
        const uint32_t sign = uint32_t{bits} >> 15 << 31;
        const uint32_t rest = bits & 0x7fff;
        if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
        return float_of(sign | bits_of(detail::widen(rest, 10, 15)));
#endif
    }
};

// Upper half of binary32.
struct bfloat16 {
    uint16_t bits = 0;

    bfloat16() = default;
    MAGICUBE_HOST_DEVICE explicit bfloat16(float value) {
#if MAGICUBE_PTX_ARCH >= 800
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
        const uint32_t all = bits_of(value);
        const bool nan = (all & 0x7fffffff) > 0x7f800000;
        bits = static_cast<uint16_t>(nan ? 0x7fff : detail::round_shift(all, 16));
#endif
    }
    MAGICUBE_HOST_DEVICE explicit operator float() const {
        return float_of(uint32_t{bits} << 16);
    }
};

// OCP 8-bit float E4M3: no infinity, one NaN a sign, largest 448. Larger magnitudes saturate.
struct float8_e4m3 {
    uint8_t bits = 0;

    float8_e4m3() = default;
    MAGICUBE_HOST_DEVICE explicit float8_e4m3(float value) {
#if MAGICUBE_PTX_ARCH >= 890
        uint16_t two;  // the instruction converts a pair
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(0.0f), "f"(value));
        bits = static_cast<uint8_t>(two);
#else
        const uint32_t all = bits_of(value);
        const uint32_t magnitude = all & 0x7fffffff;
        if (magnitude > 0x7f800000) {
            bits = 0x7f;
        } else {
            const uint32_t result =
                magnitude >= 0x43e00000 ? 0x7e : detail::narrow(magnitude, 3, 7);
            bits = static_cast<uint8_t>(all >> 31 << 7 | result);
        }
#endif
    }
    MAGICUBE_HOST_DEVICE explicit operator float() const {
        const uint32_t sign = uint32_t{bits} >> 7 << 31;
        const uint32_t rest = bits & 0x7f;
        if (rest == 0x7f) return float_of(sign | 0x7fc00000);
        return float_of(sign | bits_of(detail::widen(rest, 3, 7)));
    }
};

}  // namespace magicube
