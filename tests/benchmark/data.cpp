// SPDX-License-Identifier: Apache-2.0
#include "data.hpp"

#include <cmath>
#include <cstring>

namespace bench {
namespace {

// Random bits become an element by (bits & keep) | set, repeated over a 64-bit word. Of floating
// types the sign, the mantissa and two bits of the exponent are random.
struct bit_choice {
    uint64_t keep, set, sign;
};

bit_choice bits_of(magicubeDataType_t type) {
    constexpr uint64_t every_byte = 0x0101010101010101, every_half = 0x0001000100010001,
                       every_word = 0x0000000100000001;
    switch (type) {
        case MAGICUBE_FP16:
            return {0x8fff * every_half, 0x3000 * every_half, 0x8000 * every_half};
        case MAGICUBE_BF16:
            return {0x81ff * every_half, 0x3e00 * every_half, 0x8000 * every_half};
        case MAGICUBE_FP32:
            return {0x81ffffff * every_word, 0x3e000000 * every_word, 0x80000000 * every_word};
        case MAGICUBE_E4M3:
            return {0x9f * every_byte, 0x20 * every_byte, 0x80 * every_byte};
        default:
            return {~uint64_t{0}, 0, 0};
    }
}

template <class Element>
Element load(const uint8_t* elements, int64_t index) {
    Element value;
    std::memcpy(&value, elements + index * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
}

double from_fp16(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double magnitude = std::ldexp(mantissa, -24);
    if (exponent == 31) {
        magnitude = mantissa ? std::nan("") : INFINITY;
    } else if (exponent > 0) {
        magnitude = std::ldexp(1024 + mantissa, exponent - 25);
    }
    return bits >> 15 ? -magnitude : magnitude;
}

double from_bf16(uint16_t bits) {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

}  // namespace

byte_vector random_elements(magicubeDataType_t type, int64_t count, generator& random) {
    const bit_choice choice = bits_of(type);
    byte_vector elements(static_cast<size_t>(round_up(bytes_of(type, count), 8)));
    for (size_t at = 0; at < elements.size(); at += 8) {
        const uint64_t word = (random() & choice.keep) | choice.set;
        std::memcpy(&elements[at], &word, 8);
    }
    if (type == MAGICUBE_INT12) {
        for (int64_t i = 0; i < count; ++i) {
            const auto value = static_cast<int16_t>(load<int16_t>(elements.data(), i) >> 4);
            std::memcpy(&elements[static_cast<size_t>(2 * i)], &value, sizeof value);
        }
    }
    elements.resize(static_cast<size_t>(bytes_of(type, count)));
    return elements;
}

double typical_magnitude(magicubeDataType_t type) {
    if (!is_integer(type)) return 1;
    if (type == MAGICUBE_UINT8) return 147;
    const int bits = type == MAGICUBE_INT12 ? 12 : magicubeGetDataTypeBits(type);
    return std::ldexp(1, bits) / std::sqrt(12);
}

byte_vector magnitudes(byte_vector elements, magicubeDataType_t type) {
    const uint64_t sign = bits_of(type).sign;
    for (size_t i = 0; i < elements.size(); ++i) {
        elements[i] = static_cast<uint8_t>(elements[i] & ~(sign >> (i % 8 * 8)));
    }
    return elements;
}

double element(const uint8_t* elements, magicubeDataType_t type, int64_t index) {
    switch (type) {
        case MAGICUBE_INT8:
            return load<int8_t>(elements, index);
        case MAGICUBE_INT32:
            return load<int32_t>(elements, index);
        case MAGICUBE_FP16:
            return from_fp16(load<uint16_t>(elements, index));
        case MAGICUBE_BF16:
            return from_bf16(load<uint16_t>(elements, index));
        case MAGICUBE_FP32:
            return load<float>(elements, index);
        default:
            fail("no result of type ", magicubeGetDataTypeName(type), " is read here");
    }
}

std::vector<float> random_scales(int64_t count, generator& random) {
    std::uniform_real_distribution<float> draw(0.5f, 1.5f);
    std::vector<float> scales(static_cast<size_t>(count));
    for (float& scale : scales) scale = draw(random);
    return scales;
}

dense_data::dense_data(int64_t row_count, int64_t col_count, magicubeDataType_t element_type,
                       magicubeOrder_t storage_order, int64_t ld_padding)
    : rows(row_count),
      cols(col_count),
      ld((storage_order == MAGICUBE_ORDER_ROW ? col_count : row_count) + ld_padding),
      type(element_type),
      order(storage_order) {
    if (type == MAGICUBE_INT4) ld = round_up(ld, 2);
}

}  // namespace bench
