// SPDX-License-Identifier: Apache-2.0
// Elements of arrays whose type is known at run time, for kernels that read or write one at a time.
#pragma once

#include <type_traits>

#include "core/common/math.hpp"
#include "core/types/dtype.hpp"

namespace magicube::cuda {

template <class Value>
__device__ Value load_element(const void* array, dtype type, int64_t i);

template <>
__device__ inline int32_t load_element(const void* array, dtype type, int64_t i) {
    switch (type) {
        case dtype::int4:
            return load_int4(static_cast<const uint8_t*>(array), i);
        case dtype::int8:
            return static_cast<const int8_t*>(array)[i];
        case dtype::uint8:
            return static_cast<const uint8_t*>(array)[i];
        case dtype::int32:
            return static_cast<const int32_t*>(array)[i];
        default:
            return static_cast<const int16_t*>(array)[i];
    }
}

template <>
__device__ inline float load_element(const void* array, dtype type, int64_t i) {
    switch (type) {
        case dtype::fp16:
            return static_cast<float>(static_cast<const half*>(array)[i]);
        case dtype::bf16:
            return static_cast<float>(static_cast<const bfloat16*>(array)[i]);
        case dtype::e4m3:
            return static_cast<float>(static_cast<const float8_e4m3*>(array)[i]);
        default:
            return static_cast<const float*>(array)[i];
    }
}

// Integers exact, floats by fma.
__device__ inline void accumulate(int64_t& sum, int32_t a, int32_t b) {
    sum += int64_t{a} * b;
}

__device__ inline void accumulate(float& sum, float a, float b) {
    sum = fma_rn(a, b, sum);
}

// Rounded and, for an integer type, saturated. Not for int4 and int32.
template <class Storage>
__device__ __forceinline__ Storage round_element(float y) {
    if constexpr (std::is_same_v<Storage, int16_t>) {
        return static_cast<Storage>(round_saturate(y, -32768.0f, 32767.0f));
    } else if constexpr (std::is_same_v<Storage, int8_t>) {
        return static_cast<Storage>(round_saturate(y, -128.0f, 127.0f));
    } else {
        return Storage(y);
    }
}

__device__ inline void store_element(void* array, dtype type, int64_t i, float y) {
    switch (type) {
        case dtype::fp16:
            static_cast<half*>(array)[i] = half(y);
            break;
        case dtype::bf16:
            static_cast<bfloat16*>(array)[i] = bfloat16(y);
            break;
        case dtype::int16:
            static_cast<int16_t*>(array)[i] = round_element<int16_t>(y);
            break;
        case dtype::int8:
            static_cast<int8_t*>(array)[i] = round_element<int8_t>(y);
            break;
        default:
            static_cast<float*>(array)[i] = y;
            break;
    }
}

}  // namespace magicube::cuda
