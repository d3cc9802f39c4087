// SPDX-License-Identifier: Apache-2.0
// A sparse matrix as plans that do not repack it keep it in their buffer: a copy of the pattern
// and, unless the values come with each call, of the values, both in the public layout.
#pragma once

#include <cstdint>

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"
#include "core/ops/plan_buffer.hpp"

namespace magicube {

class stored_matrix {
  public:
    // Of a matrix whose arrays are not looked at yet.
    stored_matrix(const sr_bcrs_view& source, bool with_values);

    int64_t bytes() const { return layout_.bytes(); }

    // Copies pattern and values into a buffer of bytes() bytes, in the order of the context's
    // stream.
    void fill(const context& ctx, char* buffer, const sr_bcrs_view& source);

    // Copies new values, laid out as the source's were.
    void copy_values(const context& ctx, const void* values);

    // The copy; its values are null without values.
    const sr_bcrs_view& view() const { return view_; }

    // The copy with the values of one call, laid out as the source's.
    sr_bcrs_view view_with(const void* values) const;

    // Slots of the longest block row, once filled on the CPU.
    int64_t longest_block_row() const { return longest_; }

  private:
    sr_bcrs_view view_;
    int64_t value_arrays_;   // separate arrays of values: 1, or one a matrix of the batch
    int64_t source_stride_;  // elements between them at the caller's
    buffer_layout layout_;
    int64_t row_begin_;  // offsets into the buffer
    int64_t row_end_;
    int64_t col_indices_;
    int64_t element_mask_;
    int64_t values_;
    int64_t longest_ = 0;
};

}  // namespace magicube
