// SPDX-License-Identifier: Apache-2.0
// How vectors are ranked, on every device.
#pragma once

#include <limits>

#include "core/common/portable.hpp"
#include "core/prune/prune.hpp"

namespace magicube {

// The norm of a vector, element after element: a sum in fp64 (L2: of squares, which ranks the
// same).
MAGICUBE_HOST_DEVICE inline void add_term(double& sum, double x, prune_norm norm) {
    const double magnitude = x < 0 ? -x : x;
#if defined(__CUDA_ARCH__)
    sum = __dadd_rn(sum, norm == prune_norm::l2 ? __dmul_rn(x, x) : magnitude);
#else
    sum += norm == prune_norm::l2 ? x * x : magnitude;
#endif
}

// NaN, in unchecked input, cannot be ranked: it counts as infinity.
MAGICUBE_HOST_DEVICE inline double rankable(double sum) {
    return sum == sum ? sum : std::numeric_limits<double>::infinity();
}

// Which of a scope's vectors are kept: those above the threshold, and those at it up to number
// last_tie.
struct selection {
    double threshold = std::numeric_limits<double>::infinity();
    int64_t last_tie = -1;

    MAGICUBE_HOST_DEVICE bool keeps(double norm, int64_t i) const {
        return norm > threshold || (norm == threshold && i <= last_tie);
    }
};

}  // namespace magicube
