// SPDX-License-Identifier: Apache-2.0
// Real numbers to integers of a type.
#pragma once

#include "core/common/math.hpp"
#include "core/types/dtype.hpp"

namespace magicube {

struct quantizer {
    float lowest;
    float highest;

    explicit quantizer(dtype type)
        : lowest(static_cast<float>(range_of(type).lowest)),
          highest(static_cast<float>(range_of(type).highest)) {}

    // real / scale rounded to nearest even, saturated.
    MAGICUBE_HOST_DEVICE float operator()(float real, float scale) const {
        return static_cast<float>(round_saturate(div_rn(real, scale), lowest, highest));
    }
};

}  // namespace magicube
