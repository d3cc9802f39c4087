// SPDX-License-Identifier: Apache-2.0
// The numbers that matrix instructions multiply, as 32-bit integers or floats.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulation/matrix.hpp"

namespace emulated {

constexpr int bits_of(number type) {
    switch (type) {
        case number::s4:
        case number::u4:
            return 4;
        case number::s8:
        case number::u8:
        case number::e4m3:
        case number::e5m2:
            return 8;
        case number::tf32:
            return 32;
        default:
            return 16;
    }
}

constexpr bool is_integer(number type) {
    return type == number::s4 || type == number::u4 || type == number::s8 || type == number::u8;
}

inline float float_of_bits(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

// A number of `exponent` and `mantissa` bits, with IEEE's infinities and NaNs if `infinities`.
inline float small_float(uint32_t bits, int exponent, int mantissa, bool infinities) {
    const uint32_t sign = bits >> (exponent + mantissa) & 1;
    const uint32_t field = bits >> mantissa & ((1u << exponent) - 1);
    const uint32_t fraction = bits & ((1u << mantissa) - 1);
    const uint32_t highest = (1u << exponent) - 1;
    const int bias = (1 << (exponent - 1)) - 1;
    if (infinities && field == highest)
        return float_of_bits(sign << 31 | (fraction ? 0x7fc00000u : 0x7f800000u));
    if (!infinities && field == highest && fraction == (1u << mantissa) - 1)
        return float_of_bits(0x7fc00000u);
    const uint32_t power = static_cast<uint32_t>(
        (field == 0 ? 1 : static_cast<int>(field)) - bias - mantissa + 127);
    const auto whole = static_cast<float>(fraction | (field == 0 ? 0 : 1u << mantissa));
    return (sign ? -whole : whole) * float_of_bits(power << 23);
}

// Element i of a register.
inline int32_t integer_of(number type, uint32_t word, int i) {
    switch (type) {
        case number::s4:
            return static_cast<int32_t>(word << (28 - 4 * i)) >> 28;
        case number::u4:
            return static_cast<int32_t>(word >> (4 * i) & 15);
        case number::s8:
            return static_cast<int8_t>(word >> (8 * i));
        default:
            return static_cast<uint8_t>(word >> (8 * i));
    }
}

inline float float_of(number type, uint32_t word, int i) {
    switch (type) {
        case number::e4m3:
            return small_float(word >> (8 * i) & 0xff, 4, 3, false);
        case number::e5m2:
            return small_float(word >> (8 * i) & 0xff, 5, 2, true);
        case number::f16:
            return small_float(word >> (16 * i) & 0xffff, 5, 10, true);
        case number::bf16:
            return float_of_bits(word >> (16 * i) << 16);
        default:
            return float_of_bits(word & 0xffffe000u);  // 10 bits of mantissa
    }
}

}  // namespace emulated
