// SPDX-License-Identifier: Apache-2.0
// Packs A for the slab family (slab_format.hpp) on the device. The pattern and the values are
// written apart, so that other values can follow later.
#pragma once

#include <cuda_runtime.h>

#include <optional>
#include <vector>

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"
#include "core/ops/spmm/cuda/scratch.hpp"
#include "core/ops/spmm/cuda/sm90/slab_outline.hpp"

namespace magicube::spmm::sm90 {

// A, how it is cut, and where its records lie.
struct pack_target {
    sr_bcrs_view a;
    slab_shape shape;
    int64_t groups;
    int64_t groups_a_matrix;
    slab_geometry geometry;
    int32_t* bundle_rows;
    slab_part* parts;  // by group and slab, then parts_read_ahead empty ones
    uint8_t* records;
    // Slots of A by record, slot and block row that the bundle merges; -1 for none.
    int32_t* slots;

    // Block rows that a bundle merges.
    MAGICUBE_HOST_DEVICE int merged() const {
        return a.vector_length < 8 ? 8 / a.vector_length : 1;
    }
};

// Where the columns of each list lie.
struct column_lists {
    int32_t* begins;        // residues + 1 a list, from the list's start
    const int64_t* starts;  // of each list in columns
    int32_t* columns;
    const int32_t* of_bundle;
};

// The pattern's way into a plan. Counts when it is made, and waits for the stream.
class pattern_packer {
  public:
    // `matrices` of the batch are packed one after another (1 if one serves all).
    pattern_packer(const context& ctx, const sr_bcrs_view& a, const slab_shape& shape,
                   int64_t matrices, bool keep_rows_together);

    const slab_outline& outline() const { return outline_; }
    int64_t slot_map_bytes() const;

    // Fills all arrays of the target but the records' values; waits for the stream.
    void write(const context& ctx, const pack_target& target) const;

  private:
    void list_columns(const context& ctx, const bundle_source& source, bool keep_rows_together);
    void measure(const context& ctx);

    sr_bcrs_view a_;
    slab_shape shape_;
    slab_outline outline_;
    column_lists lists_{};
    std::optional<cuda::scratch> tables_, columns_;
};

// Fills the records' values. If the records are not the target's own, their headers and row numbers
// are copied from those.
cudaError_t fill_values(const pack_target& target, const void* values, uint8_t* records,
                        cudaStream_t stream);

}  // namespace magicube::spmm::sm90
