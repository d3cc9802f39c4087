// SPDX-License-Identifier: Apache-2.0
// How a plan of the slab family keeps A, and how its kernel divides shared memory. Shared by the
// packer and the kernel.
//
// Rows of A are taken in bundles of 8 (one block row of V = 8, 8 / V block rows of smaller V),
// bundles in groups that one CTA computes together: each of its warps owns `bundles` of them. K is
// cut into slabs; a group has its own slab height, as tall as its records allow. One stage of
// shared memory holds
//
//     8 rows of zeros | slab_rows rows of B, 128 bytes each, swizzled | the slab's part of A
//
// and the part of A is a header, 8 bytes a warp (byte offset of its first record from the part's
// start, then the number of steps of each of its bundles, 16 bits each), and the records, a bundle
// after another. A record is one step of 32 slots: the values as lanes feed them to the MMA, `sets`
// times, then 32 int16 row numbers. A row number counts from the stage's start, so that 0..7 are
// the zero rows; a negative one lies in the stage before, where the previous slab still is.
#pragma once

#include <cstdint>

namespace magicube::spmm::sm90 {

constexpr int consumer_warps = 16;
constexpr int producer_warps = 4;
constexpr int stage_count = 3;
constexpr int row_bytes = 128;
constexpr int zero_rows = 8;
constexpr int step_slots = 32;
constexpr int box_rows = 64;  // rows of B that one tensor copy brings
constexpr int stage_bytes = 75 * 1024;
// B and A of one slab; the kernel reads row numbers one record past the last.
constexpr int slab_budget = stage_bytes - zero_rows * row_bytes - 1152;
constexpr int header_bytes = consumer_warps * 8;
constexpr int shared_bytes = stage_count * stage_bytes + 1024;  // with room to align to 1024

// A group's slabs: offsets[first_slab + i] is where the part of A of slab i starts, in 16-byte
// units.
struct slab_group {
    uint32_t first_slab;
    uint32_t slab_rows;  // a multiple of box_rows
    uint32_t slab_count;
    uint32_t unused;
};

}  // namespace magicube::spmm::sm90
