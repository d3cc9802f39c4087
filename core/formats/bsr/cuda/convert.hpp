// SPDX-License-Identifier: Apache-2.0
// Conversion of SR-BCRS to BSR on CUDA. Arguments are checked but for where pointers lie.
#pragma once

#include "core/formats/bsr/convert.hpp"

namespace magicube::cuda {

// Reads the number of blocks back: waits for the stream.
int64_t count_bsr(const context& ctx, const sr_bcrs_view& source, const bsr_target& target);

// Stream-ordered. Offsets other than count's for this source leave contents of no use. Null
// block_col_indices stand for no block.
void fill_bsr(const context& ctx, const sr_bcrs_view& source, const bsr_target& target);

}  // namespace magicube::cuda
