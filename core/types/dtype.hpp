// SPDX-License-Identifier: Apache-2.0
// Element types, their properties, and one way to visit them all.
#pragma once

#include <cstdint>
#include <string>

#include "core/common/error.hpp"
#include "core/types/floats.hpp"

namespace magicube {

// Same numbers as magicubeDataType_t; capi asserts it.
enum class dtype : int {
    int4 = 1,
    int8 = 2,
    uint8 = 3,
    int12 = 4,
    int16 = 5,
    int32 = 6,
    fp16 = 7,
    bf16 = 8,
    fp32 = 9,
    e4m3 = 10,
};

constexpr dtype all_dtypes[] = {dtype::int4,  dtype::int8, dtype::uint8, dtype::int12, dtype::int16,
                                dtype::int32, dtype::fp16, dtype::bf16,  dtype::fp32,  dtype::e4m3};

constexpr bool is_known(dtype type) {
    return static_cast<int>(type) >= 1 && static_cast<int>(type) <= 10;
}

constexpr bool is_floating(dtype type) {
    return type == dtype::fp16 || type == dtype::bf16 || type == dtype::fp32 || type == dtype::e4m3;
}

constexpr bool is_integer(dtype type) {
    return is_known(type) && !is_floating(type);
}

// Bits that a stored element takes.
constexpr int storage_bits(dtype type) {
    switch (type) {
        case dtype::int4:
            return 4;
        case dtype::int8:
        case dtype::uint8:
        case dtype::e4m3:
            return 8;
        case dtype::int12:
        case dtype::int16:
        case dtype::fp16:
        case dtype::bf16:
            return 16;
        case dtype::int32:
        case dtype::fp32:
            return 32;
    }
    return 0;
}

// Bytes that `count` elements take, counted from the start of a byte.
constexpr int64_t storage_bytes(dtype type, int64_t count) {
    return type == dtype::int4 ? count / 2 + count % 2 : count * (storage_bits(type) / 8);
}

// Bytes that the address of an array must be a multiple of, and, but for int4, that an element
// takes.
constexpr int64_t element_alignment(dtype type) {
    return type == dtype::int4 ? 1 : storage_bits(type) / 8;
}

// Least and greatest value of an integer type.
struct integer_range {
    int64_t lowest;
    int64_t highest;
};

constexpr integer_range range_of(dtype type) {
    switch (type) {
        case dtype::int4:
            return {-8, 7};
        case dtype::int8:
            return {-128, 127};
        case dtype::uint8:
            return {0, 255};
        case dtype::int12:
            return {-2048, 2047};
        case dtype::int16:
            return {-32768, 32767};
        case dtype::int32:
            return {INT32_MIN, INT32_MAX};
        default:
            return {0, 0};
    }
}

constexpr const char* name_of(dtype type) {
    switch (type) {
        case dtype::int4:
            return "int4";
        case dtype::int8:
            return "int8";
        case dtype::uint8:
            return "uint8";
        case dtype::int12:
            return "int12";
        case dtype::int16:
            return "int16";
        case dtype::int32:
            return "int32";
        case dtype::fp16:
            return "fp16";
        case dtype::bf16:
            return "bf16";
        case dtype::fp32:
            return "fp32";
        case dtype::e4m3:
            return "e4m3";
    }
    return "unknown";
}

inline void require_known(dtype type, const char* argument) {
    require_value(is_known(type), argument, " is ", static_cast<int>(type),
                  "; it must be a magicubeDataType_t");
}

// int4: two integers a byte; element i of a run is the low nibble of byte i / 2 if i is even.
constexpr int load_int4(const uint8_t* bytes, int64_t index) {
    const int nibble = (bytes[index / 2] >> (index % 2 * 4)) & 15;
    return (nibble ^ 8) - 8;
}

// Leaves the other nibble of the byte as it is.
constexpr void store_int4(uint8_t* bytes, int64_t index, int value) {
    const int shift = static_cast<int>(index % 2) * 4;
    uint8_t& byte = bytes[index / 2];
    byte = static_cast<uint8_t>((byte & ~(15 << shift)) | ((value & 15) << shift));
}

// An array of one element type seen as values. int4 has no addressable element, so every access
// that must work for all types goes through load and store.
template <dtype T>
struct element;

#define MAGICUBE_ELEMENT(TYPE, STORAGE, VALUE)                                \
    template <>                                                               \
    struct element<dtype::TYPE> {                                             \
        using storage = STORAGE;                                              \
        using value = VALUE;                                                  \
        static value load(const void* array, int64_t i) {                     \
            return static_cast<value>(static_cast<const storage*>(array)[i]); \
        }                                                                     \
        static void store(void* array, int64_t i, value v) {                  \
            static_cast<storage*>(array)[i] = static_cast<storage>(v);        \
        }                                                                     \
    };
MAGICUBE_ELEMENT(int8, int8_t, int32_t)
MAGICUBE_ELEMENT(uint8, uint8_t, int32_t)
MAGICUBE_ELEMENT(int12, int16_t, int32_t)
MAGICUBE_ELEMENT(int16, int16_t, int32_t)
MAGICUBE_ELEMENT(int32, int32_t, int32_t)
MAGICUBE_ELEMENT(fp16, half, float)
MAGICUBE_ELEMENT(bf16, bfloat16, float)
MAGICUBE_ELEMENT(fp32, float, float)
MAGICUBE_ELEMENT(e4m3, float8_e4m3, float)
#undef MAGICUBE_ELEMENT

template <>
struct element<dtype::int4> {
    using storage = uint8_t;
    using value = int32_t;
    static value load(const void* array, int64_t i) {
        return load_int4(static_cast<const uint8_t*>(array), i);
    }
    static void store(void* array, int64_t i, value v) {
        store_int4(static_cast<uint8_t*>(array), i, v);
    }
};

template <dtype T>
struct type_constant {
    static constexpr dtype value = T;
};

// Calls visitor(type_constant<T>{}) for the run-time type.
template <class Visitor>
decltype(auto) visit(dtype type, Visitor&& visitor) {
    switch (type) {
        case dtype::int4:
            return visitor(type_constant<dtype::int4>{});
        case dtype::int8:
            return visitor(type_constant<dtype::int8>{});
        case dtype::uint8:
            return visitor(type_constant<dtype::uint8>{});
        case dtype::int12:
            return visitor(type_constant<dtype::int12>{});
        case dtype::int16:
            return visitor(type_constant<dtype::int16>{});
        case dtype::int32:
            return visitor(type_constant<dtype::int32>{});
        case dtype::fp16:
            return visitor(type_constant<dtype::fp16>{});
        case dtype::bf16:
            return visitor(type_constant<dtype::bf16>{});
        case dtype::fp32:
            return visitor(type_constant<dtype::fp32>{});
        case dtype::e4m3:
            return visitor(type_constant<dtype::e4m3>{});
    }
    fail(status::internal_error, "visit: unknown dtype ", static_cast<int>(type));
}

}  // namespace magicube
