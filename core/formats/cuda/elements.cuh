// SPDX-License-Identifier: Apache-2.0
// Elements of any type read and written as bits, so that the kernels of conversions need no
// instance a type; the switches are uniform over a launch.
#pragma once

#include "core/types/dtype.hpp"

namespace magicube::cuda {

// The bits of element i, the rest zero.
__device__ __forceinline__ uint32_t load_bits(dtype type, const void* array, int64_t i) {
    switch (storage_bits(type)) {
        case 4:
            return static_cast<const uint8_t*>(array)[i / 2] >> (i % 2 * 4) & 15;
        case 8:
            return static_cast<const uint8_t*>(array)[i];
        case 16:
            return static_cast<const uint16_t*>(array)[i];
        default:
            return static_cast<const uint32_t*>(array)[i];
    }
}

// The bits of up to 8 elements: first, first + step and so on, `count` of them; 0 for the rest. All
// loads are under way at once: no branch on the type lies between them.
struct eight_elements {
    uint32_t bits[8];

    __device__ __forceinline__ eight_elements(dtype type, const void* array, int64_t first,
                                              int64_t step, int64_t count) {
        switch (storage_bits(type)) {
            case 4:
                load(first, step, count,
                     [&](int64_t i) { return load_bits(dtype::int4, array, i); });
                break;
            case 8:
                load(first, step, count,
                     [&](int64_t i) { return load_bits(dtype::int8, array, i); });
                break;
            case 16:
                load(first, step, count,
                     [&](int64_t i) { return load_bits(dtype::fp16, array, i); });
                break;
            default:
                load(first, step, count,
                     [&](int64_t i) { return load_bits(dtype::fp32, array, i); });
                break;
        }
    }

  private:
    template <class Load>
    __device__ __forceinline__ void load(int64_t first, int64_t step, int64_t count,
                                         const Load& load_one) {
#pragma unroll
        for (int k = 0; k < 8; ++k) bits[k] = k < count ? load_one(first + k * step) : 0;
    }
};

// Of a type of at least 8 bits.
__device__ __forceinline__ void store_bits(dtype type, void* array, int64_t i, uint32_t bits) {
    switch (storage_bits(type)) {
        case 8:
            static_cast<uint8_t*>(array)[i] = static_cast<uint8_t>(bits);
            break;
        case 16:
            static_cast<uint16_t*>(array)[i] = static_cast<uint16_t>(bits);
            break;
        default:
            static_cast<uint32_t*>(array)[i] = bits;
            break;
    }
}

// Of a floating type. The bits of a NaN stay, as on the host; the device's instruction drops them.
__device__ __forceinline__ float float_from_bits(dtype type, uint32_t bits) {
    switch (type) {
        case dtype::fp16: {
            if ((bits & 0x7fff) > 0x7c00) {
                return float_of((bits & 0x8000) << 16 | 0x7f800000 | (bits & 0x3ff) << 13);
            }
            half number;
            number.bits = static_cast<uint16_t>(bits);
            return static_cast<float>(number);
        }
        case dtype::bf16:
            return float_of(bits << 16);
        case dtype::e4m3: {
            float8_e4m3 number;
            number.bits = static_cast<uint8_t>(bits);
            return static_cast<float>(number);
        }
        default:
            return float_of(bits);
    }
}

__device__ __forceinline__ uint32_t bits_from_float(dtype type, float number) {
    switch (type) {
        case dtype::fp16:
            return half(number).bits;
        case dtype::bf16:
            return bfloat16(number).bits;
        case dtype::e4m3:
            return float8_e4m3(number).bits;
        default:
            return bits_of(number);
    }
}

// An array of one type read as bits of another, for types that check_move allows.
struct moved_elements {
    const void* values;
    dtype from;
    dtype to;

    __device__ __forceinline__ uint32_t operator[](int64_t i) const {
        const uint32_t bits = load_bits(from, values, i);
        return from == to ? bits : bits_from_float(to, float_from_bits(from, bits));
    }
};

// Elements that one thread writes at once, so that no two threads write to one byte.
constexpr int64_t unit_of(dtype type) {
    return type == dtype::int4 ? 2 : 1;
}

// Writes the unit that starts at element `first`, as far as it lies before `end`: element i becomes
// bits_of_element(i). Touches no nibble from `end` on.
template <class BitsOf>
__device__ __forceinline__ void store_unit(dtype type, void* array, int64_t first, int64_t end,
                                           const BitsOf& bits_of_element) {
    if (type != dtype::int4) return store_bits(type, array, first, bits_of_element(first));
    uint8_t& byte = static_cast<uint8_t*>(array)[first / 2];
    const uint32_t low = bits_of_element(first);
    const uint32_t high = first + 1 < end ? bits_of_element(first + 1) : byte >> 4;
    byte = static_cast<uint8_t>(low | high << 4);
}

}  // namespace magicube::cuda
