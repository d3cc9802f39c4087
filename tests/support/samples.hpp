// SPDX-License-Identifier: Apache-2.0
// Random matrices for the operations' tests: dense ones in any order with gaps, sparse ones in
// SR-BCRS. Each keeps its elements as plain numbers beside the packed arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/numbers.hpp"

namespace support {

struct dense_shape {
    kind type = kind::int8;
    int64_t rows = 0;
    int64_t cols = 0;
    bool col_major = false;
    int64_t gap = 0;  // elements between the end of a row or column and the next
    int64_t batch = 1;
    bool shared = false;  // one matrix serves the batch
};

// Everything that is no element holds a known byte.
class dense_sample {
  public:
    dense_sample(const dense_shape& shape, generator& random, uint8_t fill = 0xff) : shape_(shape) {
        ld_ = inner() + shape.gap;
        if (shape.type == kind::int4) ld_ += ld_ % 2;
        stride_ = shape.shared ? 0 : ld_ * outer() + 2 * shape.gap;
        array_ = packed_array(
            shape.type, stride_ * std::max<int64_t>(shape.batch - 1, 0) + ld_ * outer(), fill);
        for (int64_t b = 0; b < (shape.shared ? std::min<int64_t>(shape.batch, 1) : shape.batch);
             ++b)
            for (int64_t i = 0; i < shape.rows; ++i)
                for (int64_t j = 0; j < shape.cols; ++j)
                    array_.set(index(b, i, j), random_value(random, shape.type));
    }

    const dense_shape& shape() const { return shape_; }
    int64_t ld() const { return ld_; }
    int64_t stride() const { return stride_; }
    int64_t index(int64_t b, int64_t i, int64_t j) const {
        return b * stride_ + (shape_.col_major ? j * ld_ + i : i * ld_ + j);
    }
    double at(int64_t b, int64_t i, int64_t j) const { return array_.get(index(b, i, j)); }
    void set(int64_t b, int64_t i, int64_t j, double value) { array_.set(index(b, i, j), value); }
    void set_row(int64_t i, double value) {
        for (int64_t b = 0; b < shape_.batch; ++b)
            for (int64_t j = 0; j < shape_.cols; ++j) set(b, i, j, value);
    }
    packed_array& array() { return array_; }
    const packed_array& array() const { return array_; }

  private:
    int64_t inner() const { return shape_.col_major ? shape_.rows : shape_.cols; }
    int64_t outer() const { return shape_.col_major ? shape_.cols : shape_.rows; }

    dense_shape shape_;
    int64_t ld_ = 0;
    int64_t stride_ = 0;
    packed_array array_;
};

enum class batch_kind { one_pattern, shared_values, different_patterns };

struct sparse_shape {
    kind type = kind::int8;
    int64_t rows = 0;
    int64_t cols = 0;
    int64_t v = 1;
    int64_t s = 1;
    double density = 0.3;
    bool mask = false;
    bool offsets32 = false;
    int64_t batch = 1;
    batch_kind batching = batch_kind::one_pattern;
    int64_t value_gap = 0;  // elements between the value arrays of a batch, beside their length
    int64_t first_col = 0;  // columns outside [first_col, cols - last_cols) hold no vector
    int64_t last_cols = 0;
    int64_t long_block_row = -1;  // the one block row, if any, that has nine vectors of ten
};

class sparse_sample {
  public:
    sparse_sample(const sparse_shape& shape, generator& random) : shape_(shape) {
        const int64_t patterns = different() ? shape.batch : 1;
        for (int64_t b = 0; b < patterns; ++b)
            for (int64_t i = 0; i < block_rows(); ++i) add_block_row(random);
        values_stride_ = shape.batching == batch_kind::one_pattern && shape.batch > 1
                             ? (slots() * shape.v + shape.value_gap + 1) / 2 * 2
                             : 0;
        values_ = packed_array(
            shape.type, slots() * shape.v + values_stride_ * std::max<int64_t>(shape.batch - 1, 0),
            0);
        fill_values(random);
        offsets32_begin_.assign(row_begin_.begin(), row_begin_.end());
        offsets32_end_.assign(row_end_.begin(), row_end_.end());
    }

