// SPDX-License-Identifier: Apache-2.0
// Offsets of lists that conversions make on CUDA, in place and without scratch.
#pragma once

#include "core/device/context.hpp"
#include "core/types/view.hpp"

namespace magicube::cuda {

// ends[i] holds the length of list i. Lays the lists out one after another, each from a multiple of
// `multiple` on: begins[i] and ends[i] become where list i starts and one past its last entry.
// begins may be the array that starts one entry before ends, as CSR's offsets do. Returns the
// length of all, which is read back: waits for the stream. `what` names it in the error for one
// that int32 cannot hold.
int64_t place_lists(const context& ctx, void* begins, void* ends, index_type type, int64_t lists,
                    int32_t multiple, const char* what);

// The same for offsets of lists + 1 entries, where offsets[i + 1] holds the length of list i.
int64_t lengths_to_offsets(const context& ctx, void* offsets, index_type type, int64_t lists,
                           const char* what);

}  // namespace magicube::cuda
