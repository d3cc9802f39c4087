// SPDX-License-Identifier: Apache-2.0
// Offsets of lists that conversions make: count, then fill.
#pragma once

#include "core/formats/sparse.hpp"

namespace magicube {

// The source of a conversion to CSR or BSR: one matrix, and values if the target has them.
void check_single_source(const sparse_view& source, dtype target_type, const void* target_values);

// offsets[i + 1] holds the length of list i; turns lengths into offsets and returns their sum.
// `what` names the sum in the error for one that int32 cannot hold.
int64_t lengths_to_offsets(void* offsets, index_type type, int64_t lists, const char* what);

// For fill: the offsets start at 0 and never decrease.
void check_offsets_of_count(const index_array& offsets, int64_t lists);

// For fill: a list has more or fewer entries in the source than the offsets tell.
[[noreturn]] void report_changed_list(const index_array& offsets, int64_t list);

}  // namespace magicube
