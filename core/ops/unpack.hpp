// SPDX-License-Identifier: Apache-2.0
// Dense operands as the references compute with them: row-major, of one type that holds every
// element exactly, rows padded with zeros to whole groups of lanes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/device/context.hpp"
#include "core/types/view.hpp"

namespace magicube {

// Loops over rows run in groups of this many elements, which compilers turn into SIMD code.
constexpr int64_t unpack_lanes = 16;

// The type of unpacked operands whose products are summed in Sum, and the type of those products.
template <class Sum>
using unpacked_t = std::conditional_t<std::is_integral_v<Sum>, int16_t, float>;
template <class Sum>
using product_t = std::conditional_t<std::is_integral_v<Sum>, int32_t, double>;

// Both integer and floating operands fit; see unpacked_t.
constexpr int64_t unpacked_bytes(dtype type) {
    return is_integer(type) ? sizeof(int16_t) : sizeof(float);
}

inline dense_view transposed(dense_view view) {
    std::swap(view.rows, view.cols);
    view.storage = view.storage == order::row ? order::col : order::row;
    return view;
}

// Bytes that the references unpack at once, as far as their operands can be divided.
constexpr int64_t unpack_limit = int64_t{16} << 20;

// Tasks that one thread takes at once, so that no thread is woken for next to nothing.
inline int64_t grain_for(int64_t products_per_task) {
    return std::max<int64_t>(1, 32768 / std::max<int64_t>(products_per_task, 1));
}

// Which part of a batch is unpacked: matrices [first, first + count), columns [col, col + width).
struct unpack_range {
    int64_t first = 0;
    int64_t count = 1;
    int64_t col = 0;
    int64_t width = 0;
};

// Matrix i of the range goes to target + i * source.rows * pitch, its row r to r * pitch from
// there. pitch is at least the width; what is beyond the width becomes 0. Unpacked is float for
// floating types, int16_t for integers, or int8_t for int8 and int4.
template <class Unpacked>
void unpack(const context& ctx, const dense_view& source, const unpack_range& range,
            Unpacked* target, int64_t pitch);

}  // namespace magicube
