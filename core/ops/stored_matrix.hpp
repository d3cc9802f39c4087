// SPDX-License-Identifier: Apache-2.0
// A sparse matrix as plans that do not repack it keep it in their buffer: a copy of the pattern
// and, unless the values come with each call, of the values, both in the public layout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/device/context.hpp"
#include "core/device/device.hpp"
#include "core/formats/sparse.hpp"
#include "core/ops/plan_buffer.hpp"

namespace magicube {

// Calls visit(pointer, entries, bytes of one, name) for every array of a pattern.
template <class Visit>
void each_pattern_array(sr_bcrs_view& a, const Visit& visit) {
    const int64_t rows = a.block_rows() * (a.different_patterns ? a.batch_count : 1);
    visit(a.row_begin.data, rows, index_bytes(a.row_begin.type), "problem's block rows");
    visit(a.row_end.data, rows, index_bytes(a.row_end.type), "problem's block rows");
    visit(a.col_indices, a.slots, int64_t{sizeof(int32_t)}, "problem's slots");
    visit(a.element_mask, a.element_mask ? a.slots : 0, int64_t{(a.vector_length + 7) / 8},
          "problem's element mask");
}

template <class Visit>
void each_pattern_array(vnm_view& a, const Visit& visit) {
    visit(a.column_loc, column_loc_count(a), column_loc_bytes(a.m), "problem's columns");
    visit(a.metadata, metadata_count(a), int64_t{1}, "problem's metadata");
}

// Whether each matrix of a batch has values of its own, apart from the others'.
inline bool separate_values(const sr_bcrs_view& a) {
    return a.batch_count > 1 && !a.different_patterns && a.values_stride != 0;
}

inline bool separate_values(const vnm_view& a) {
    return a.batch_count > 1 && a.values_stride != 0;
}

// Slots of the longest block row of a matrix whose arrays can be read.
inline int64_t longest_block_row(const sr_bcrs_view& a) {
    const int64_t rows = a.block_rows() * (a.different_patterns ? a.batch_count : 1);
    int64_t longest = 0;
    for (int64_t i = 0; i < rows; ++i) longest = std::max(longest, a.row_end[i] - a.row_begin[i]);
    return longest;
}

template <class View>
class stored_copy {
  public:
    // Of a matrix whose arrays are not looked at yet.
    stored_copy(const View& source, bool with_values)
        : view_(source), source_stride_(source.values_stride) {
        const bool separate = separate_values(source);
        value_arrays_ = separate ? source.batch_count : std::min<int64_t>(source.batch_count, 1);
        // An even distance keeps the arrays of int4 on whole bytes.
        view_.values_stride = separate ? round_up(source.value_count(), 2) : 0;
        view_.values = nullptr;
        int64_t* offset = offsets_;
        each_pattern_array(view_, [&](const auto*, int64_t count, int64_t unit, const char* what) {
            *offset++ = layout_.reserve(count, unit, what);
        });
        const int64_t array_bytes =
            with_values ? storage_bytes(source.type, round_up(source.value_count(), 2)) : 0;
        values_ = layout_.reserve(value_arrays_, array_bytes, "problem's values");
    }

    int64_t bytes() const { return layout_.bytes(); }

    // Copies pattern and values into a buffer of bytes() bytes, in the order of the context's
    // stream.
    void fill(const context& ctx, char* buffer, const View& source) {
        const int64_t stride = view_.values_stride;
        view_ = source;
        view_.values_stride = stride;
        view_.values = nullptr;
        const int64_t* offset = offsets_;
        each_pattern_array(view_, [&](auto*& array, int64_t count, int64_t unit, const char*) {
            char* target = buffer + *offset++;
            if (!array) return;
            copy_memory(ctx, target, array, static_cast<size_t>(count * unit));
            array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(target);
        });
        if (values_ < bytes()) {
            view_.values = buffer + values_;
            copy_values(ctx, source.values);
        }
    }

    // Copies new values, laid out as the source's were.
    void copy_values(const context& ctx, const void* values) {
        const auto* from = static_cast<const char*>(values);
        auto* to = static_cast<char*>(view_.values);
        for (int64_t i = 0; i < value_arrays_; ++i) {
            copy_memory(ctx, to + storage_bytes(view_.type, i * view_.values_stride),
                        from + storage_bytes(view_.type, i * source_stride_),
                        static_cast<size_t>(storage_bytes(view_.type, view_.value_count())));
        }
    }

    // The copy; its values are null without values.
    const View& view() const { return view_; }

    // The copy with the values of one call, laid out as the source's.
    View view_with(const void* values) const {
        View view = view_;
        view.values = const_cast<void*>(values);  // not written: an operand
        view.read_only = true;
        view.values_stride = source_stride_;
        return view;
    }

  private:
    View view_;
    int64_t value_arrays_;   // separate arrays of values: 1, or one a matrix of the batch
    int64_t source_stride_;  // elements between them at the caller's
    buffer_layout layout_;
    int64_t offsets_[4] = {};  // of the pattern's arrays in the buffer
    int64_t values_;
};

using stored_matrix = stored_copy<sr_bcrs_view>;

}  // namespace magicube