    const sparse_shape& shape() const { return shape_; }
    bool different() const { return shape_.batching == batch_kind::different_patterns; }
    int64_t block_rows() const { return (shape_.rows + shape_.v - 1) / shape_.v; }
    int64_t slots() const { return static_cast<int64_t>(cols_.size()); }
    int64_t value_count() const { return slots() * shape_.v; }
    int64_t values_stride() const { return values_stride_; }
    const void* row_begin() const {
        return shape_.offsets32 ? static_cast<const void*>(offsets32_begin_.data())
                                : row_begin_.data();
    }
    const void* row_end() const {
        return shape_.offsets32 ? static_cast<const void*>(offsets32_end_.data()) : row_end_.data();
    }
    const int32_t* cols() const { return cols_.data(); }
    const uint8_t* mask() const { return shape_.mask ? mask_.data() : nullptr; }
    packed_array& values() { return values_; }
    const packed_array& values() const { return values_; }
    std::vector<int64_t>& begins() { return row_begin_; }
    std::vector<int64_t>& ends() { return row_end_; }
    std::vector<int32_t>& columns() { return cols_; }

    // Other values, with the same pattern.
    void fill_values(generator& random) {
        const int64_t arrays = values_stride_ == 0 ? 1 : shape_.batch;
        const int64_t patterns = different() ? shape_.batch : 1;
        for (int64_t b = 0; b < arrays; ++b)
            for (int64_t p = 0; p < patterns; ++p)
                each_element(p, [&](int64_t, int64_t, int64_t slot, int64_t v) {
                    values_.set(b * values_stride_ + position(slot, v),
                                random_value(random, shape_.type));
                });
    }

    // Calls visit(row, col, slot, v) for every existing element of a matrix of the batch.
    template <class Visit>
    void each_element(int64_t batch, const Visit& visit) const {
        for (int64_t i = 0; i < block_rows(); ++i) {
            const auto entry = static_cast<size_t>((different() ? batch * block_rows() : 0) + i);
            for (int64_t slot = row_begin_[entry]; slot < row_end_[entry]; ++slot)
                for (int64_t v = 0; v < shape_.v && i * shape_.v + v < shape_.rows; ++v)
                    if (!shape_.mask ||
                        (mask_[static_cast<size_t>(slot * mask_bytes() + v / 8)] >> (v % 8) & 1))
                        visit(i * shape_.v + v, int64_t{cols_[static_cast<size_t>(slot)]}, slot, v);
        }
    }

    // Index of a value in an array of one matrix.
    int64_t position(int64_t slot, int64_t v) const {
        return slot / shape_.s * shape_.s * shape_.v + v * shape_.s + slot % shape_.s;
    }

    // The matrix as rows x cols numbers, absent elements 0.
    std::vector<double> dense(int64_t batch) const {
        std::vector<double> result(static_cast<size_t>(shape_.rows * shape_.cols), 0);
        each_element(batch, [&](int64_t row, int64_t col, int64_t slot, int64_t v) {
            result[static_cast<size_t>(row * shape_.cols + col)] =
                values_.get(batch * values_stride_ + position(slot, v));
        });
        return result;
    }

  private:
    int64_t mask_bytes() const { return (shape_.v + 7) / 8; }

    void add_block_row(generator& random) {
        const bool is_long =
            static_cast<int64_t>(row_begin_.size()) % block_rows() == shape_.long_block_row;
        const double density = is_long ? 0.9 : shape_.density;
        row_begin_.push_back(slots());
        // Every fourth block row is empty.
        if (uniform(random, 0, 3) != 0 || is_long) {
            for (int64_t c = shape_.first_col; c < shape_.cols - shape_.last_cols; ++c)
                if (uniform(random, 0, 999) < static_cast<int64_t>(1000 * density))
                    cols_.push_back(static_cast<int32_t>(c));
        }
        row_end_.push_back(slots());
        while (slots() % shape_.s != 0) cols_.push_back(-1);
        while (static_cast<int64_t>(mask_.size()) < slots() * mask_bytes())
            mask_.push_back(static_cast<uint8_t>(uniform(random, 0, 255)));
    }

    sparse_shape shape_;
    std::vector<int64_t> row_begin_;
    std::vector<int64_t> row_end_;
    std::vector<int32_t> offsets32_begin_;
    std::vector<int32_t> offsets32_end_;
    std::vector<int32_t> cols_;
    std::vector<uint8_t> mask_;
    int64_t values_stride_ = 0;
    packed_array values_;
};

}  // namespace support
