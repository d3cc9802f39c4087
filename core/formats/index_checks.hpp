// SPDX-License-Identifier: Apache-2.0
// Checks that the sparse formats share.
#pragma once

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"

namespace magicube {

// rows, cols, batch and the values array of value_count elements.
void check_common_sizes(const sparse_common& matrix, int64_t value_count);

// A count that offsets of this type must hold.
void check_index_type_holds(index_type type, int64_t count, const char* name);

// offsets[0..lists] never decrease and stay in [0, entries].
void check_offsets(const index_array& offsets, int64_t lists, int64_t entries,
                   const char* entries_name, const char* argument);

// indices[begin..end) ascend strictly and lie in [0, limit).
void check_ascending(const int32_t* indices, int64_t begin, int64_t end, int64_t limit,
                     const char* name, const char* argument);

}  // namespace magicube
