// SPDX-License-Identifier: Apache-2.0
// How a plan of the select family keeps A. Shared by the packer and the kernel.
//
// Rows of A are taken in tiles of `tile_rows` that lie in one block row, groups of columns in units
// of 16, which select 64 rows of B. A tile's unit has
//
//     values    of each 16 rows. Types of 16 bits: rows of 32 elements (64 bytes), 16-byte chunk c
//               of row r at c ^ (r / 2 % 4), which both ldmatrix and wgmma's 64-byte swizzle take.
//               Types of 8 bits: the fragments that lanes feed to the sparse MMA, 16 bytes a lane
//     metadata  for each 16 rows a word a lane, as the MMA takes the positions of groups (4 bits
//               each): of 16-bit types lane g * 4 + t has those of the groups 4t .. 4t + 3, of row
//               g in its low half and of row g + 8 in its high half; of 8-bit types those of eight
//               groups, from t / 2 * 8 on, of row g + t % 2 * 8
//     columns   for each block row, the numbers of the 64 rows of B, in the order in which the
//               kernel lays them down in shared memory; -1, a row of zeros, for groups past the
//               last and for repeated columns
//
// in three arrays, so that new values leave the pattern alone. Rows and groups past A's last have
// values of 0.
#pragma once

#include <cstdint>

#include "core/common/portable.hpp"

namespace magicube::vnm_mm::sm80 {

constexpr int unit_groups = 16;
constexpr int unit_rows = 4 * unit_groups;  // of B
constexpr int mma_rows = 16;
constexpr int metadata_bytes = 32 * 4;  // of 16 rows and a unit
constexpr uint32_t empty_group = 4;     // positions 0 and 1

// The values of 16 rows in a unit.
constexpr int value_bytes(int element_bytes) {
    return mma_rows * unit_groups * 2 * element_bytes;
}

// Where a kept value lies among those of its 16 rows and unit, in elements: value i of a group.
MAGICUBE_HOST_DEVICE constexpr int value_place(int element_bytes, int row, int group, int i) {
    const int kept = group * 2 + i;
    if (element_bytes == 2) return row * 32 + ((kept / 8) ^ (row / 2 % 4)) * 8 + kept % 8;
    // The fragment layout of a dense 16 x 32 matrix: a register holds 4 bytes of a row.
    const int lane = row % 8 * 4 + kept % 16 / 4;
    const int reg = kept / 16 * 2 + row / 8;
    return (lane * 4 + reg) * 4 + kept % 4;
}

// Which of the unit's rows in shared memory is the selected column `place` of a group. ldmatrix and
// prmt bring the 8-bit rows 2t, 2t + 1, 2t + 8 and 2t + 9 of sixteen together.
MAGICUBE_HOST_DEVICE constexpr int row_of(int element_bytes, int group, int place) {
    if (element_bytes == 2) return group * 4 + place;
    return group / 4 * 16 + group % 4 * 2 + place % 2 + place / 2 * 8;
}

}  // namespace magicube::vnm_mm::sm80
