// SPDX-License-Identifier: Apache-2.0
// Packs A for the stream family (stream_format.hpp) on the device.
#pragma once

#include <cuda_runtime.h>

#include "core/formats/sparse.hpp"
#include "core/ops/spmm/cuda/stream/stream_format.hpp"

namespace magicube::spmm::stream {

// A, all of its arrays on the device, and how it is cut.
struct pack_source {
    sr_bcrs_view a;
    int64_t bundles;  // of one matrix
    int32_t segments;
    int32_t segment_rows;

    // Block rows that a bundle merges.
    MAGICUBE_HOST_DEVICE int parts() const {
        return a.vector_length < bundle_rows ? bundle_rows / a.vector_length : 1;
    }
};

// The number of records of each segment of each bundle of `matrices` matrices.
cudaError_t count_records(const pack_source& source, int64_t matrices, uint32_t* records,
                          cudaStream_t stream);

// Fills the records' indices, and for each slot and each block row that the bundle merges which
// slot of the source it is: relative to the block row's first, -1 for none.
cudaError_t place_slots(const pack_source& source, operand_kind kind, const entry* entries,
                        int64_t entry_count, uint16_t* indices, int32_t* slots,
                        cudaStream_t stream);

// Fills the records' values. Of the source, the column indices are not read.
cudaError_t fill_values(const pack_source& source, operand_kind kind, const entry* entries,
                        int64_t entry_count, const int32_t* slots, uint8_t* values,
                        cudaStream_t stream);

}  // namespace magicube::spmm::stream
