// SPDX-License-Identifier: Apache-2.0
// The numbers that matrix instructions multiply, as 32-bit integers or floats.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

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
    const uint32_t power =
        static_cast<uint32_t>((field == 0 ? 1 : static_cast<int>(field)) - bias - mantissa + 127);
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

// All numbers of a type of at most 16 bits.
template <number Type>
const float* table_of() {
    static const auto& table = *new std::vector<float>([] {
        std::vector<float> all(size_t{1} << bits_of(Type));
        for (size_t i = 0; i < all.size(); ++i) {
            const auto bits = static_cast<uint32_t>(i);
            all[i] = Type == number::e4m3   ? small_float(bits, 4, 3, false)
                     : Type == number::e5m2 ? small_float(bits, 5, 2, true)
                                            : small_float(bits, 5, 10, true);
        }
        return all;
    }());
    return table.data();
}

template <number Type>
float float_of(uint32_t word, int i) {
    if constexpr (Type == number::tf32) {
        return float_of_bits(word & 0xffffe000u);  // 10 bits of mantissa
    } else if constexpr (Type == number::bf16) {
        return float_of_bits(word >> (16 * i) << 16);
    } else {
        constexpr int bits = bits_of(Type);
        return table_of<Type>()[word >> (bits * i) & ((1u << bits) - 1)];
    }
}

inline float any_float_of(number type, uint32_t word, int i) {
    switch (type) {
        case number::e4m3:
            return float_of<number::e4m3>(word, i);
        case number::e5m2:
            return float_of<number::e5m2>(word, i);
        case number::f16:
            return float_of<number::f16>(word, i);
        case number::bf16:
            return float_of<number::bf16>(word, i);
        default:
            return float_of<number::tf32>(word, i);
    }
}

// Sums of integers wrap around as on the device; sums of floats are rounded once.
inline int32_t add_products(int32_t d, const int32_t* a, const int32_t* b, int depth) {
    uint32_t sum = 0;
    for (int k = 0; k < depth; ++k) sum += static_cast<uint32_t>(a[k] * b[k]);
    return static_cast<int32_t>(static_cast<uint32_t>(d) + sum);
}
inline float add_products(float d, const float* a, const float* b, int depth) {
    double sum = 0;
    for (int k = 0; k < depth; ++k) sum += double{a[k]} * double{b[k]};
    return static_cast<float>(double{d} + sum);
}

// Where the two bits lie that say which of four columns stored element k of one of 16 rows has.
// Sixteen-bit elements: the pair of lanes 2 * selector, + 1 of each four holds 16 bits for each of
// rows g and g + 8, the first lane for the first 8 elements. Bytes: all lanes hold 32 bits, those
// of elements 0..15 of row g, of row g + 8, then of elements 16..31.
struct metadata_place {
    int lane, shift;

    metadata_place(int bits, int selector, int row, int k) : lane(row % 8 * 4), shift(0) {
        if (bits == 16) {
            lane += selector * 2 + k / 8;
            shift = row / 8 * 16 + k % 8 * 2;
        } else {
            lane += k / 16 * 2 + row / 8;
            shift = k % 16 * 2;
        }
    }
};

}  // namespace emulated
