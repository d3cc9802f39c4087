// SPDX-License-Identifier: Apache-2.0
// The vectors that a source has, band by band of 64 rows: for_each(batch, band, emit) calls
// emit(j, column, rows, position_of) for every vector of the band's block row j, ascending by
// column within a block row. Bit v of rows tells that element v exists, with its value at
// position_of(v).
#pragma once

#include <algorithm>
#include <array>

#include "core/formats/dense/nonzero.hpp"
#include "core/formats/row_merge.hpp"
#include "core/formats/sr_bcrs/convert.hpp"

namespace magicube {

// The block rows of a band.
struct band_of_rows {
    int64_t first;   // row
    int64_t height;  // rows, 64 or those left
    int32_t vector_length;

    band_of_rows(int64_t band, int64_t rows, int32_t v)
        : first(band * band_rows), height(std::min(band_rows, rows - first)), vector_length(v) {}

    int64_t block_rows() const { return ceil_div(height, vector_length); }
    int64_t first_block_row() const { return first / vector_length; }
    int64_t first_row_of(int64_t j) const { return first + j * vector_length; }
    int64_t height_of(int64_t j) const {
        return std::min<int64_t>(vector_length, height - j * vector_length);
    }
};

class dense_vectors {
  public:
    dense_vectors(const dense_source& source, int32_t vector_length)
        : source_(source), vector_length_(vector_length) {}

    int64_t rows() const { return source_.values.rows; }
    int64_t batch_count() const { return source_.values.batch_count; }
    const void* values() const { return source_.values.values; }
    dtype type() const { return source_.values.type; }

    template <class Emit>
    void for_each(int64_t batch, int64_t band, Emit&& emit) const {
        const dense_view& pattern = source_.mask ? *source_.mask : source_.values;
        const band_of_rows part(band, rows(), vector_length_);
        std::array<uint64_t, 256> marks;
        const auto tile = static_cast<int64_t>(marks.size());
        for (int64_t c0 = 0; c0 < pattern.cols; c0 += tile) {
            const int64_t cols = std::min(tile, pattern.cols - c0);
            mark_nonzero(pattern, batch, part.first, part.height, c0, cols, marks.data());
            for (int64_t j = 0; j < part.block_rows(); ++j) {
                const int64_t shift = j * vector_length_;
                const uint64_t all = ~uint64_t{0} >> (64 - part.height_of(j));
                for (int64_t c = 0; c < cols; ++c) {
                    const uint64_t rows = marks[c] >> shift & all;
                    if (rows == 0) continue;
                    emit(j, c0 + c, source_.mask ? rows : all, [&](int64_t v) {
                        return source_.values.index(batch, part.first_row_of(j) + v, c0 + c);
                    });
                }
            }
        }
    }

  private:
    const dense_source& source_;
    int32_t vector_length_;
};

template <class View>
class sparse_vectors {
  public:
    sparse_vectors(const View& source, int32_t vector_length)
        : source_(source), vector_length_(vector_length) {}

    int64_t rows() const { return source_.rows; }
    int64_t batch_count() const { return source_.batch_count; }
    const void* values() const { return source_.values; }
    dtype type() const { return source_.type; }

    template <class Emit>
    void for_each(int64_t batch, int64_t band, Emit&& emit) const {
        const band_of_rows part(band, rows(), vector_length_);
        row_merge<View> merge;
        for (int64_t j = 0; j < part.block_rows(); ++j) {
            merge.for_each_column(source_, batch, part.first_row_of(j), part.height_of(j),
                                  [&](int64_t column, uint64_t rows, const auto& position_of) {
                                      emit(j, column, rows, position_of);
                                  });
        }
    }

  private:
    const View& source_;
    int32_t vector_length_;
};

}  // namespace magicube
