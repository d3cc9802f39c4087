// SPDX-License-Identifier: Apache-2.0
#include "core/ops/stored_matrix.hpp"

#include <algorithm>

#include "core/device/device.hpp"

namespace magicube {
namespace {

int64_t block_row_count(const sr_bcrs_view& a) {
    return a.block_rows() * (a.different_patterns ? a.batch_count : 1);
}

int64_t mask_bytes(const sr_bcrs_view& a) {
    return a.element_mask ? a.slots * ((a.vector_length + 7) / 8) : 0;
}

void copy_bytes(const context& ctx, void* target, const void* source, int64_t bytes) {
    copy_memory(ctx, target, source, static_cast<size_t>(bytes));
}

}  // namespace

stored_matrix::stored_matrix(const sr_bcrs_view& source, bool with_values)
    : view_(source), source_stride_(source.values_stride) {
    const bool separate =
        source.batch_count > 1 && !source.different_patterns && source_stride_ != 0;
    value_arrays_ = separate ? source.batch_count : std::min<int64_t>(source.batch_count, 1);
    // An even distance keeps the arrays of int4 on whole bytes.
    view_.values_stride = separate ? round_up(source.value_count(), 2) : 0;
    view_.values = nullptr;
    const int64_t rows = block_row_count(source);
    row_begin_ = layout_.reserve(rows, index_bytes(source.row_begin.type), "problem's block rows");
    row_end_ = layout_.reserve(rows, index_bytes(source.row_end.type), "problem's block rows");
    col_indices_ = layout_.reserve(source.slots, sizeof(int32_t), "problem's slots");
    element_mask_ = layout_.reserve(mask_bytes(source), 1, "problem's element mask");
    const int64_t array_bytes =
        with_values ? storage_bytes(source.type, round_up(source.value_count(), 2)) : 0;
    values_ = layout_.reserve(value_arrays_, array_bytes, "problem's values");
}

void stored_matrix::fill(const context& ctx, char* buffer, const sr_bcrs_view& source) {
    const int64_t rows = block_row_count(source);
    const auto copy = [&](int64_t offset, const void* array, int64_t bytes) {
        copy_bytes(ctx, buffer + offset, array, bytes);
        return buffer + offset;
    };
    view_.row_begin.data =
        copy(row_begin_, source.row_begin.data, rows * index_bytes(source.row_begin.type));
    view_.row_end.data =
        copy(row_end_, source.row_end.data, rows * index_bytes(source.row_end.type));
    view_.col_indices =
        reinterpret_cast<const int32_t*>(copy(col_indices_, source.col_indices, source.slots * 4));
    if (source.element_mask) {
        view_.element_mask = reinterpret_cast<const uint8_t*>(
            copy(element_mask_, source.element_mask, mask_bytes(source)));
    }
    if (ctx.on_cpu()) {
        for (int64_t i = 0; i < rows; ++i)
            longest_ = std::max(longest_, view_.row_end[i] - view_.row_begin[i]);
    }
    if (values_ < bytes()) {
        view_.values = buffer + values_;
        copy_values(ctx, source.values);
    }
}

void stored_matrix::copy_values(const context& ctx, const void* values) {
    const auto* from = static_cast<const char*>(values);
    auto* to = static_cast<char*>(view_.values);
    for (int64_t i = 0; i < value_arrays_; ++i) {
        copy_bytes(ctx, to + storage_bytes(view_.type, i * view_.values_stride),
                   from + storage_bytes(view_.type, i * source_stride_),
                   storage_bytes(view_.type, view_.value_count()));
    }
}

sr_bcrs_view stored_matrix::view_with(const void* values) const {
    sr_bcrs_view view = view_;
    view.values = const_cast<void*>(values);  // not written: an operand
    view.read_only = true;
    view.values_stride = source_stride_;
    return view;
}

}  // namespace magicube
