// SPDX-License-Identifier: Apache-2.0
// Conversion of SR-BCRS to BSR.
#pragma once

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"

namespace magicube {

// Arrays of the result, which the caller owns.
struct bsr_target {
    int64_t block_rows = 1;
    int64_t block_cols = 1;
    index_type offset_type = index_type::int64;
    dtype type = dtype::fp32;
    void* offsets = nullptr;  // ceil(rows / block_rows) + 1; count writes them, fill reads them
    int32_t* block_col_indices = nullptr;
    void* values = nullptr;  // null: the pattern alone
};

// Writes the offsets and returns the number of blocks.
int64_t count_bsr(const context& ctx, const sr_bcrs_view& source, const bsr_target& target);

// Writes the other arrays. The offsets are as count left them for this source; anything else is
// INVALID_VALUE on the CPU; on CUDA fill does not wait for the stream, so that it cannot tell.
void fill_bsr(const context& ctx, const sr_bcrs_view& source, const bsr_target& target);

}  // namespace magicube
