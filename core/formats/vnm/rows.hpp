// SPDX-License-Identifier: Apache-2.0
// The elements of neighbouring rows of a source, group of columns after group: start(first, height)
// chooses the rows, for_each(r, group, emit) calls emit(column, position) for the existing elements
// of row first + r in a group, `column` counted inside the group and ascending. Groups ascend over
// the calls.
#pragma once

#include <algorithm>
#include <vector>

#include "core/formats/dense/nonzero.hpp"
#include "core/formats/row_cursor.hpp"
#include "core/formats/sr_bcrs/convert.hpp"

namespace magicube {

class dense_rows {
  public:
    dense_rows(const dense_source& source, int32_t m)
        : source_(source),
          pattern_(source.mask ? *source.mask : source.values),
          m_(m),
          tile_groups_(std::max(1, 256 / m)) {}

    void start(int64_t first, int64_t height) {
        first_ = first;
        height_ = height;
        tile_ = -1;
    }

    template <class Emit>
    void for_each(int64_t r, int64_t group, Emit&& emit) {
        if (group / tile_groups_ != tile_) load(group / tile_groups_);
        const uint64_t* marks = marks_.data() + r / 64 * tile_cols();
        const int64_t start = group * m_;
        const int64_t begin = start - tile_ * tile_cols();
        const int64_t width = std::min<int64_t>(m_, pattern_.cols - start);
        for (int64_t c = 0; c < width; ++c) {
            if (marks[begin + c] >> (r % 64) & 1)
                emit(static_cast<int32_t>(c), source_.values.index(0, first_ + r, start + c));
        }
    }

  private:
    int64_t tile_cols() const { return tile_groups_ * m_; }

    void load(int64_t tile) {
        tile_ = tile;
        marks_.resize(static_cast<size_t>(ceil_div(height_, 64) * tile_cols()));
        const int64_t col = tile * tile_cols();
        const int64_t cols = std::min(tile_cols(), pattern_.cols - col);
        for (int64_t r = 0; r < height_; r += 64) {
            mark_nonzero(pattern_, 0, first_ + r, std::min<int64_t>(64, height_ - r), col, cols,
                         marks_.data() + r / 64 * tile_cols());
        }
    }

    const dense_source& source_;
    const dense_view& pattern_;
    int64_t m_;
    int64_t tile_groups_;
    int64_t first_ = 0;
    int64_t height_ = 0;
    int64_t tile_ = -1;            // of whole groups, whose marks are loaded
    std::vector<uint64_t> marks_;  // [64 rows][column of the tile], a bit a row
};

template <class View>
class sparse_rows {
  public:
    sparse_rows(const View& source, int32_t m) : source_(source), m_(m) {}

    void start(int64_t first, int64_t height) {
        cursors_.clear();
        for (int64_t r = 0; r < height; ++r) cursors_.emplace_back(source_, 0, first + r);
    }

    template <class Emit>
    void for_each(int64_t r, int64_t group, Emit&& emit) {
        row_cursor<View>& at = cursors_[static_cast<size_t>(r)];
        const int64_t start = group * m_;
        for (; !at.done() && at.column() < start + m_; at.next())
            emit(static_cast<int32_t>(at.column() - start), at.position());
    }

  private:
    const View& source_;
    int64_t m_;
    std::vector<row_cursor<View>> cursors_;
};

}  // namespace magicube
