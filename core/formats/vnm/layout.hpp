// SPDX-License-Identifier: Apache-2.0
// Rules of the V:n:M layout that hold for descriptors and for targets of conversions. `prefix` goes
// before the names of fields in errors.
#pragma once

#include "core/formats/sparse.hpp"

namespace magicube {

constexpr bool is_vnm_vector_length(int64_t v) {
    return v == 1 || v == 16 || v == 32 || v == 64 || v == 128 || v == 256;
}

// Types whose pairs the sparse Tensor Cores multiply, and fp32.
constexpr bool is_vnm_type(dtype type) {
    return type == dtype::int8 || type == dtype::fp16 || type == dtype::bf16 ||
           type == dtype::fp32 || type == dtype::e4m3;
}

void check_vnm(int32_t vector_length, int32_t n, int32_t m, dtype type, const char* prefix);

// Arrays that 64 bits can count; rows and columns have been checked.
void check_vnm_counts(const vnm_view& matrix);

// A matrix without arrays, to tell their lengths, of sizes that are checked.
vnm_view vnm_of_shape(int64_t rows, int64_t cols, int32_t vector_length, int32_t n, int32_t m);

}  // namespace magicube
