// SPDX-License-Identifier: Apache-2.0
// How a plan of the slab family keeps A, and how its kernel divides shared memory. Shared by the
// packer and the kernel.
//
// Rows of A are taken in bundles of 8 or 16 (one block row, 8 / V block rows of smaller V, or a
// part of one of larger V), bundles in groups that one CTA computes together: each of its warps
// owns `bundles` of them. K is cut into slabs of `slab_rows` rows of B. Shared memory holds
//
//     slots for C | 8 rows of zeros | ring of b_stages slabs of B, swizzled | ring of a_stages
//     parts of A
//
// The ring of B is contiguous, so that a step can gather from the present slab and from the `kept`
// slabs before it. Where all slabs of K fit the ring (resident()), they stay in it while a CTA goes
// on with the same columns of B. Otherwise a_stages = b_stages - kept: a part's stage and the
// stage of the slab that comes with it are free at the same time.
//
// A part belongs to one slab of one group: a header, 8 bytes a warp (byte offset of its first
// record from the part's start, then the number of steps of each of its bundles, 8 bits each), and
// the records, a bundle after another. A record is one step of 32 slots: the values as lanes feed
// them to the MMA, `sets` times, then 32 int16 row numbers: where the row of B lies, from the
// slab's start in units of 16 bytes, its swizzle added; negative ones lie in slabs before. A hole
// has zero values; its number names any row of its residue for integers, a row of zeros
// (hole_numbers on) for floats, since B's rows may hold NaN.
#pragma once

#include <cstdint>

#include "core/common/portable.hpp"

namespace magicube::spmm::sm90 {

constexpr int consumer_warps = 16;
constexpr int producer_warps = 4;
constexpr int widest_row_bytes = 128;  // of B in shared memory; 64 for narrow tiles
constexpr int zero_rows = 8;
constexpr int step_slots = 32;
constexpr int max_box_rows = 256;  // rows of B that one tensor copy brings
constexpr int max_stages = 16;
constexpr int header_bytes = consumer_warps * 8;
constexpr int hole_numbers = 1 << 14;
constexpr int parts_read_ahead = 4;  // by the kernel, past the last too
// The kernel reads row numbers one record past a part's last.
constexpr int part_slack = 1152;
// Of C on its way out: 8 rows of 128 bytes, or columns of 8 elements.
constexpr int store_row_bytes = 128;
constexpr int store_slot_bytes = 8 * store_row_bytes;
constexpr int store_slots = 2;  // of a warp
// Of attention: notes of what is left to be computed otherwise.
constexpr int left_bytes = 2048;
constexpr int shared_bytes = 227 * 1024 - 512;  // all but the barriers

struct slab_geometry {
    int32_t row_bytes;  // of B: a tile's columns
    int32_t operands;   // that lie so in shared memory: B alone, or K and V of attention
    int32_t slab_rows;  // a multiple of 64
    int32_t box_rows;   // of a tensor copy of B; divides slab_rows
    int32_t slabs;      // of K
    int32_t kept;
    int32_t b_stages;
    int32_t a_stages;
    int32_t a_bytes;  // of a stage of A, a multiple of 128

    MAGICUBE_HOST_DEVICE bool resident() const { return slabs == b_stages; }

    // Where a row of B lies, from its slab's start in units of 16 bytes, with its swizzle.
    MAGICUBE_HOST_DEVICE int64_t place_of(int64_t row) const {
        return row_bytes == 128 ? row * 8 + (row & 7) : row * 4 + (row >> 1 & 3);
    }
};

// Where the bytes of a part lie, in units of 16.
struct slab_part {
    uint32_t begin;
    uint32_t length;
};

// In which order the CTAs take tiles of C. Tiles are counted by column tiles, groups inside.
enum class tile_order : int32_t {
    interleaved,  // neighbours at the same time, so that L2 holds their columns of B
    contiguous,   // each CTA neighbours, so that its columns of B stay in shared memory
    snake,        // the longest groups first, and there and back, for groups of unlike length
};

}  // namespace magicube::spmm::sm90
