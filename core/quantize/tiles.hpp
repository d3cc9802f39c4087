// SPDX-License-Identifier: Apache-2.0
// One pass over a dense matrix that writes another of the same shape, in any two orders. Tiles of
// 64 x 64 keep both sides' cache lines in use when the orders differ.
#pragma once

#include <algorithm>

#include "core/device/context.hpp"
#include "core/quantize/scales.hpp"
#include "core/types/runs.hpp"
#include "core/types/view.hpp"

namespace magicube {

constexpr int64_t tile_size = 64;  // even, so that int4 elements of two tiles never share a byte

// A square of a matrix in terms of its stored lines.
struct tile {
    int64_t batch;
    int64_t first_line;
    int64_t lines;
    int64_t first_along;  // within the lines
    int64_t along;

    tile(const dense_view& matrix, int64_t number) {
        const int64_t across_count = ceil_div(matrix.outer(), tile_size);
        const int64_t along_count = ceil_div(matrix.inner(), tile_size);
        batch = number / (across_count * along_count);
        first_line = number / along_count % across_count * tile_size;
        lines = std::min(tile_size, matrix.outer() - first_line);
        first_along = number % along_count * tile_size;
        along = std::min(tile_size, matrix.inner() - first_along);
    }

    static int64_t count(const dense_view& matrix) {
        return matrix.batch_count * ceil_div(matrix.outer(), tile_size) *
               ceil_div(matrix.inner(), tile_size);
    }
};

// to = op(from): op(numbers, scales, count) changes numbers in place, scales[i] being the scale of
// numbers[i].
template <class Op>
void transform(const context& ctx, const dense_view& from, const dense_view& to,
               const scale_array& scales, const Op& op) {
    if (from.empty()) return;
    const bool by_row = from.storage == order::row;
    const bool transposes = from.storage != to.storage;
    ctx.parallel(tile::count(from), 16, [&](int64_t begin, int64_t end) {
        float numbers[tile_size][tile_size + 1];
        float run[tile_size];
        for (int64_t number = begin; number < end; ++number) {
            const tile t(from, number);
            const auto start = [&](const dense_view& m, int64_t line, int64_t along) {
                return by_row ? m.index(t.batch, t.first_line + line, t.first_along + along)
                              : m.index(t.batch, t.first_along + along, t.first_line + line);
            };
            for (int64_t l = 0; l < t.lines; ++l) {
                load_run(from.type, from.values, start(from, l, 0), t.along, numbers[l]);
                scales.load(t.batch, by_row, t.first_line + l, t.first_along, t.along, run);
                op(numbers[l], run, t.along);
                if (transposes) continue;
                store_run(to.type, to.values, start(to, l, 0), t.along, numbers[l]);
            }
            for (int64_t i = 0; transposes && i < t.along; ++i) {
                for (int64_t l = 0; l < t.lines; ++l) run[l] = numbers[l][i];
                store_run(to.type, to.values, start(to, 0, i), t.lines, run);
            }
        }
    });
}

}  // namespace magicube
