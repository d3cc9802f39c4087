// SPDX-License-Identifier: Apache-2.0
// How a plan of the stream family keeps A. Shared by the packer and the kernel.
//
// Rows of A are taken in bundles of 8: one block row of V = 8, part of one of V > 8, or 8 / V of
// them merged, a vector for every column that one of them has. K is cut into segments whose rows of
// B fit in shared memory. The vectors of a bundle that lie in a segment fill whole records of 64
// slots, in no order but this: the columns of 8 neighbouring slots differ mod 8 where that can be,
// so that gathering their rows meets distinct banks. A record is
//
//     values   64 x 8 values in the order in which lanes feed them to the MMA, 16 bytes a lane and
//              load; two blocks of 512 bytes for 16-bit types (integers: high bytes, low bytes)
//     indices  64 row numbers of 16 bits, counted from the start of the segment, after 8 rows of
//              zeros, which are the numbers 0..7 and belong to empty slots
//
// in two arrays, so that new values leave the indices alone. Bundles are dealt out to CTAs as
// tiles, each CTA the same number of them and each tile the same number of places, of which the
// last may be empty; the records of a tile lie together, by segment and bundle.
#pragma once

#include <cstdint>

#include "core/common/portable.hpp"

namespace magicube::spmm::stream {

constexpr int bundle_rows = 8;
constexpr int record_slots = 64;
constexpr int record_index_bytes = record_slots * 2;
constexpr int residues = 8;
constexpr int zero_rows = residues;
constexpr int warps = 16;
constexpr int unit_bytes = 16;  // of a row of B in shared memory that one lane names at once
constexpr int chunk_columns = 16;
constexpr int64_t most_columns = 1024;

// The types that a kernel feeds to its MMA.
enum class operand_kind { s4, s8, u8, s8u8, e4m3, fp16, bf16 };

constexpr bool is_half(operand_kind kind) {
    return kind == operand_kind::fp16 || kind == operand_kind::bf16;
}
constexpr bool is_integer_kind(operand_kind kind) {
    return !is_half(kind) && kind != operand_kind::e4m3;
}
// Sums that are kept apart until a bundle is finished.
constexpr int planes_of(operand_kind kind) {
    return kind == operand_kind::s8u8 ? 2 : 1;
}
constexpr int record_value_bytes(operand_kind kind) {
    if (kind == operand_kind::s4) return record_slots * bundle_rows / 2;
    return record_slots * bundle_rows * (is_half(kind) || kind == operand_kind::s8u8 ? 2 : 1);
}
// Units of a row of B, for so many chunks of 16 columns.
constexpr int units_of(operand_kind kind, int chunks) {
    return chunks * (is_half(kind) ? 2 : 1);
}

// Bundles of a tile that one warp finishes: their sums stay in its registers over all segments.
constexpr int bundles_a_warp(int chunks) {
    return chunks <= 2 ? 2 : 1;
}
constexpr int tile_bundles(int chunks) {
    return warps * bundles_a_warp(chunks);
}

// A record in a warp's ring in shared memory: values, then indices.
constexpr int slot_bytes(operand_kind kind) {
    return record_value_bytes(kind) + record_index_bytes;
}
// Records that a warp has under way: about 70 KB for all warps.
constexpr int depth_of(operand_kind kind) {
    return kind == operand_kind::s4 ? 11 : record_value_bytes(kind) == 512 ? 7 : 4;
}
constexpr int64_t ring_bytes(operand_kind kind) {
    return int64_t{warps} * depth_of(kind) * slot_bytes(kind);
}

// Shared memory: rows of B, the rings, and the sums that warps leave for each other, one entry for
// each pair of a bundle and a warp that works on it.
constexpr int64_t partial_bytes(operand_kind kind, int chunks) {
    return int64_t{512} * chunks * planes_of(kind) * (tile_bundles(chunks) + warps - 1);
}
constexpr int64_t row_bytes(operand_kind kind, int chunks) {
    return int64_t{unit_bytes} * units_of(kind, chunks);
}

// The first record of a bundle in a segment; the records end where those of the next entry start.
// A tile has an entry for each segment and place, and after each segment's one that ends it.
struct entry {
    uint32_t record;
    uint32_t bundle;   // of all matrices, or no_bundle
    uint32_t segment;  // for the packer
};
constexpr uint32_t no_bundle = UINT32_MAX;

// Row of A, from the bundle's first, and slot of a record to the place of its value: the lane, and
// which of the values that this lane holds.
constexpr int value_lane(int slot, int row) {
    return row * 4 + slot % 8 / 2;
}
constexpr int value_of_lane(int slot) {
    return slot / 8 * 2 + slot % 2;
}

// Where the row number of a slot lies in a record's indices, in elements. Lanes load theirs at
// once: byte types two for two gathers of 32 rows, 16-bit types four for four gathers of 16.
MAGICUBE_HOST_DEVICE constexpr int index_place(bool half, int slot) {
    return half ? slot % 16 * 4 + slot / 16 : slot % 32 * 2 + slot / 32;
}

}  // namespace magicube::spmm::stream
