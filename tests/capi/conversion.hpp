// SPDX-License-Identifier: Apache-2.0
// What the suites of conversions through the C ABI share.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>

#include "magicube/convert.h"
#include "support/capi.hpp"
#include "support/descriptors.hpp"
#include "support/element_grid.hpp"
#include "support/guarded.hpp"

namespace support {

// The arrays of a conversion to SR-BCRS, guarded and poisoned.
struct conversion {
    magicubeSrBcrsArrays_t arrays = MAGICUBE_SR_BCRS_ARRAYS_INIT;
    guarded_array<int64_t> begin, end;
    guarded_array<int32_t> columns{0};
    guarded_array<uint8_t> mask{0};
    packed_array values;
    kind type;

    conversion(int64_t entries, kind t, int32_t v, int32_t s)
        : begin(entries), end(entries), type(t) {
        arrays.vector_length = v;
        arrays.stride = s;
        arrays.value_type = static_cast<magicubeDataType_t>(t);
        arrays.row_begin = begin.data();
        arrays.row_end = end.data();
    }
    void allocate(int64_t slots) {
        const int64_t v = arrays.vector_length;
        columns = guarded_array<int32_t>(slots);
        mask = guarded_array<uint8_t>(slots * ((v + 7) / 8));
        values = packed_array(type, slots * v);
        arrays.slots = slots;
        arrays.col_indices = columns.data();
        arrays.element_mask = mask.data();
        arrays.values = values.data();
    }
    bool intact() const {
        return begin.intact() && end.intact() && columns.intact() && mask.intact();
    }
    bool equals(const sr_bcrs_arrays& wanted) const {
        return begin.items() == wanted.begin && end.items() == wanted.end &&
               columns.items() == wanted.columns && mask.items() == wanted.mask &&
               values.bytes() == wanted.values.bytes();
    }
};

inline void convert_dense(magicubeHandle_t handle, magicubeConstDnMatDescr_t dense,
                          magicubeConstDnMatDescr_t mask, conversion& c) {
    size_t bytes = 1;
    REQUIRE(magicubeDenseToSrBcrs_bufferSize(handle, dense, mask, &c.arrays, &bytes) ==
            MAGICUBE_STATUS_SUCCESS);
    CHECK(bytes == 0);
    int64_t slots = -1;
    REQUIRE(magicubeDenseToSrBcrs_count(handle, dense, mask, &c.arrays, &slots, nullptr, 0) ==
            MAGICUBE_STATUS_SUCCESS);
    c.allocate(slots);
    REQUIRE(magicubeDenseToSrBcrs_fill(handle, dense, mask, &c.arrays, nullptr, 0) ==
            MAGICUBE_STATUS_SUCCESS);
    CHECK(c.intact());
}

inline void convert_sparse(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                           conversion& c) {
    size_t bytes = 1;
    REQUIRE(magicubeSparseToSrBcrs_bufferSize(handle, source, &c.arrays, &bytes) ==
            MAGICUBE_STATUS_SUCCESS);
    CHECK(bytes == 0);
    int64_t slots = -1;
    REQUIRE(magicubeSparseToSrBcrs_count(handle, source, &c.arrays, &slots, nullptr, 0) ==
            MAGICUBE_STATUS_SUCCESS);
    c.allocate(slots);
    REQUIRE(magicubeSparseToSrBcrs_fill(handle, source, &c.arrays, nullptr, 0) ==
            MAGICUBE_STATUS_SUCCESS);
    CHECK(c.intact());
}

}  // namespace support
