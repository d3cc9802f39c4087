// SPDX-License-Identifier: Apache-2.0
// Conversions to SR-BCRS on CUDA. Arguments are checked but for where pointers lie.
#pragma once

#include "core/formats/sr_bcrs/convert.hpp"

namespace magicube::cuda {

// Reads the number of slots back: waits for the stream.
int64_t count_sr_bcrs(const context& ctx, const dense_source& source, const sr_bcrs_target& target);
int64_t count_sr_bcrs(const context& ctx, const sparse_view& source, const sr_bcrs_target& target);

// Stream-ordered. Where row_begin, row_end and slots are not as count left them for this source,
// the contents are of no use, but nothing outside the arrays is written.
void fill_sr_bcrs(const context& ctx, const dense_source& source, const sr_bcrs_target& target);
void fill_sr_bcrs(const context& ctx, const sparse_view& source, const sr_bcrs_target& target);

}  // namespace magicube::cuda
