// SPDX-License-Identifier: Apache-2.0
// Conversions to SR-BCRS.
#pragma once

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"
#include "core/types/view.hpp"

namespace magicube {

// The arrays of the result, which the caller owns. With a batch of sources, a batch of different
// patterns: row_begin and row_end hold batch * block_rows entries.
struct sr_bcrs_target {
    int32_t vector_length = 1;
    int32_t stride = 1;
    index_type offset_type = index_type::int64;
    dtype type = dtype::fp32;
    int64_t slots = 0;
    void* row_begin = nullptr;
    void* row_end = nullptr;
    int32_t* col_indices = nullptr;
    void* values = nullptr;           // null: the pattern alone
    uint8_t* element_mask = nullptr;  // null: none is written
};

// Dense values and, unless null, a uint8 mask that tells which elements exist. values.values may be
// null if there is a mask and the target has no values.
struct dense_source {
    dense_view values;
    const dense_view* mask = nullptr;
};

enum class conversion_step { size, count, fill };

// Checks the source of a conversion to any sparse format that copies values or does not.
void check_dense_source(const dense_source& source, bool copies);

// Checks shapes, types and the pointers that the step needs.
void check_source(const dense_source& source, const sr_bcrs_target& target, conversion_step step);
void check_source(const sparse_view& source, const sr_bcrs_target& target, conversion_step step);

// Writes row_begin and row_end and returns the number of slots.
int64_t count_sr_bcrs(const context& ctx, const dense_source& source, const sr_bcrs_target& target);
int64_t count_sr_bcrs(const context& ctx, const sparse_view& source, const sr_bcrs_target& target);

// Writes the other arrays. row_begin, row_end and slots are as count left them for this source;
// nothing outside the arrays is written for anything else, which is INVALID_VALUE on the CPU. On
// CUDA fill does not wait for the stream, so that it cannot tell.
void fill_sr_bcrs(const context& ctx, const dense_source& source, const sr_bcrs_target& target);
void fill_sr_bcrs(const context& ctx, const sparse_view& source, const sr_bcrs_target& target);

}  // namespace magicube
