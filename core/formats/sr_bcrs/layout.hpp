// SPDX-License-Identifier: Apache-2.0
// Rules of the SR-BCRS layout that hold for descriptors and for targets of conversions. `prefix`
// goes before the names of fields in errors.
#pragma once

#include "core/formats/sparse.hpp"

namespace magicube {

void check_vectors(int32_t vector_length, int32_t stride, dtype type, const char* prefix);
void check_slots(int64_t slots, int32_t stride, index_type offsets, const char* prefix);

}  // namespace magicube
