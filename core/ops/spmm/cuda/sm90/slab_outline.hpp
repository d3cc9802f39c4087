// SPDX-License-Identifier: Apache-2.0
// What of the packing for the slab family (slab_format.hpp) is decided on the host: which bundles
// go together, the geometry, and where the parts of a group begin.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ops/spmm/cuda/sm90/slab_format.hpp"

namespace magicube::spmm::sm90 {

// What of the kernel's instance the packing depends on.
struct slab_shape {
    int32_t bundles = 2;      // of a warp
    int32_t row_sets = 1;     // 8-row sets that share a bundle's gathers: 2 for V >= 16
    int32_t planes = 1;       // bytes of a value, each a set of its own: 2 for 16-bit integers
    bool floats = false;      // B may hold NaN
    bool halves = false;      // values of 16 bits
    int32_t row_bytes = 128;  // of B
    bool keys_only = false;   // attention: records are row numbers, B is two operands, C needs none

    constexpr int32_t sets() const { return row_sets * planes; }
    constexpr int32_t bundle_rows() const { return 8 * row_sets; }
    constexpr int32_t group_bundles() const { return consumer_warps * bundles; }
    constexpr int32_t set_bytes() const { return keys_only ? 0 : halves ? 512 : 256; }
    constexpr int32_t numbers_at() const { return sets() * set_bytes(); }  // in a record
    constexpr int32_t record_bytes() const { return numbers_at() + step_slots * 2; }
};

// Bytes of the parts of one group.
struct group_size {
    int64_t largest;
    int64_t total;
};

struct slab_outline {
    std::vector<int32_t> bundle_rows;  // the first row of each bundle, by group; -1: none
    std::vector<int32_t> lists;        // the list of columns of each bundle, likewise
    int64_t groups_a_matrix = 0;
    bool uneven = false;  // some groups take much longer than others

    slab_geometry geometry{};
    std::vector<int64_t> record_begins;  // of each group, in bytes
    int64_t record_bytes = 0;            // of all parts, their headers included

    int64_t groups() const { return static_cast<int64_t>(record_begins.size()); }
    int64_t parts() const { return groups() * geometry.slabs; }
};

// Bundles of a matrix of A take their columns from lists: a list serves the bundles of `list_rows`
// rows.
struct bundle_source {
    int64_t matrices;  // 1 if one serves all of the batch
    int64_t rows;
    int64_t list_rows;
    bool different_patterns;  // each matrix has lists of its own
};

// Puts bundles into groups. lengths: of each list. keep_rows_together: a group's bundles are
// neighbours, as stores by columns want them, not those of like length.
slab_outline group_bundles(const bundle_source& source, const slab_shape& shape,
                           const std::vector<int32_t>& lengths, bool keep_rows_together);

// Geometries for this K, the best first. The last fits every pattern.
std::vector<slab_geometry> geometries_for(int64_t k, const slab_shape& shape);

// Takes the first of the candidates that fits every group. sizes: by candidate, groups inside.
void choose_geometry(slab_outline& outline, const std::vector<slab_geometry>& candidates,
                     const std::vector<group_size>& sizes);

}  // namespace magicube::spmm::sm90
