// SPDX-License-Identifier: Apache-2.0
#include "core/formats/dense/nonzero.hpp"

#include <algorithm>
#include <cstring>

namespace magicube {
namespace {

// Reads an element's bits.
template <class Bits>
struct bits_reader {
    const uint8_t* bytes;
    Bits magnitude;

    bool nonzero(int64_t i) const {
        Bits bits;
        std::memcpy(&bits, bytes + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
        return (bits & magnitude) != 0;
    }
};

struct nibble_reader {
    const uint8_t* bytes;

    bool nonzero(int64_t i) const { return load_int4(bytes, i) != 0; }
};

template <class Reader>
void mark(const Reader& reader, const dense_view& matrix, int64_t start, int64_t rows, int64_t cols,
          uint64_t* marks) {
    std::fill_n(marks, cols, 0);
    if (matrix.storage == order::row) {
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t line = start + r * matrix.ld;
            for (int64_t c = 0; c < cols; ++c) {
                marks[c] |= static_cast<uint64_t>(reader.nonzero(line + c)) << r;
            }
        }
        return;
    }
    for (int64_t c = 0; c < cols; ++c) {
        const int64_t line = start + c * matrix.ld;
        for (int64_t r = 0; r < rows; ++r) {
            marks[c] |= static_cast<uint64_t>(reader.nonzero(line + r)) << r;
        }
    }
}

}  // namespace

void mark_nonzero(const dense_view& matrix, int64_t batch, int64_t first_row, int64_t rows,
                  int64_t first_col, int64_t cols, uint64_t* marks) {
    const auto* bytes = static_cast<const uint8_t*>(matrix.values);
    const int64_t start = matrix.index(batch, first_row, first_col);
    const uint32_t mask = nonzero_bits(matrix.type);
    const auto run = [&](const auto& reader) { mark(reader, matrix, start, rows, cols, marks); };
    switch (storage_bits(matrix.type)) {
        case 4:
            return run(nibble_reader{bytes});
        case 8:
            return run(bits_reader<uint8_t>{bytes, static_cast<uint8_t>(mask)});
        case 16:
            return run(bits_reader<uint16_t>{bytes, static_cast<uint16_t>(mask)});
        default:
            return run(bits_reader<uint32_t>{bytes, static_cast<uint32_t>(mask)});
    }
}

}  // namespace magicube
