// SPDX-License-Identifier: Apache-2.0
// Up to 64 neighbouring rows of a sparse matrix walked side by side, column by column.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "core/formats/row_cursor.hpp"

namespace magicube {

template <class View>
class row_merge {
  public:
    // Calls emit(column, rows, position_of) for every column in which one of rows
    // [first, first + count) has an element: bit v of rows tells that row first + v has one, whose
    // value is at position_of(v).
    template <class Emit>
    void for_each_column(const View& matrix, int64_t batch, int64_t first, int64_t count,
                         Emit&& emit) {
        for (int64_t v = 0; v < count; ++v) {
            cursors_[v] = row_cursor<View>(matrix, batch, first + v);
            load_head(v);
        }
        for (;;) {
            const int64_t column = *std::min_element(heads_.begin(), heads_.begin() + count);
            if (column == none) return;
            uint64_t rows = 0;
            for (int64_t v = 0; v < count; ++v) {
                rows |= static_cast<uint64_t>(heads_[v] == column) << v;
            }
            emit(column, rows, [&](int64_t v) { return cursors_[v].position(); });
            for (int64_t v = 0; v < count; ++v) {
                if (heads_[v] != column) continue;
                cursors_[v].next();
                load_head(v);
            }
        }
    }

  private:
    static constexpr int64_t none = std::numeric_limits<int64_t>::max();

    void load_head(int64_t v) { heads_[v] = cursors_[v].done() ? none : cursors_[v].column(); }

    std::array<row_cursor<View>, 64> cursors_;
    std::array<int64_t, 64> heads_;
};

}  // namespace magicube
