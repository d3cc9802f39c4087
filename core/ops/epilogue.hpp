// SPDX-License-Identifier: Apache-2.0
// What follows the exact sum of a product, the same to the bit in every implementation:
//     s = (alpha * a_scale[i]) * b_scale[j]
//     y = fma(s, (float)sum, fma(beta, c, bias[i]))
//     y = activation(y) * (1 / c_scale), rounded once to the output type
// A missing scale is 1, a missing bias +0; with beta = 0, c is +0 and never read.
#pragma once

#include <cstdint>

#include "core/common/math.hpp"
#include "core/types/dtype.hpp"
#include "core/types/granularity.hpp"

namespace magicube {

// Same numbers as magicubeActivation_t; capi asserts it.
enum class activation : int { none = 0, relu = 1, gelu = 2 };

// What a plan knows of an array of scales or summands: who shares an element, and how far the
// arrays of a batch are apart (0: they are one).
struct scale_shape {
    granularity per = granularity::none;
    int64_t batch_stride = 0;

    bool present() const { return per != granularity::none; }
};

// Such an array during execution, for one matrix of the batch.
struct scale_reader {
    const float* data = nullptr;
    int64_t step = 0;  // 0: one element for all rows or columns
    float absent = 1;

    MAGICUBE_HOST_DEVICE float operator[](int64_t i) const {
        return data ? data[i * step] : absent;
    }
};

inline scale_reader read_scales(const scale_shape& shape, const float* data, int64_t batch,
                                float absent = 1) {
    if (!shape.present()) return {nullptr, 0, absent};
    return {data + batch * shape.batch_stride, shape.per == granularity::tensor ? 0 : 1, absent};
}

MAGICUBE_HOST_DEVICE inline float activate(activation function, float x) {
    if (function == activation::relu) return relu(x);
    return function == activation::gelu ? gelu(x) : x;
}

// The epilogue of one matrix of the batch.
struct epilogue {
    float alpha = 1;
    float beta = 0;
    scale_reader a_scale;
    scale_reader b_scale;
    scale_reader bias{nullptr, 0, 0.0f};
    activation function = activation::none;
    float reciprocal = 1;  // of the output scale

    MAGICUBE_HOST_DEVICE bool reads_c() const { return beta != 0; }

    // c counts only if reads_c().
    MAGICUBE_HOST_DEVICE float operator()(int64_t i, int64_t j, float sum, float c) const {
        const float scale = mul_rn(mul_rn(alpha, a_scale[i]), b_scale[j]);
        const float addend = fma_rn(beta, reads_c() ? c : 0.0f, bias[i]);
        return mul_rn(activate(function, fma_rn(scale, sum, addend)), reciprocal);
    }
};

// Stores with the output type's rounding. int32 is no such type: its sums are never floats.
template <dtype T>
void store_rounded(void* array, int64_t index, float y) {
    static_assert(T != dtype::int32);
    if constexpr (is_floating(T)) {
        element<T>::store(array, index, y);
    } else {
        constexpr auto range = range_of(T);
        element<T>::store(
            array, index,
            round_saturate(y, static_cast<float>(range.lowest), static_cast<float>(range.highest)));
    }
}

// Reads alpha or beta on the CPU.
inline float read_scalar(const float* pointer, float absent) {
    return pointer ? *pointer : absent;
}

}  // namespace magicube
