// SPDX-License-Identifier: Apache-2.0
// How the resident family divides one factor among blocks, and what that costs.
#pragma once

#include <optional>

#include "core/common/checked.hpp"
#include "core/ops/kronecker_mm/cuda/sm80/resident_format.hpp"
#include "core/ops/kronecker_mm/kronecker_mm.hpp"

namespace magicube::kronecker_mm::sm80 {

struct resident_limits {
    int64_t shared_bytes;  // of a block
    int64_t shared_bytes_of_all;
    int32_t multiprocessors;
};

// What a division depends on.
struct resident_work {
    step factor;
    int32_t unit;                 // elements
    bool vectors_are_neighbours;  // in memory; else a vector's features are
    double vectors;               // of all matrices of the batch
    int64_t most_vectors;         // of one
};

struct resident_choice {
    resident_shape shape;
    double us;
};

// The fastest division; null if none fits shared memory.
std::optional<resident_choice> choose_shape(const resident_work& work,
                                            const resident_limits& limits);

// One division, with these sizes; null if it does not fit.
struct resident_sizes {
    int32_t unit, kind, high, wide, groups;
    int64_t rows;
    int32_t splits;
    int32_t buffers;
    bool w_is_shared;
    int32_t threads;
};
std::optional<resident_shape> shape_with(const step& s, const resident_sizes& sizes,
                                         int64_t shared_bytes);

// Blocks that share each part of K, for so many tiles.
int64_t walkers_of(const resident_shape& shape, int64_t tiles, const resident_limits& limits);

// Of all packed values.
inline int64_t packed_bytes(const resident_shape& s) {
    return checked_mul(checked_mul(s.a * (s.d / s.residues()), s.output_blocks, "the packed K"),
                       int64_t{s.steps} * s.step_bytes, "the packed K");
}

}  // namespace magicube::kronecker_mm::sm80
