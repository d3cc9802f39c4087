// SPDX-License-Identifier: Apache-2.0
// How cpu_simd takes a chain apart and lays out the factors' values, as fp32.
//
// Neighbours that are chainable are merged where their product costs less: four dyadic factors of
// 2 x 2 blocks are one of 16 x 16, which reads and writes a quarter. Values that come with each
// call are not merged.
//
// Columns (lanes are vectors): a step's values are [i][l][j][k], multipliers of a panel of inputs.
// Features (lanes are results): a step's values are [i][tile][k][64], panels of 64 neighbouring
// results (j*d + l), zero past the block's last; inputs are the multipliers.
#pragma once

#include <vector>

#include "core/ops/kronecker_mm/cpu/simd_kernels.hpp"
#include "core/ops/kronecker_mm/kronecker_mm.hpp"

namespace magicube::kronecker_mm::cpu {

// Vectors of a tile whose lanes are features, and at most of one whose lanes are vectors: enough
// that a factor's inputs are read in runs of some cache lines.
constexpr int64_t feature_rows = 8 * block_rows;
constexpr int64_t widest_columns = 8 * tile_lanes;

// Tiles of 64 results of one block.
inline int64_t tiles_of(const step& s) {
    return ceil_div(s.b * s.d, tile_lanes);
}

struct chain_layout {
    std::vector<step> steps;       // in the order of application
    std::vector<int64_t> offsets;  // of each step's packed values, in floats
    int64_t packed_floats = 0;
    bool features = false;
    int64_t tile_width = 0;
    int64_t units_per_part = 0;
    // Of one thread's scratch, in floats: inputs as fp32, or a panel of them, and two intermediate
    // results, all of the tile's vectors.
    int64_t input_floats = 0;
    int64_t between_floats = 0;

    chain_layout(const problem& p, const simd_kernels& kernels);

    // Of a step: products of one block and residue, or panels of 64 results.
    int64_t units(size_t index) const;
    // Into which a tile is divided.
    int64_t parts() const { return ceil_div(units(0), units_per_part); }
    // Floats between the vectors of an intermediate result or of converted inputs, whose lanes are
    // features: whole tiles, and one more that padding may reach.
    static int64_t row_pitch(int64_t features) {
        return round_up(features, tile_lanes) + tile_lanes;
    }
    // Multiplications of one vector, padding included.
    double work() const;
};

// Packs one array of values a factor into `target`. Merging allocates.
void pack_values(const context& ctx, const problem& p, const chain_layout& layout,
                 const void* const* values, float* target);

}  // namespace magicube::kronecker_mm::cpu
