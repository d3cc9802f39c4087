// SPDX-License-Identifier: Apache-2.0
// How the resident family (resident_kernel.cuh) sees one factor, and how its values are packed.
//
// The 16 bytes of X that a lane reads at once are a unit: 8 elements (of fp32 4) that lie side by
// side. What they are is the layout's kind:
//     D of residues   batch first; 8 / D values of k, each with D residues l, D = 1, 2, 4 or 8
//     0               batch last; 8 vectors, of one k and one l
// A fragment of W (mma's A, 16 outputs x 16 k) is 32 lanes x 16 bytes. Which k and which j stand
// at which place of it is free, and chosen so that units need no shuffle: k as they come from the
// lanes' units, j so that a lane's sums are again whole units of Y.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/common/math.hpp"

namespace magicube::kronecker_mm::sm80 {

constexpr int most_threads = 512;  // of a block
constexpr int fragment_bytes = 512;

// Kind: D of residues, 0 of vectors. A warp owns 16 * High outputs of 8 * Wide vectors, by vectors
// of 64.
template <int Kind, int High, int Wide>
struct tiling {
    using element = uint16_t;
    static constexpr int unit = 8;
    static constexpr int kind = Kind;
    static constexpr bool by_vectors = Kind == 0;
    static constexpr int residues = by_vectors ? 1 : Kind;
    // Products that one unit's position takes part in: residues, vectors of a unit, or for D = 1
    // two halves of k.
    static constexpr int parts = by_vectors ? 8 : Kind == 1 ? 2 : Kind;
    static constexpr int sums = Kind == 1 ? 1 : parts;  // apart
    static constexpr int k_step = Kind == 1 ? 32 : 16;
    static constexpr int high = High;
    static constexpr int wide = Wide;
    static constexpr int fragments = by_vectors ? 1 : parts;  // of W a step and 16 outputs
    static constexpr int step_bytes = fragments * high * fragment_bytes;
    static constexpr int outputs = 16 * high;
    static constexpr int vectors = by_vectors ? 64 : 8 * wide;

    // Place in a step's k of slot s (0, 1: first words of A and B, 2, 3: second ones) of lane t.
    MAGICUBE_HOST_DEVICE static int k_at(int part, int t, int s) {
        switch (Kind) {
            case 1:
                return 8 * t + 4 * part + s;
            case 2:
                return 4 * t + s;
            case 4:
                return 8 * (s / 2) + 2 * t + s % 2;
            default:
                return t + 4 * s;
        }
    }
    // Place in the warp's outputs of row g + 8 * h of its fragment `m`.
    MAGICUBE_HOST_DEVICE static int j_at(int m, int g, int h) {
        switch (Kind) {
            case 1:
                return 8 * g + 2 * m + h;
            case 2:
                return 4 * g + 2 * m + h;
            case 4:
                return 16 * m + 2 * g + h;
            default:
                return 16 * m + g + 8 * h;
        }
    }
};

// The same for fp32, whose products are sums of a thread: of 8 vectors and 8 outputs, 4 outputs of
// 2 residues, or of 4 vectors and 4 outputs of 4 residues.
template <int Kind>
struct float_tiling {
    using element = uint32_t;
    static constexpr int unit = 4;
    static constexpr int kind = Kind;
    static constexpr bool by_vectors = Kind == 0;
    static constexpr int residues = by_vectors ? 1 : Kind;
    static constexpr int k_step = by_vectors ? 1 : 4 / Kind;
    static constexpr int own_outputs = Kind < 2 ? 8 : 4;     // of a thread
    static constexpr int own_vectors = Kind == 4 ? 4 : 8;    // by_vectors: two units
    static constexpr int output_lanes = by_vectors ? 4 : 8;  // lanes side by side
    static constexpr int vector_lanes = 32 / output_lanes;
    static constexpr int outputs = own_outputs * output_lanes;
    static constexpr int vectors = own_vectors * vector_lanes;
    static constexpr int step_bytes = outputs * (by_vectors ? 4 : 16);

    // Place in the warp's outputs of a thread's output `own`.
    MAGICUBE_HOST_DEVICE static int j_at(int own, int lane) {
        return Kind == 4 ? own * output_lanes + lane : lane * own_outputs + own;
    }
};

// One factor and how blocks of threads divide it.
struct resident_shape {
    int32_t kind, high, wide;  // of tiling; of float_tiling the kind alone
    int32_t unit;              // elements
    int32_t groups;            // units of residues that a block owns at each k: 1 or 2
    int32_t outputs, vectors;  // of a warp
    int32_t step_bytes;        // of its W
    int64_t a, b, c, d;
    int32_t output_blocks;  // of a warp's outputs
    int32_t own_outputs;    // of them, a block of threads
    int32_t splits;         // ceil(output_blocks / own_outputs)
    int32_t steps;          // of k
    int32_t rows;           // vectors of a block's tile
    int32_t pitch;          // bytes between rows of its X: vectors, or k
    int32_t units;          // of a row
    int32_t threads;        // of a block
    int32_t shared_rows;
    int32_t buffers;  // tiles of X in shared memory: 1, or 2, one of which is filled
    int32_t w_bytes;  // of shared memory; 0: W is read from L2

    MAGICUBE_HOST_DEVICE int32_t residues() const { return kind == 0 ? 1 : kind; }
    MAGICUBE_HOST_DEVICE int64_t residue_blocks() const { return d / (residues() * groups); }
    MAGICUBE_HOST_DEVICE int64_t parts() const { return a * residue_blocks() * splits; }
    int64_t tile_bytes() const { return int64_t{shared_rows} * pitch; }
    int64_t shared_bytes() const { return w_bytes + buffers * tile_bytes(); }
};

}  // namespace magicube::kronecker_mm::sm80
