// SPDX-License-Identifier: Apache-2.0
// Random elements over a type's range, and reading them back as numbers.
#pragma once

#include <vector>

#include "common.hpp"
#include "pattern.hpp"

namespace bench {

using byte_vector = std::vector<uint8_t>;

// Integers use their whole range; floating values have either sign, every mantissa and magnitudes
// in [1/8, 2).
byte_vector random_elements(magicubeDataType_t type, int64_t count, generator& random);

// Standard deviation of those elements, about.
double typical_magnitude(magicubeDataType_t type);

// The same floating values without their signs.
byte_vector magnitudes(byte_vector elements, magicubeDataType_t type);

// Element `index` of an array of int8, int32, fp16, bf16 or fp32.
double element(const uint8_t* elements, magicubeDataType_t type, int64_t index);

std::vector<float> random_scales(int64_t count, generator& random);

// A dense matrix in host memory.
struct dense_data {
    int64_t rows, cols, ld;
    magicubeDataType_t type;
    magicubeOrder_t order;
    byte_vector elements;

    // Without elements: the shape alone.
    dense_data(int64_t row_count, int64_t col_count, magicubeDataType_t element_type,
               magicubeOrder_t storage_order, int64_t ld_padding);

    int64_t element_count() const { return ld * (order == MAGICUBE_ORDER_ROW ? rows : cols); }
    int64_t byte_count() const { return bytes_of(type, element_count()); }
    int64_t index(int64_t row, int64_t col) const {
        return order == MAGICUBE_ORDER_ROW ? row * ld + col : col * ld + row;
    }
    double at(int64_t row, int64_t col) const {
        return element(elements.data(), type, index(row, col));
    }
};

}  // namespace bench
