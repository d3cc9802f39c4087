// SPDX-License-Identifier: Apache-2.0
// Views of sparse matrices in each public format. Layouts: the headers in capi/include/magicube.
#pragma once

#include <cstdint>
#include <variant>

#include "core/common/checked.hpp"
#include "core/types/view.hpp"

namespace magicube {

// What every format has. A batch has one pattern and values `values_stride` elements apart, unless
// the format says otherwise.
struct sparse_common {
    int64_t rows = 0;
    int64_t cols = 0;
    void* values = nullptr;  // null: pattern alone; not written if read_only
    dtype type = dtype::fp32;
    bool read_only = false;
    int64_t batch_count = 1;
    int64_t values_stride = 0;
};

struct csr_view : sparse_common {
    int64_t nnz = 0;
    index_array offsets;  // rows + 1
    const int32_t* col_indices = nullptr;

    int64_t value_count() const { return nnz; }
};

struct bsr_view : sparse_common {
    int64_t block_rows = 1;
    int64_t block_cols = 1;
    int64_t nnzb = 0;
    index_array offsets;  // ceil(rows / block_rows) + 1
    const int32_t* block_col_indices = nullptr;

    int64_t value_count() const { return nnzb * block_rows * block_cols; }
};

struct sr_bcrs_view : sparse_common {
    int32_t vector_length = 1;
    int32_t stride = 1;
    int64_t slots = 0;
    index_array row_begin;  // block_rows() each, times batch_count if patterns differ
    index_array row_end;
    const int32_t* col_indices = nullptr;
    const uint8_t* element_mask = nullptr;
    bool different_patterns = false;

    MAGICUBE_HOST_DEVICE int64_t block_rows() const { return ceil_div(rows, vector_length); }
    int64_t value_count() const { return slots * vector_length; }
    // The matrix of this batch that goes with one of an operation's: a single one serves all.
    MAGICUBE_HOST_DEVICE int64_t matrix_for(int64_t batch) const {
        return batch_count == 1 ? 0 : batch;
    }
    // Where row_begin and row_end of a block row lie, in a matrix of the batch.
    MAGICUBE_HOST_DEVICE int64_t block_row_index(int64_t batch, int64_t block_row) const {
        return (different_patterns ? batch * block_rows() : 0) + block_row;
    }
    // Index of a value of a matrix of the batch, in elements.
    MAGICUBE_HOST_DEVICE int64_t value_index(int64_t batch, int64_t slot, int64_t v) const {
        const int64_t chunk = slot / stride;
        return (different_patterns ? 0 : batch * values_stride) + chunk * stride * vector_length +
               v * stride + slot % stride;
    }
    // Whether the vector's element exists.
    MAGICUBE_HOST_DEVICE bool exists(int64_t slot, int64_t v) const {
        if (!element_mask) return true;
        return element_mask[slot * ((vector_length + 7) / 8) + v / 8] >> (v % 8) & 1;
    }
};

// V:n:M: n elements of each row in every group of M columns, within the column_budget() columns
// that the rows of a block share. What stands at a place of the budget behind the group's last
// column does not exist.
struct vnm_view : sparse_common {
    int32_t vector_length = 1;
    int32_t n = 2;
    int32_t m = 4;
    const void* column_loc = nullptr;  // [block row][group][place], uint8 or, for m > 256, uint16
    const uint8_t* metadata = nullptr;

