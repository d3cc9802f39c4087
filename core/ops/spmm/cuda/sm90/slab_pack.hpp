// SPDX-License-Identifier: Apache-2.0
// Packs A for the slab family (slab_format.hpp) on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "core/formats/sparse.hpp"
#include "core/ops/spmm/cuda/sm90/slab_format.hpp"

namespace magicube::spmm::sm90 {

// What of the kernel's instance the packing depends on.
struct slab_shape {
    int bundles = 2;      // of a warp
    int row_sets = 1;     // 8-row sets that share a bundle's gathers: 2 for V >= 16
    int planes = 1;       // bytes of a value, each a set of its own: 2 for 16-bit integers
    bool floats = false;  // B may hold NaN
    bool halves = false;  // values of 16 bits

    int sets() const { return row_sets * planes; }
    int bundle_rows() const { return 8 * row_sets; }
    int group_bundles() const { return consumer_warps * bundles; }
    int group_rows() const { return group_bundles() * bundle_rows(); }
    int record_bytes() const { return sets() * (halves ? 512 : 256) + step_slots * 2; }
};

struct packed_slabs {
    slab_geometry geometry{};
    std::vector<slab_part> parts;  // by group and slab, then parts_read_ahead empty ones
    std::vector<uint8_t> records;
    std::vector<int32_t> bundle_rows;
    int64_t groups_a_matrix = 0;
    bool uneven = false;  // some groups take much longer than others
};

// `matrices` of the batch are packed one after another (1 if one serves all). keep_rows_together:
// a group's bundles are neighbours, as stores by columns want them, not those of like length.
packed_slabs pack_slabs(const sr_bcrs_view& a, const slab_shape& shape, int64_t matrices,
                        bool keep_rows_together);

}  // namespace magicube::spmm::sm90
