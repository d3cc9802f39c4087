// SPDX-License-Identifier: Apache-2.0
// Which elements of a matrix share one scale or one summand.
#pragma once

#include <cstdint>

#include "core/types/view.hpp"

namespace magicube {

// Same numbers as magicubeGranularity_t; capi asserts it.
enum class granularity : int { none = 0, tensor = 1, row = 2, col = 3 };

constexpr const char* name_of(granularity value) {
    switch (value) {
        case granularity::none:
            return "NONE";
        case granularity::tensor:
            return "TENSOR";
        case granularity::row:
            return "ROW";
        case granularity::col:
            return "COL";
    }
    return "unknown";
}

// Elements of the array that goes with one rows x cols matrix.
constexpr int64_t group_count(granularity value, int64_t rows, int64_t cols) {
    switch (value) {
        case granularity::none:
            return 0;
        case granularity::tensor:
            return 1;
        case granularity::row:
            return rows;
        case granularity::col:
            return cols;
    }
    return 0;
}

}  // namespace magicube
