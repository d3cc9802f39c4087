// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that reports overflow instead of wrapping.
#pragma once

#include <cstdint>

#include "core/common/error.hpp"
#include "core/common/portable.hpp"

namespace magicube {

// a * b of non-negative sizes; `what` names the quantity in the error.
inline int64_t checked_mul(int64_t a, int64_t b, const char* what) {
    int64_t product = 0;
    require_value(!__builtin_mul_overflow(a, b, &product), what, " overflows 64 bits: ", a, " * ",
                  b);
    return product;
}

inline int64_t checked_add(int64_t a, int64_t b, const char* what) {
    int64_t sum = 0;
    require_value(!__builtin_add_overflow(a, b, &sum), what, " overflows 64 bits: ", a, " + ", b);
    return sum;
}

MAGICUBE_HOST_DEVICE constexpr int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

MAGICUBE_HOST_DEVICE constexpr int64_t round_up(int64_t a, int64_t multiple) {
    return ceil_div(a, multiple) * multiple;
}

}  // namespace magicube
