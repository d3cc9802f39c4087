// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a softmax row that both back ends share.
#pragma once

#include <cmath>
#include <limits>

#include "core/common/portable.hpp"
#include "core/types/dtype.hpp"

namespace magicube::softmax {

// What a row's elements have in common. `largest` is NaN if an x is NaN or +infinity.
struct row_sum {
    float largest = -std::numeric_limits<float>::infinity();
    double sum = 0;

    MAGICUBE_HOST_DEVICE bool empty() const {
        return largest == -std::numeric_limits<float>::infinity();
    }
    MAGICUBE_HOST_DEVICE bool invalid() const { return largest != largest; }
    MAGICUBE_HOST_DEVICE bool regular() const { return !empty() && !invalid(); }
    MAGICUBE_HOST_DEVICE double exponential(float x) const {
        return std::exp(static_cast<double>(x) - static_cast<double>(largest));
    }

    // Scale of a row of an integer output whose largest integer is `highest`.
    MAGICUBE_HOST_DEVICE float scale(double highest) const {
        if (invalid()) return largest;
        return empty() ? 1.0f : static_cast<float>(1 / sum / highest);
    }

    // p of an existing element.
    MAGICUBE_HOST_DEVICE float probability(float x) const {
        if (invalid()) return largest;
        return empty() ? 0.0f : static_cast<float>(exponential(x) / sum);
    }

    // p / scale = exp(x - largest) * highest, rounded to even.
    MAGICUBE_HOST_DEVICE int32_t quantised(float x, double highest) const {
        return regular() ? static_cast<int32_t>(std::nearbyint(exponential(x) * highest)) : 0;
    }
};

// x of an element, whose factor is alpha * row_scale[i].
MAGICUBE_HOST_DEVICE inline float scaled_score(float factor, float col_scale, float score,
                                               float bias) {
    return fma_rn(mul_rn(factor, col_scale), score, bias);
}

}  // namespace magicube::softmax
