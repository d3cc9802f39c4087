// SPDX-License-Identifier: Apache-2.0
// Random V:n:M matrices, written as the format's definition reads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/numbers.hpp"

namespace support {

// Which columns the block rows select.
enum class selection { random, all_the_same, first, last };

struct vnm_shape {
    kind type = kind::int8;
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t v = 1;
    int64_t m = 4;
    int64_t n = 2;
    selection columns = selection::random;
    int64_t batch = 1;
    bool shared_values = false;
    int64_t value_gap = 0;  // elements between the value arrays of a batch, beside their length
};

class vnm_sample {
  public:
    vnm_sample(const vnm_shape& shape, generator& random) : shape_(shape) {
        for (int64_t b = 0; b < block_rows(); ++b)
            for (int64_t g = 0; g < groups(); ++g) select(b, g, random);
        for (int64_t i = 0; i < shape.rows; ++i)
            for (int64_t g = 0; g < groups(); ++g) {
                const auto places = draw(budget(), shape.n, random);
                places_.insert(places_.end(), places.begin(), places.end());
            }
        narrow_loc_.assign(loc_.begin(), loc_.end());
        pack_metadata();
        values_stride_ =
            shape.batch > 1 && !shape.shared_values ? value_count() + shape.value_gap : 0;
        values_ = packed_array(
            shape.type, value_count() + values_stride_ * std::max<int64_t>(shape.batch - 1, 0), 0);
        fill_values(random);
    }

    const vnm_shape& shape() const { return shape_; }
    int64_t groups() const { return (shape_.cols + shape_.m - 1) / shape_.m; }
    int64_t block_rows() const { return (shape_.rows + shape_.v - 1) / shape_.v; }
    int64_t budget() const { return shape_.n > 3 ? shape_.n + 2 : 4; }
    int64_t width(int64_t g) const { return std::min(shape_.m, shape_.cols - g * shape_.m); }
    int64_t value_count() const { return shape_.rows * groups() * shape_.n; }
    int64_t values_stride() const { return values_stride_; }
    packed_array& values() { return values_; }
    const packed_array& values() const { return values_; }
    // Entries, uint8 or uint16 as m says; change them through set_loc.
    void* column_loc() {
        return shape_.m > 256 ? static_cast<void*>(loc_.data()) : narrow_loc_.data();
    }
    int64_t column_loc_bytes() const {
        return static_cast<int64_t>(loc_.size()) * (shape_.m > 256 ? 2 : 1);
    }
    void set_loc(int64_t index, int64_t column) {
        loc_[static_cast<size_t>(index)] = static_cast<uint16_t>(column);
        narrow_loc_[static_cast<size_t>(index)] = static_cast<uint8_t>(column);
    }
    std::vector<uint8_t>& metadata() { return metadata_; }

    // Whether a block row selects the column.
    bool selects(int64_t col) const {
        const int64_t g = col / shape_.m;
        for (int64_t b = 0; b < block_rows(); ++b)
            for (int64_t p = 0; p < budget(); ++p)
                if (loc_[static_cast<size_t>((b * groups() + g) * budget() + p)] == col % shape_.m)
                    return true;
        return false;
    }

    // Calls visit(row, col, position, 0) for every existing element; one pattern serves a batch.
    template <class Visit>
    void each_element(int64_t, const Visit& visit) const {
        for (int64_t i = 0; i < shape_.rows; ++i)
            for (int64_t g = 0; g < groups(); ++g)
                for (int64_t e = 0; e < shape_.n; ++e) {
                    const int64_t index = (i * groups() + g) * shape_.n + e;
                    const int64_t place = places_[static_cast<size_t>(index)];
                    if (place >= width(g)) continue;
                    const int64_t at = (i / shape_.v * groups() + g) * budget() + place;
                    visit(i, g * shape_.m + loc_[static_cast<size_t>(at)], index, int64_t{0});
                }
    }
    // As each_element tells it.
    int64_t position(int64_t index, int64_t) const { return index; }

    // Other values, with the same pattern; every eighth is 0.
    void fill_values(generator& random) {
        for (int64_t b = 0; b < (values_stride_ == 0 ? 1 : shape_.batch); ++b)
            each_element(0, [&](int64_t, int64_t, int64_t index, int64_t) {
                const double value = random_value(random, shape_.type);
                values_.set(b * values_stride_ + index, uniform(random, 0, 7) == 0 ? 0 : value);
            });
    }

    // The matrix as rows x cols numbers, absent elements 0.
    std::vector<double> dense(int64_t batch) const {
        std::vector<double> result(static_cast<size_t>(shape_.rows * shape_.cols), 0);
        each_element(0, [&](int64_t row, int64_t col, int64_t index, int64_t) {
            result[static_cast<size_t>(row * shape_.cols + col)] =
                values_.get(batch * values_stride_ + index);
        });
        return result;
    }

  private:
    // `count` of the numbers below `end`, ascending.
    static std::vector<int64_t> draw(int64_t end, int64_t count, generator& random) {
        std::vector<int64_t> all(static_cast<size_t>(end));
        std::iota(all.begin(), all.end(), 0);
        std::shuffle(all.begin(), all.end(), random);
        all.resize(static_cast<size_t>(count));
        std::sort(all.begin(), all.end());
        return all;
    }

    void select(int64_t block_row, int64_t g, generator& random) {
        const int64_t w = width(g), count = std::min(budget(), w);
        std::vector<int64_t> columns;
        if (shape_.columns == selection::random ||
            (shape_.columns == selection::all_the_same && block_row == 0)) {
            columns = draw(w, count, random);
        } else if (shape_.columns == selection::all_the_same) {
            const auto first = loc_.begin() + g * budget();
            columns.assign(first, first + count);
        } else {
            columns.resize(static_cast<size_t>(count));
            std::iota(columns.begin(), columns.end(),
                      shape_.columns == selection::first ? 0 : w - count);
        }
        columns.resize(static_cast<size_t>(budget()), w - 1);
        loc_.insert(loc_.end(), columns.begin(), columns.end());
    }

    void pack_metadata() {
        if (shape_.n != 2) {
            metadata_.assign(places_.begin(), places_.end());
            return;
        }
        const int64_t row_bytes = (groups() + 1) / 2;
        metadata_.assign(static_cast<size_t>(shape_.rows * row_bytes), 0);
        for (int64_t i = 0; i < shape_.rows; ++i)
            for (int64_t g = 0; g < groups(); ++g) {
                const auto at = static_cast<size_t>((i * groups() + g) * 2);
                const int64_t nibble = places_[at] + 4 * places_[at + 1];
                metadata_[static_cast<size_t>(i * row_bytes + g / 2)] |=
                    static_cast<uint8_t>(nibble << g % 2 * 4);
            }
    }

    vnm_shape shape_;
    std::vector<uint16_t> loc_;
    std::vector<uint8_t> narrow_loc_;
    std::vector<int64_t> places_;  // of all values
    std::vector<uint8_t> metadata_;
    int64_t values_stride_ = 0;
    packed_array values_;
};

}  // namespace support
