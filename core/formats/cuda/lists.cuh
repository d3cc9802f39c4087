// SPDX-License-Identifier: Apache-2.0
// Which list of consecutive ones an entry is of.
#pragma once

#include "core/types/view.hpp"

namespace magicube::cuda {

// The list i with offsets[i] <= entry < offsets[i + 1], where entry < offsets[lists].
__device__ __forceinline__ int64_t list_of(const index_array& offsets, int64_t lists,
                                           int64_t entry) {
    int64_t low = 0;
    int64_t high = lists;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (offsets[middle] <= entry) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

}  // namespace magicube::cuda
