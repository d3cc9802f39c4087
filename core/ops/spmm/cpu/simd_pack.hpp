// SPDX-License-Identifier: Apache-2.0
// Operands of cpu_simd as its kernels read them.
//
// A: block row after block row, each in segments of segment_groups groups of slots. A segment is V
// initial sums, then [group][V] groups of four bytes; the last group of a block row is filled with
// zeros. Of floats with two elements in each four slots a segment has, in as many bytes,
// [V][element] pairs of the value and of its column. For matrix registers it is as multiply_matrix
// says (simd_kernels.hpp). Where a block row starts is found from the pattern.
// B: tile after tile of 64 columns, or 16 where C has few; a tile is [plane][row][column] elements,
// its columns permuted in pieces, columns past the end zero.
#pragma once

#include <cstdint>

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"
#include "core/ops/spmm/cpu/simd_kernels.hpp"
#include "core/types/pairs.hpp"

namespace magicube::spmm::cpu {

// Of one product: how its operands are packed.
struct packing {
    lane_kind kind;
    int64_t planes;  // of B: 2 where 16-bit B is split, high plane first, low in [-128, 127]
    const product_kernels* kernels;
    int64_t tile_cols;
    bool kept = false;    // A is packed for kept_floats
    bool matrix = false;  // A is packed for multiply_matrix

    int64_t row_bytes() const { return tile_cols * lane_bytes(kind); }
    int64_t segment_slots() const { return segment_groups * slots_per_group(kind); }
};

// b: its type. two_of_four: each row has two elements in every four slots.
packing packing_for(const tile_kernels& kernels, const sr_bcrs_view& a, dtype b, bool two_of_four);

// Groups of four bytes and initial sums, an upper bound from sizes alone, of one array of values.
int64_t packed_a_units(const sr_bcrs_view& a, const packing& how);

// The same of one block row of `slots` slots.
int64_t packed_block_row_units(int64_t vector_length, int64_t slots, const packing& how);

// Packs the value arrays of `a`, array i to target + i * array_units. starts: where each block row
// starts, by its index.
void pack_a(const context& ctx, const sr_bcrs_view& a, const packing& how, const int64_t* starts,
            int64_t arrays, int64_t array_units, uint32_t* target);

// Tiles [first, first + count) of B, counted through its matrices, each with `tiles` of them.
struct tile_range {
    int64_t first;
    int64_t count;
    int64_t tiles;
};

void pack_b(const context& ctx, const dense_view& b, const packing& how, const tile_range& range,
            char* target);

}  // namespace magicube::spmm::cpu
