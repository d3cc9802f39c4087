// SPDX-License-Identifier: Apache-2.0
// The existing elements of one row of a sparse matrix, ascending by column, in any format. This is
// all that conversions know of their source, on every device: a cursor tells column() and
// position(), the index of the element's value, until done(). seek(column) moves it on to the first
// element whose column is not below that.
#pragma once

#include "core/formats/sparse.hpp"

namespace magicube {

// The first of the ascending indices[first..last) that is not below `wanted`, or last.
MAGICUBE_HOST_DEVICE inline int64_t first_not_below(const int32_t* indices, int64_t first,
                                                    int64_t last, int64_t wanted) {
    while (first < last) {
        const int64_t middle = first + (last - first) / 2;
        if (indices[middle] < wanted) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first;
}

template <class View>
class row_cursor;

template <>
class row_cursor<csr_view> {
  public:
    row_cursor() = default;
    MAGICUBE_HOST_DEVICE row_cursor(const csr_view& matrix, int64_t batch, int64_t row)
        : columns_(matrix.col_indices),
          values_(batch * matrix.values_stride),
          at_(matrix.offsets[row]),
          end_(matrix.offsets[row + 1]) {}

    MAGICUBE_HOST_DEVICE bool done() const { return at_ == end_; }
    MAGICUBE_HOST_DEVICE int64_t column() const { return columns_[at_]; }
    MAGICUBE_HOST_DEVICE int64_t position() const { return values_ + at_; }
    MAGICUBE_HOST_DEVICE void next() { ++at_; }
    MAGICUBE_HOST_DEVICE void seek(int64_t column) {
        at_ = first_not_below(columns_, at_, end_, column);
    }

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
    MAGICUBE_HOST_DEVICE row_cursor(const bsr_view& matrix, int64_t batch, int64_t row)
        : columns_(matrix.block_col_indices),
          cols_(matrix.cols),
          block_cols_(matrix.block_cols),
          block_size_(matrix.block_rows * matrix.block_cols),
          at_(matrix.offsets[row / matrix.block_rows]),
          end_(matrix.offsets[row / matrix.block_rows + 1]),
          row_start_(batch * matrix.values_stride + at_ * block_size_ +
                     row % matrix.block_rows * block_cols_) {}

    MAGICUBE_HOST_DEVICE bool done() const { return at_ == end_; }
    MAGICUBE_HOST_DEVICE int64_t column() const { return columns_[at_] * block_cols_ + within_; }
    MAGICUBE_HOST_DEVICE int64_t position() const { return row_start_ + within_; }
    MAGICUBE_HOST_DEVICE void next() {
        ++within_;
        if (within_ < block_cols_ && column() < cols_) return;
        within_ = 0;
        row_start_ += block_size_;
        ++at_;
    }
    MAGICUBE_HOST_DEVICE void seek(int64_t column) {
        const int64_t block = column / block_cols_;
        const int64_t at = first_not_below(columns_, at_, end_, block);
        row_start_ += (at - at_) * block_size_;
        at_ = at;
        within_ = at != end_ && columns_[at] == block ? column - block * block_cols_ : 0;
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
    MAGICUBE_HOST_DEVICE row_cursor(const sr_bcrs_view& matrix, int64_t batch, int64_t row)
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

    MAGICUBE_HOST_DEVICE bool done() const { return at_ == end_; }
    MAGICUBE_HOST_DEVICE int64_t column() const { return columns_[at_]; }
    MAGICUBE_HOST_DEVICE int64_t position() const { return position_; }
    MAGICUBE_HOST_DEVICE void next() {
        step();
        if (mask_) skip_absent();
    }
    MAGICUBE_HOST_DEVICE void seek(int64_t column) {
        const int64_t steps = first_not_below(columns_, at_, end_, column) - at_;
        const int64_t in_chunk = in_chunk_ + steps;
        at_ += steps;
        position_ += steps + in_chunk / stride_ * chunk_jump_;
        in_chunk_ = static_cast<int32_t>(in_chunk % stride_);
        if (mask_) skip_absent();
    }

  private:
    MAGICUBE_HOST_DEVICE void step() {
        ++at_;
        ++position_;
        if (++in_chunk_ == stride_) {
            in_chunk_ = 0;
            position_ += chunk_jump_;
        }
    }
    MAGICUBE_HOST_DEVICE void skip_absent() {
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

template <>
class row_cursor<vnm_view> {
  public:
    row_cursor() = default;
    MAGICUBE_HOST_DEVICE row_cursor(const vnm_view& matrix, int64_t batch, int64_t row)
        : matrix_(matrix),
          row_(row),
          groups_(matrix.groups()),
          values_(matrix.value_index(batch, row, 0, 0)) {
        skip_absent();
    }

    MAGICUBE_HOST_DEVICE bool done() const { return group_ >= groups_; }
    MAGICUBE_HOST_DEVICE int64_t column() const {
        const int64_t block_row = row_ / matrix_.vector_length;
        return group_ * matrix_.m + matrix_.loc(matrix_.loc_index(block_row, group_, place()));
    }
    MAGICUBE_HOST_DEVICE int64_t position() const { return values_ + group_ * matrix_.n + i_; }
    MAGICUBE_HOST_DEVICE void next() {
        step();
        skip_absent();
    }
    MAGICUBE_HOST_DEVICE void seek(int64_t column) {
        if (column / matrix_.m > group_) {
            group_ = column / matrix_.m;
            i_ = 0;
            skip_absent();
        }
        while (!done() && this->column() < column) next();
    }

  private:
    MAGICUBE_HOST_DEVICE int32_t place() const { return matrix_.place(row_, group_, i_); }
    MAGICUBE_HOST_DEVICE void step() {
        if (++i_ < matrix_.n) return;
        i_ = 0;
        ++group_;
    }
    MAGICUBE_HOST_DEVICE void skip_absent() {
        while (!done() && place() >= matrix_.group_width(group_)) step();
    }

    vnm_view matrix_;
    int64_t row_ = 0;
    int64_t groups_ = 0;
    int64_t values_ = 0;  // position of the row's first value
    int64_t group_ = 0;
    int32_t i_ = 0;  // element inside the group
};

// Where element (row, column) of a matrix has its value; -1 if it does not exist.
template <class View>
MAGICUBE_HOST_DEVICE int64_t position_in(const View& matrix, int64_t batch, int64_t row,
                                         int64_t column) {
    row_cursor<View> at(matrix, batch, row);
    at.seek(column);
    return at.done() || at.column() != column ? -1 : at.position();
}

}  // namespace magicube
