// SPDX-License-Identifier: Apache-2.0
// The existing elements of one row of a sparse matrix, ascending by column, in any format. This is
// all that conversions know of their source: a cursor tells column() and position(), the index of
// the element's value, until done().
#pragma once

#include "core/formats/sparse.hpp"

namespace magicube {

template <class View>
class row_cursor;

template <>
class row_cursor<csr_view> {
  public:
    row_cursor() = default;
    row_cursor(const csr_view& matrix, int64_t batch, int64_t row)
        : columns_(matrix.col_indices),
          values_(batch * matrix.values_stride),
          at_(matrix.offsets[row]),
          end_(matrix.offsets[row + 1]) {}

    bool done() const { return at_ == end_; }
    int64_t column() const { return columns_[at_]; }
    int64_t position() const { return values_ + at_; }
    void next() { ++at_; }

  private:
    const int32_t* columns_ = nullptr;
    int64_t values_ = 0;
    int64_t at_ = 0;
    int64_t end_ = 0;
};

template <>
class row_cursor<bsr_view> {
  public:
    row_cursor() = default;
    row_cursor(const bsr_view& matrix, int64_t batch, int64_t row)
        : columns_(matrix.block_col_indices),
          cols_(matrix.cols),
          block_cols_(matrix.block_cols),
          block_size_(matrix.block_rows * matrix.block_cols),
          at_(matrix.offsets[row / matrix.block_rows]),
          end_(matrix.offsets[row / matrix.block_rows + 1]),
          row_start_(batch * matrix.values_stride + at_ * block_size_ +
                     row % matrix.block_rows * block_cols_) {}

    bool done() const { return at_ == end_; }
    int64_t column() const { return columns_[at_] * block_cols_ + within_; }
    int64_t position() const { return row_start_ + within_; }
    void next() {
        ++within_;
        if (within_ < block_cols_ && column() < cols_) return;
        within_ = 0;
        row_start_ += block_size_;
        ++at_;
    }

  private:
    const int32_t* columns_ = nullptr;
    int64_t cols_ = 0;
    int64_t block_cols_ = 1;
    int64_t block_size_ = 1;
    int64_t at_ = 0;
    int64_t end_ = 0;
    int64_t row_start_ = 0;  // position of the row's first element in block at_
    int64_t within_ = 0;     // column inside the block
};

template <>
class row_cursor<sr_bcrs_view> {
  public:
    row_cursor() = default;
    row_cursor(const sr_bcrs_view& matrix, int64_t batch, int64_t row)
        : columns_(matrix.col_indices),
          stride_(matrix.stride),
          chunk_jump_(int64_t{matrix.stride} * (matrix.vector_length - 1)) {
        const int64_t v = row % matrix.vector_length;
        const int64_t i = matrix.block_row_index(batch, row / matrix.vector_length);
        at_ = matrix.row_begin[i];
        end_ = matrix.row_end[i];
        position_ = matrix.value_index(batch, at_, v);
        if (matrix.element_mask) {
            mask_bytes_ = (matrix.vector_length + 7) / 8;
            mask_ = matrix.element_mask + v / 8;
            bit_ = static_cast<uint8_t>(1 << v % 8);
            skip_absent();
        }
    }

    bool done() const { return at_ == end_; }
    int64_t column() const { return columns_[at_]; }
    int64_t position() const { return position_; }
    void next() {
        step();
        if (mask_) skip_absent();
    }

  private:
    void step() {
        ++at_;
        ++position_;
        if (++in_chunk_ == stride_) {
            in_chunk_ = 0;
            position_ += chunk_jump_;
        }
    }
    void skip_absent() {
        while (at_ != end_ && !(mask_[at_ * mask_bytes_] & bit_)) step();
    }

    const int32_t* columns_ = nullptr;
    const uint8_t* mask_ = nullptr;  // null: every element exists
    int64_t mask_bytes_ = 1;
    uint8_t bit_ = 1;
    int32_t stride_ = 1;
    int32_t in_chunk_ = 0;  // row_begin is a multiple of the stride
    int64_t chunk_jump_ = 0;
    int64_t at_ = 0;
    int64_t end_ = 0;
    int64_t position_ = 0;
};

}  // namespace magicube