    MAGICUBE_HOST_DEVICE int64_t block_rows() const { return ceil_div(rows, vector_length); }
    MAGICUBE_HOST_DEVICE int64_t groups() const { return ceil_div(cols, m); }
    // Columns that a block row selects in a group.
    MAGICUBE_HOST_DEVICE int32_t column_budget() const { return n > 3 ? n + 2 : 4; }
    int64_t value_count() const { return rows * groups() * n; }
    // Columns of a group: m, or those left in the last one.
    MAGICUBE_HOST_DEVICE int32_t group_width(int64_t group) const {
        const int64_t left = cols - group * m;
        return left < m ? static_cast<int32_t>(left) : m;
    }
    // Index of a selected column in column_loc, and the column, counted inside its group.
    MAGICUBE_HOST_DEVICE int64_t loc_index(int64_t block_row, int64_t group, int32_t place) const {
        return (block_row * groups() + group) * column_budget() + place;
    }
    MAGICUBE_HOST_DEVICE int32_t loc(int64_t index) const {
        return m > 256 ? static_cast<const uint16_t*>(column_loc)[index]
                       : static_cast<const uint8_t*>(column_loc)[index];
    }
    // Place in the budget of a row's element i in a group.
    MAGICUBE_HOST_DEVICE int32_t place(int64_t row, int64_t group, int32_t i) const {
        if (n != 2) return metadata[(row * groups() + group) * n + i];
        const int32_t byte = metadata[row * ceil_div(groups(), 2) + group / 2];
        return byte >> (group % 2 * 4 + i * 2) & 3;
    }
    // Index of a value of a matrix of the batch, in elements.
    MAGICUBE_HOST_DEVICE int64_t value_index(int64_t batch, int64_t row, int64_t group,
                                             int32_t i) const {
        return batch * values_stride + (row * groups() + group) * n + i;
    }
    // The matrix of this batch that goes with one of an operation's: a single one serves all.
    MAGICUBE_HOST_DEVICE int64_t matrix_for(int64_t batch) const {
        return batch_count == 1 ? 0 : batch;
    }
};

// Lengths of the arrays of a V:n:M matrix.
inline int64_t column_loc_count(const vnm_view& matrix) {
    return matrix.block_rows() * matrix.groups() * matrix.column_budget();
}
constexpr int64_t column_loc_bytes(int32_t m) {
    return m > 256 ? 2 : 1;
}
inline int64_t metadata_count(const vnm_view& matrix) {
    return matrix.rows *
           (matrix.n == 2 ? ceil_div(matrix.groups(), 2) : matrix.groups() * matrix.n);
}

using sparse_view = std::variant<csr_view, bsr_view, sr_bcrs_view, vnm_view>;

inline sparse_common& common_of(sparse_view& view) {
    return std::visit([](auto& v) -> sparse_common& { return v; }, view);
}

inline const sparse_common& common_of(const sparse_view& view) {
    return std::visit([](const auto& v) -> const sparse_common& { return v; }, view);
}

// Whether there is a value for every stored element; false for a pattern alone.
inline bool has_values(const sparse_view& view) {
    return std::visit([](const auto& v) { return v.values || v.value_count() == 0; }, view);
}

// Rows that a thread takes at once: a multiple of every vector length, and even, so that int4
// elements of two threads never share a byte of a dense matrix.
constexpr int64_t band_rows = 64;

constexpr bool is_vector_length(int64_t v) {
    return v == 1 || v == 2 || v == 4 || v == 8 || v == 16 || v == 32 || v == 64;
}

constexpr bool is_stride(int64_t s) {
    return s == 1 || s == 8 || s == 16 || s == 32;
}

// The stride that a caller who names none gets.
constexpr int32_t default_stride(int32_t vector_length, dtype type) {
    if (type == dtype::int4) return 32;
    if (vector_length == 1) return 1;
    return storage_bits(type) <= 8 ? 32 : 16;
}

// CSR is SR-BCRS with vectors and strides of one, without a copy.
inline sr_bcrs_view as_sr_bcrs(const csr_view& csr) {
    sr_bcrs_view view;
    static_cast<sparse_common&>(view) = csr;
    view.slots = csr.nnz;
    view.row_begin = csr.offsets;
    view.row_end = csr.offsets;
    if (csr.rows > 0) {
        view.row_end.data =
            static_cast<const char*>(csr.offsets.data) + index_bytes(csr.offsets.type);
    }
    view.col_indices = csr.col_indices;
    return view;
}

}  // namespace magicube
