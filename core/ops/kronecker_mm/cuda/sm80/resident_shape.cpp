// SPDX-License-Identifier: Apache-2.0
#include "core/ops/kronecker_mm/cuda/sm80/resident_shape.hpp"

#include <cmath>

namespace magicube::kronecker_mm::sm80 {
namespace {

constexpr int64_t most_rows = 256;
constexpr int32_t most_splits = 16;
constexpr int64_t block_overhead = 1024;  // bytes of shared memory that a block costs besides

struct tiling_choice {
    int32_t unit, kind, high, wide;
};

// Those of MAGICUBE_RESIDENT_TILINGS, and of resident_fp32.
constexpr tiling_choice tilings[] = {{8, 0, 1, 1}, {8, 0, 2, 1}, {8, 1, 4, 2}, {8, 1, 4, 4},
                                     {8, 2, 2, 2}, {8, 2, 2, 4}, {8, 4, 2, 2}, {8, 8, 1, 2},
                                     {4, 0, 1, 1}, {4, 1, 1, 1}, {4, 2, 1, 1}, {4, 4, 1, 1}};

template <class Tiling>
void set_sizes(resident_shape& shape, int32_t& k_step) {
    shape.outputs = Tiling::outputs;
    shape.vectors = Tiling::vectors;
    shape.step_bytes = Tiling::step_bytes;
    k_step = Tiling::k_step;
}

// What the kernel's tiling says; gives the length of a step.
int32_t set_tiling(resident_shape& shape, const resident_sizes& sizes) {
    shape.unit = sizes.unit;
    shape.kind = sizes.kind;
    shape.high = sizes.high;
    shape.wide = sizes.wide;
    int32_t k_step = 0;
    if (sizes.unit == 4) {
        switch (sizes.kind) {
            case 0:
                set_sizes<float_tiling<0>>(shape, k_step);
                break;
            case 1:
                set_sizes<float_tiling<1>>(shape, k_step);
                break;
            case 2:
                set_sizes<float_tiling<2>>(shape, k_step);
                break;
            default:
                set_sizes<float_tiling<4>>(shape, k_step);
                break;
        }
        return k_step;
    }
    const int32_t fragments = sizes.kind == 0 ? 1 : sizes.kind == 1 ? 2 : sizes.kind;
    shape.outputs = 16 * sizes.high;
    shape.vectors = sizes.kind == 0 ? 64 : 8 * sizes.wide;
    shape.step_bytes = fragments * sizes.high * fragment_bytes;
    return sizes.kind == 1 ? 32 : 16;
}

int32_t kind_of(const resident_work& work) {
    if (work.vectors_are_neighbours) return 0;
    for (int32_t residues = work.unit; residues > 1; residues /= 2)
        if (work.factor.d % residues == 0) return residues;
    return 1;
}

int64_t blocks_at_once(const resident_shape& s, const resident_limits& limits) {
    const int64_t fit = limits.shared_bytes_of_all / (s.shared_bytes() + block_overhead);
    return std::clamp<int64_t>(fit, 1, most_threads / s.threads);
}

// Clocks of a multiprocessor for all products: of shared memory and of the units that multiply.
double product_clocks(const resident_shape& s, double vectors) {
    const int64_t residue_groups = s.d / s.residues();
    const double sets =
        static_cast<double>(s.a) * static_cast<double>(residue_groups) * s.output_blocks * s.steps;
    if (s.unit == 4) {
        // fma and reads of 16 bytes of a thread, a step.
        const double fma = s.kind == 1 ? 256 : s.kind == 2 ? 128 : 64;
        const double reads = s.kind == 0 ? 4 : s.kind == 4 ? 8 : s.kind == 2 ? 12 : 16;
        return sets * vectors / s.vectors * (0.1 * fma + 0.4 * reads);
    }
    const double parts = s.kind == 0 ? 8 : s.kind == 1 ? 2 : s.kind;
    const double x_reads = s.kind == 0 || s.kind == 8 ? 4 : s.kind == 4 ? 2 : 1;
    const double w_clocks = s.kind == 0 ? 0.5 : 4.0 / s.wide;
    const double clocks = 0.639 + 0.147 * (w_clocks + 4 * x_reads / (parts * s.high));
    return sets * vectors / 8 * s.step_bytes / fragment_bytes * clocks;
}

// The constants are fitted to 2,000 divisions of nine patterns in both layouts, timed on an H200.
double estimate(const resident_shape& s, const resident_work& work, const resident_limits& limits) {
    constexpr double memory_bytes = 5.98e6, l2_bytes = 3.03e6;  // a us
    constexpr double gathered_bytes = 8.59e6, shared_gathers = 1.54;
    constexpr double clocks_per_us = 1700, latency = 0.381, tile_us = 0.521;
    const double vectors = std::max(work.vectors, static_cast<double>(s.rows));
    const double features = static_cast<double>(s.a) * static_cast<double>(s.d);
    const double element = 16.0 / s.unit;
    const double x = element * vectors * features * static_cast<double>(s.c);
    const double y = element * vectors * features * static_cast<double>(s.b);
    const int64_t residue_groups = s.d / s.residues();
    const double w = static_cast<double>(s.a) * static_cast<double>(residue_groups) *
                     s.output_blocks * s.steps * s.step_bytes;
    // Half of each sector of 32 bytes is another block's.
    const double sectors = s.kind == s.unit && s.d > s.unit && s.groups == 1 ? 2 : 1;
    const double at_once = static_cast<double>(blocks_at_once(s, limits));
    const double slots = limits.multiprocessors * at_once;
    const double tiles = std::ceil(vectors / s.rows);
    const double parts = static_cast<double>(s.parts());
    const double walkers =
        static_cast<double>(walkers_of(s, static_cast<int64_t>(std::min(tiles, 1e9)), limits));
    const double turns = std::ceil(tiles / walkers) * std::ceil(parts * walkers / slots);
    const double use = std::min(1.0, tiles * parts / (turns * slots));
    const double items = static_cast<double>(s.rows) / s.vectors * s.groups * s.own_outputs;
    const double warps = s.threads / 32.0;
    const double busy = items / (warps * std::ceil(items / warps));

    const double memory_us = (x + y + w) / memory_bytes;
    // W that is not kept is read for each warp's vectors; L1 has some of it.
    const double w_us =
        s.w_bytes > 0
            ? w * walkers / l2_bytes
            : w * vectors / std::min(1.0 * s.rows, shared_gathers * s.vectors) / gathered_bytes;
    const double l2_us = (x * s.splits * sectors + y) / l2_bytes + w_us;
    const double product_us = product_clocks(s, vectors) * (1 + latency * 8 / (at_once * warps)) /
                              (limits.multiprocessors * clocks_per_us * busy);
    const double longest = std::max({memory_us, l2_us, product_us});
    const double rest = memory_us + l2_us + product_us - longest;
    const double exposed = s.buffers == 2 ? 0.194 : 0.341 / std::pow(at_once, 0.794);
    return 4 + (longest + exposed * rest) / use + turns * tile_us;
}

}  // namespace

std::optional<resident_shape> shape_with(const step& s, const resident_sizes& sizes,
                                         int64_t shared_bytes) {
    resident_shape shape{};
    const int64_t k_step = set_tiling(shape, sizes);
    shape.groups = sizes.groups;
    shape.a = s.a;
    shape.b = s.b;
    shape.c = s.c;
    shape.d = s.d;
    shape.output_blocks = static_cast<int32_t>(ceil_div(s.b, int64_t{shape.outputs}));
    shape.own_outputs = (shape.output_blocks + sizes.splits - 1) / sizes.splits;
    shape.splits = (shape.output_blocks + shape.own_outputs - 1) / shape.own_outputs;
    shape.steps = static_cast<int32_t>(ceil_div(s.c, k_step));
    const int64_t k = shape.steps * k_step;
    const int64_t units = sizes.kind == 0 ? sizes.rows / sizes.unit
                                          : k * shape.residues() * sizes.groups / sizes.unit;
    // Lanes read units t * groups and, a row later, the same; by vectors rows t, units u and u + 4.
    // Those of fp32 read neighbouring units, or one.
    const int64_t wanted = sizes.kind == 0 || sizes.groups == 2 ? 1 : 4;
    const int64_t pitch = sizes.unit == 4 ? units : units + (8 + wanted - units % 8) % 8;
    shape.rows = static_cast<int32_t>(sizes.rows);
    shape.units = static_cast<int32_t>(units);
    shape.shared_rows = static_cast<int32_t>(sizes.kind == 0 ? k : sizes.rows);
    shape.pitch = static_cast<int32_t>(pitch * 16);
    shape.threads = sizes.threads;
    shape.buffers = sizes.buffers;
    const int64_t w_bytes = sizes.w_is_shared ? int64_t{shape.own_outputs} * shape.groups *
                                                    shape.steps * shape.step_bytes
                                              : 0;
    if (w_bytes + sizes.buffers * shape.tile_bytes() > shared_bytes) return {};
    shape.w_bytes = static_cast<int32_t>(w_bytes);
    return shape;
}

int64_t walkers_of(const resident_shape& shape, int64_t tiles, const resident_limits& limits) {
    const int64_t slots = limits.multiprocessors * blocks_at_once(shape, limits);
    const int64_t parts = shape.parts();
    // Few parts: each slot one block. Many: blocks of at least four tiles, if there are so many.
    const int64_t wanted =
        parts <= slots ? slots / parts : std::min(tiles / 4, ceil_div(4 * slots, parts));
    return std::max<int64_t>(1, std::min(wanted, tiles));
}

std::optional<resident_choice> choose_shape(const resident_work& work,
                                            const resident_limits& limits) {
    constexpr int64_t longest = int64_t{1} << 20;
    const step& s = work.factor;
    if (std::max({s.a, s.b, s.c, s.d}) > longest) return {};
    std::optional<resident_choice> best;
    resident_sizes sizes{};
    const auto consider = [&] {
        const auto shape = shape_with(s, sizes, limits.shared_bytes);
        if (!shape) return false;
        const double us = estimate(*shape, work, limits);
        if (!best || us < best->us) best = {*shape, us};
        return true;
    };
    const int32_t kind = kind_of(work);
    for (const auto& tiling : tilings) {
        if (tiling.kind != kind || tiling.unit != work.unit) continue;
        sizes.unit = tiling.unit;
        sizes.kind = kind;
        sizes.high = tiling.high;
        sizes.wide = tiling.wide;
        resident_shape known{};
        set_tiling(known, sizes);
        const int64_t vectors = known.vectors;
        const int64_t enough =
            std::max(vectors, round_up(std::min(most_rows, work.most_vectors), vectors));
        for (sizes.groups = 1; sizes.groups <= (kind == work.unit && s.d % (2 * kind) == 0 ? 2 : 1);
             ++sizes.groups) {
            for (sizes.rows = vectors; sizes.rows <= enough; sizes.rows += vectors) {
                bool any = false;
                for (sizes.buffers = 1; sizes.buffers <= 2; ++sizes.buffers) {
                    for (sizes.threads = most_threads / 2; sizes.threads <= most_threads;
                         sizes.threads *= 2) {
                        sizes.splits = 1;
                        sizes.w_is_shared = false;
                        if (work.unit == 8) any |= consider();
                        sizes.w_is_shared = true;
                        for (sizes.splits = 1; sizes.splits <= most_splits; ++sizes.splits)
                            any |= consider();
                    }
                }
                if (!any) break;
            }
        }
    }
    return best;
}

}  // namespace magicube::kronecker_mm::sm80
