// SPDX-License-Identifier: Apache-2.0
// What a scale follows from, on every device.
#pragma once

#include "core/common/portable.hpp"
#include "core/quantize/rounding.hpp"
#include "core/types/dtype.hpp"

namespace magicube {

// Scales that the search for the least mean squared error tries.
constexpr int scale_candidates = 100;

// The quotient in double, rounded to float once more, is the correctly rounded one.
MAGICUBE_HOST_DEVICE inline float scale_for(double magnitude, dtype target) {
    constexpr float smallest = 0x1p-126f;
    const auto highest = static_cast<double>(range_of(target).highest);
    const auto scale = static_cast<float>(magnitude / highest);
    return scale < smallest ? smallest : scale;
}

MAGICUBE_HOST_DEVICE inline float scale_for_absmax(float absmax, dtype target) {
    return absmax == 0 ? 1.0f : scale_for(absmax, target);
}

// Candidate i, counted from the largest.
MAGICUBE_HOST_DEVICE inline float candidate_scale(float absmax, int i, dtype target) {
    const double part = static_cast<double>(absmax) * (scale_candidates - i);
    return scale_for(part / scale_candidates, target);
}

// What is lost of a number; its square counts.
MAGICUBE_HOST_DEVICE inline double error_of(float number, float scale, const quantizer& quantize) {
    return static_cast<double>(number) -
           static_cast<double>(scale) * static_cast<double>(quantize(number, scale));
}

// The magnitude by which numbers are ordered. NaN, which only unchecked input holds, has no place
// in an ordering: it counts as infinity.
MAGICUBE_HOST_DEVICE inline float rankable_magnitude(float number) {
    const float magnitude = float_of(bits_of(number) & 0x7fffffff);
    const float infinity = float_of(0x7f800000);
    return magnitude < infinity ? magnitude : infinity;
}

// Which of `count` magnitudes, counted from 1 for the smallest, a percentile means.
int64_t percentile_rank(double percentile, int64_t count);

}  // namespace magicube
