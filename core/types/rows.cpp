// SPDX-License-Identifier: Apache-2.0
#include "core/types/rows.hpp"

#include "core/types/runs.hpp"

namespace magicube {

void load_row(const dense_view& m, int64_t batch, int64_t row, int64_t first, int64_t count,
              double* out) {
    if (m.storage == order::row) {
        load_run(m.type, m.values, m.index(batch, row, first), count, out);
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        load_run(m.type, m.values, m.index(batch, row, first + i), 1, out + i);
    }
}

void store_row(const dense_view& m, int64_t row, const double* numbers, float* floats) {
    for (int64_t i = 0; i < m.cols; ++i) floats[i] = static_cast<float>(numbers[i]);
    if (m.storage == order::row) {
        store_run(m.type, m.values, m.index(0, row, 0), m.cols, floats);
        return;
    }
    for (int64_t i = 0; i < m.cols; ++i) {
        store_run(m.type, m.values, m.index(0, row, i), 1, floats + i);
    }
}

}  // namespace magicube
