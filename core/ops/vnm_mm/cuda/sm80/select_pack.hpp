// SPDX-License-Identifier: Apache-2.0
// Packs A for the select family (select_format.hpp) on the device.
#pragma once

#include <cuda_runtime.h>

#include "core/formats/sparse.hpp"
#include "core/ops/vnm_mm/cuda/sm80/select_format.hpp"

namespace magicube::vnm_mm::sm80 {

// A and how it is cut.
struct pack_source {
    vnm_view a;
    int32_t tile_rows;

    MAGICUBE_HOST_DEVICE int element_bytes() const { return storage_bits(a.type) / 8; }
    MAGICUBE_HOST_DEVICE int64_t tiles() const { return ceil_div(a.rows, tile_rows); }
    MAGICUBE_HOST_DEVICE int64_t units() const { return ceil_div(a.groups(), unit_groups); }
    // Units of all sets of 16 rows.
    MAGICUBE_HOST_DEVICE int64_t sets() const { return tiles() * units() * (tile_rows / mma_rows); }
    int64_t column_count() const { return a.block_rows() * units() * unit_rows; }
};

cudaError_t pack_pattern(const pack_source& source, uint8_t* metadata, int32_t* columns,
                         cudaStream_t stream);

// Packs the values of `matrices` matrices one after another. Of the source, no pattern is read.
cudaError_t pack_values(const pack_source& source, int64_t matrices, uint8_t* values,
                        cudaStream_t stream);

// Loads pack_values' kernel: the first values may come with a call that is being captured.
cudaError_t load_pack_values();

}  // namespace magicube::vnm_mm::sm80
