// SPDX-License-Identifier: Apache-2.0
// How the resident family divides one factor among blocks.
#pragma once

#include <optional>

#include "core/ops/kronecker_mm/cuda/sm80/resident_format.hpp"
#include "core/ops/kronecker_mm/kronecker_mm.hpp"

namespace magicube::kronecker_mm::sm80 {

// Three blocks a multiprocessor: while one loads, others compute.
constexpr int64_t wanted_tile = 72 * 1024;
constexpr int64_t most_rows = 256;

struct tiling_sizes {
    int k_step, outputs, vectors, fragments;
};

template <class Visit>
auto visit_kind(int kind, const Visit& visit) {
    switch (kind) {
        case 0:
            return visit(tiling<0>());
        case 1:
            return visit(tiling<1>());
        case 2:
            return visit(tiling<2>());
        case 4:
            return visit(tiling<4>());
        default:
            return visit(tiling<8>());
    }
}

inline tiling_sizes sizes_of(int kind) {
    return visit_kind(kind, [](auto t) {
        using type = decltype(t);
        return tiling_sizes{type::k_step, type::outputs, type::vectors,
                            type::fragments * type::high};
    });
}

// Of X whose vectors are neighbours in memory, or whose features are.
inline int kind_of(const step& s, bool vectors_are_neighbours) {
    if (vectors_are_neighbours) return 0;
    for (const int residues : {8, 4, 2})
        if (s.d % residues == 0) return residues;
    return 1;
}

// With `rows` vectors a block; null if they do not fit shared memory.
inline std::optional<resident_shape> shape_with(const step& s, int kind, int groups, int64_t rows) {
    const auto sizes = sizes_of(kind);
    resident_shape shape{};
    shape.kind = kind;
    shape.groups = groups;
    shape.a = s.a;
    shape.b = s.b;
    shape.c = s.c;
    shape.d = s.d;
    shape.outputs = sizes.outputs;
    shape.output_blocks = static_cast<int32_t>(ceil_div(s.b, int64_t{sizes.outputs}));
    shape.steps = static_cast<int32_t>(ceil_div(s.c, int64_t{sizes.k_step}));
    const int64_t k = int64_t{shape.steps} * sizes.k_step;
    const int64_t units = kind == 0 ? rows / 8 : k * shape.residues() * groups / 8;
    // Lanes read units t * groups and, a row later, the same; by vectors rows t, units 0 and 1.
    const int64_t wanted = kind == 0 ? 2 : groups == 2 ? 1 : 4;
    const int64_t pitch = units + (8 + wanted - units % 8) % 8;
    shape.rows = static_cast<int32_t>(rows);
    shape.units = static_cast<int32_t>(units);
    shape.shared_rows = static_cast<int32_t>(kind == 0 ? k : rows);
    shape.pitch = static_cast<int32_t>(pitch * 16);
    shape.units_inverse = static_cast<uint32_t>(ceil_div(int64_t{1} << 32, units));
    if (units == 1) shape.units_inverse = UINT32_MAX;
    if (static_cast<double>(pitch) * 16 * shape.shared_rows > largest_tile) return {};
    return shape;
}

// Null if no tile fits shared memory. Of any number of vectors: n_max only bounds the tile.
inline std::optional<resident_shape> shape_of(const step& s, int kind, int64_t n_max) {
    constexpr int64_t longest = int64_t{1} << 20;
    if (s.c > longest || s.b > longest || s.a > INT32_MAX || s.d > INT32_MAX) return {};
    const int64_t vectors = sizes_of(kind).vectors;
    const int64_t enough = std::min(most_rows, std::max(vectors, round_up(n_max, vectors)));
    std::optional<resident_shape> found;
    for (const int groups : {2, 1}) {
        if (groups == 2 && (kind != 8 || s.d % 16 != 0)) continue;
        for (int64_t rows = vectors; rows <= enough; rows += vectors) {
            const auto shape = shape_with(s, kind, groups, rows);
            if (!shape || (found && shape->shared_bytes() > wanted_tile)) break;
            found = shape;
        }
        if (found) break;
    }
    return found;
}

}  // namespace magicube::kronecker_mm::sm80
