// SPDX-License-Identifier: Apache-2.0
// Which CTA streams which bundles.
#pragma once

#include <vector>

#include "core/ops/spmm/cuda/stream/stream_format.hpp"

namespace magicube::spmm::stream {

struct schedule_shape {
    int64_t matrices = 1;  // with records of their own
    int64_t bundles = 0;   // of one matrix
    int64_t segments = 1;
    int64_t ctas = 1;  // for one matrix
    int64_t largest_tile = 1;
};

struct schedule {
    int64_t tile_bundles = 1;
    int64_t tiles_a_cta = 1;
    std::vector<entry> entries;  // by matrix, CTA, tile, segment and place
};

// `records` has the number of records of each segment of each bundle of each matrix. CTAs get
// bundles, the longest first, each the one that has least so far.
schedule make_schedule(const schedule_shape& shape, const std::vector<uint32_t>& records);

}  // namespace magicube::spmm::stream
