// SPDX-License-Identifier: Apache-2.0
// Runs of neighbouring elements of any type, loaded as and stored from numbers.
#pragma once

#include <cstdint>

#include "core/types/dtype.hpp"

namespace magicube {

// out[i] = element first + i. float holds every type but int32, which it rounds; double holds all.
template <class Number>
void load_run(dtype type, const void* array, int64_t first, int64_t count, Number* out);
extern template void load_run<float>(dtype, const void*, int64_t, int64_t, float*);
extern template void load_run<double>(dtype, const void*, int64_t, int64_t, double*);

// Element first + i = numbers[i], rounded once for a floating type; for an integer type the numbers
// are integers within its range. Touches no other nibble.
void store_run(dtype type, void* array, int64_t first, int64_t count, const float* numbers);

}  // namespace magicube
