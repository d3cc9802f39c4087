// SPDX-License-Identifier: Apache-2.0
// What every format stands for: which elements of a batch of matrices exist, and their values; and
// each format's arrays written from it element by element, as its definition reads.
#pragma once

#include <cstdint>
#include <vector>

#include "support/numbers.hpp"
#include "support/samples.hpp"

namespace support {

struct element_grid {
    int64_t rows;
    int64_t cols;
    int64_t batch;
    std::vector<uint8_t> exists;
    std::vector<double> values;  // 0 where absent

    element_grid(int64_t m, int64_t k, int64_t count)
        : rows(m),
          cols(k),
          batch(count),
          exists(static_cast<size_t>(m * k * count), 0),
          values(exists.size(), 0) {}

    size_t at(int64_t b, int64_t i, int64_t j) const {
        return static_cast<size_t>((b * rows + i) * cols + j);
    }
    void put(int64_t b, int64_t i, int64_t j, double value) {
        exists[at(b, i, j)] = 1;
        values[at(b, i, j)] = value;
    }
    bool any(int64_t b, int64_t row, int64_t row_count, int64_t col, int64_t col_count) const {
        for (int64_t i = row; i < std::min(rows, row + row_count); ++i)
            for (int64_t j = col; j < std::min(cols, col + col_count); ++j)
                if (exists[at(b, i, j)]) return true;
        return false;
    }
};

// Each element exists with the given probability; every third band of 8 rows is empty.
inline element_grid random_grid(generator& random, kind type, int64_t rows, int64_t cols,
                                int64_t batch, double density) {
    element_grid grid(rows, cols, batch);
    for (int64_t b = 0; b < batch; ++b)
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < cols; ++j)
                if (i / 8 % 3 != 1 &&
                    uniform(random, 0, 999) < static_cast<int64_t>(1000 * density))
                    grid.put(b, i, j, random_value(random, type));
    return grid;
}

inline element_grid grid_of(const sparse_sample& sample) {
    const auto& shape = sample.shape();
    element_grid grid(shape.rows, shape.cols, shape.batch);
    for (int64_t b = 0; b < shape.batch; ++b)
        sample.each_element(b, [&](int64_t row, int64_t col, int64_t slot, int64_t v) {
            grid.put(b, row, col,
                     sample.values().get(b * sample.values_stride() + sample.position(slot, v)));
        });
    return grid;
}

struct csr_arrays {
    std::vector<int64_t> offsets{0};
    std::vector<int32_t> columns;
    packed_array values;
};

// One pattern, that of matrix 0; the values of matrix b start at b * values_stride.
inline csr_arrays csr_of(const element_grid& grid, kind type, int64_t values_stride = 0) {
    csr_arrays csr;
    std::vector<std::pair<int64_t, int64_t>> places;
    for (int64_t i = 0; i < grid.rows; ++i) {
        for (int64_t j = 0; j < grid.cols; ++j) {
            if (!grid.exists[grid.at(0, i, j)]) continue;
            csr.columns.push_back(static_cast<int32_t>(j));
            places.emplace_back(i, j);
        }
        csr.offsets.push_back(static_cast<int64_t>(csr.columns.size()));
    }
    const auto nnz = static_cast<int64_t>(places.size());
    csr.values = packed_array(type, values_stride * (grid.batch - 1) + nnz);
    for (int64_t b = 0; b < (values_stride ? grid.batch : 1); ++b)
        for (int64_t p = 0; p < nnz; ++p) {
            const auto [i, j] = places[static_cast<size_t>(p)];
            csr.values.set(b * values_stride + p, grid.values[grid.at(b, i, j)]);
        }
    return csr;
}

// The blocks in which an element exists; in a block, absent elements are 0.
inline csr_arrays bsr_of(const element_grid& grid, kind type, int64_t block_rows,
                         int64_t block_cols) {
    csr_arrays bsr;
    std::vector<double> values;
    for (int64_t row = 0; row < grid.rows; row += block_rows) {
        for (int64_t col = 0; col < grid.cols; col += block_cols) {
            if (!grid.any(0, row, block_rows, col, block_cols)) continue;
            bsr.columns.push_back(static_cast<int32_t>(col / block_cols));
            for (int64_t i = row; i < row + block_rows; ++i)
                for (int64_t j = col; j < col + block_cols; ++j)
                    values.push_back(i < grid.rows && j < grid.cols ? grid.values[grid.at(0, i, j)]
                                                                    : 0);
        }
        bsr.offsets.push_back(static_cast<int64_t>(bsr.columns.size()));
    }
    bsr.values = packed_array(type, static_cast<int64_t>(values.size()));
    for (size_t p = 0; p < values.size(); ++p) bsr.values.set(static_cast<int64_t>(p), values[p]);
    return bsr;
}

struct sr_bcrs_arrays {
    std::vector<int64_t> begin;
    std::vector<int64_t> end;
    std::vector<int32_t> columns;
    std::vector<uint8_t> mask;
    packed_array values;

    int64_t slots() const { return static_cast<int64_t>(columns.size()); }
};

// A batch of different patterns.
inline sr_bcrs_arrays sr_bcrs_of(const element_grid& grid, kind type, int64_t v, int64_t s) {
    sr_bcrs_arrays result;
    std::vector<std::pair<int64_t, double>> values;  // position, value
    const int64_t mask_bytes = (v + 7) / 8;
    for (int64_t b = 0; b < grid.batch; ++b)
        for (int64_t row = 0; row < grid.rows; row += v) {
            result.begin.push_back(result.slots());
            for (int64_t col = 0; col < grid.cols; ++col) {
                if (!grid.any(b, row, v, col, 1)) continue;
                const int64_t slot = result.slots();
                result.columns.push_back(static_cast<int32_t>(col));
                result.mask.resize(static_cast<size_t>((slot + 1) * mask_bytes), 0);
                for (int64_t i = 0; i < v && row + i < grid.rows; ++i) {
                    if (!grid.exists[grid.at(b, row + i, col)]) continue;
                    result.mask[static_cast<size_t>(slot * mask_bytes + i / 8)] |=
                        static_cast<uint8_t>(1 << (i % 8));
                    values.emplace_back(slot / s * v * s + i * s + slot % s,
                                        grid.values[grid.at(b, row + i, col)]);
                }
            }
            result.end.push_back(result.slots());
            while (result.slots() % s != 0) result.columns.push_back(-1);
            result.mask.resize(static_cast<size_t>(result.slots() * mask_bytes), 0);
        }
    result.values = packed_array(type, result.slots() * v);
    for (int64_t p = 0; p < result.slots() * v; ++p) result.values.set(p, 0);
    for (const auto& [position, value] : values) result.values.set(position, value);
    return result;
}

}  // namespace support
