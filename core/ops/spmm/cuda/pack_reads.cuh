// SPDX-License-Identifier: Apache-2.0
// What the packers of A read from the public layout.
#pragma once

#include <cstdint>

#include "core/formats/sparse.hpp"

namespace magicube::spmm::cuda {

// The first of ascending columns that is not less than the value.
__device__ inline int64_t lower_bound(const int32_t* columns, int64_t begin, int64_t end,
                                      int64_t value) {
    while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        if (columns[middle] < value) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

// The bits of a value of A, int4 sign-extended.
__device__ __forceinline__ uint32_t value_bits(const sr_bcrs_view& a, int64_t index) {
    if (a.type == dtype::int4)
        return static_cast<uint32_t>(load_int4(static_cast<const uint8_t*>(a.values), index));
    if (storage_bits(a.type) == 8) return static_cast<const uint8_t*>(a.values)[index];
    return static_cast<const uint16_t*>(a.values)[index];
}

}  // namespace magicube::spmm::cuda
