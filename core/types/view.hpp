// SPDX-License-Identifier: Apache-2.0
// Views of the caller's arrays: sizes, layout, pointers. They own nothing.
#pragma once

#include <cstdint>

#include "core/types/dtype.hpp"

namespace magicube {

// Same numbers as magicubeIndexType_t and magicubeOrder_t; capi asserts it.
enum class index_type : int { int32 = 1, int64 = 2 };
enum class order : int { row = 1, col = 2 };

// An array of int32 or int64 read as int64.
struct index_array {
    const void* data = nullptr;
    index_type type = index_type::int64;

    MAGICUBE_HOST_DEVICE int64_t operator[](int64_t i) const {
        return type == index_type::int32 ? static_cast<const int32_t*>(data)[i]
                                         : static_cast<const int64_t*>(data)[i];
    }
};

// Writes element i of an index array; the caller has made sure that int32 holds the value.
inline void store_index(void* data, index_type type, int64_t i, int64_t value) {
    if (type == index_type::int32) {
        static_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
    } else {
        static_cast<int64_t*>(data)[i] = value;
    }
}

constexpr int64_t index_bytes(index_type type) {
    return type == index_type::int32 ? 4 : 8;
}

// A dense matrix, or a batch of them `batch_stride` elements apart (0: one matrix serves all).
struct dense_view {
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t ld = 0;
    void* values = nullptr;  // not written if read_only
    dtype type = dtype::fp32;
    order storage = order::row;
    bool read_only = false;
    int64_t batch_count = 1;
    int64_t batch_stride = 0;

    // Index of an element from `values`, in elements.
    MAGICUBE_HOST_DEVICE int64_t index(int64_t batch, int64_t row, int64_t col) const {
        return batch * batch_stride + (storage == order::row ? row * ld + col : col * ld + row);
    }
    bool empty() const { return rows == 0 || cols == 0 || batch_count == 0; }
    // Length of one stored row or column, and how many there are.
    int64_t inner() const { return storage == order::row ? cols : rows; }
    int64_t outer() const { return storage == order::row ? rows : cols; }
};

}  // namespace magicube
