// SPDX-License-Identifier: Apache-2.0
// What the resident kernels share, whatever the type: which part of K and which tiles a block owns,
// its copies into shared memory, stores that need an epilogue, and the walk over the tiles.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/ptx.cuh"
#include "core/ops/kronecker_mm/cuda/sm80/resident_launch.hpp"
#include "core/ops/spmm/cuda/store.cuh"

namespace magicube::kronecker_mm::sm80 {

// What a block owns, and the tile that it works on.
struct block_place {
    int64_t i;
    int64_t l;              // its first residue
    int32_t first_outputs;  // block of a warp's outputs
    int32_t output_blocks;  // of them
    int64_t first_vector;
    int64_t batch;

    __device__ __forceinline__ void move_to(const resident_arguments& args, int64_t tile) {
        batch = static_cast<uint32_t>(tile) / static_cast<uint32_t>(args.row_tiles);
        first_vector = (tile - batch * args.row_tiles) * args.shape.rows;
    }
};

template <class Tiling>
__device__ __forceinline__ block_place place_of(const resident_arguments& args, uint32_t part) {
    const auto& s = args.shape;
    const auto splits = static_cast<uint32_t>(s.splits);
    const auto residue_blocks =
        static_cast<uint32_t>(s.d) / static_cast<uint32_t>(Tiling::residues * s.groups);
    const uint32_t split = part % splits, block = part / splits;
    block_place p{};
    p.i = block / residue_blocks;
    p.l = int64_t{block % residue_blocks} * Tiling::residues * s.groups;
    p.first_outputs = static_cast<int32_t>(split) * s.own_outputs;
    p.output_blocks = min(s.own_outputs, s.output_blocks - p.first_outputs);
    return p;
}

// Element e of a unit, wherever it lies; 0 beyond the operand.
template <class t>
__device__ typename t::element gather_element(const resident_arguments& args, const block_place& p,
                                              int row, int unit, int e) {
    const auto& s = args.shape;
    int64_t k, l = p.l, n = p.first_vector;
    if constexpr (t::by_vectors) {
        k = row;
        n += unit * t::unit + e;
    } else if constexpr (t::residues == t::unit) {
        k = unit / s.groups;
        l += unit % s.groups * t::unit + e;
        n += row;
    } else {
        const int place = unit * t::unit + e;
        k = place / t::residues;
        l += place % t::residues;
        n += row;
    }
    if (k >= s.c || n >= args.vectors) return 0;
    const int64_t feature = (p.i * s.c + k) * s.d + l;
    return static_cast<const typename t::element*>(
        args.x)[p.batch * args.x_batch_stride + feature * args.x_feature_stride +
                n * args.x_vector_stride];
}

// A column of units, in rows `row`, row + step and so on.
template <class t>
__device__ __forceinline__ void load_column(const resident_arguments& args, const block_place& p,
                                            int unit, int row, int step, uint32_t shared) {
    const auto& s = args.shape;
    int64_t feature = p.i * s.c * s.d + p.l;
    int64_t n = p.first_vector;
    int valid = 16;  // bytes
    if constexpr (t::by_vectors) {
        n += unit * t::unit;
        feature += row * s.d;
        valid = static_cast<int>(max(min(args.vectors - n, int64_t{t::unit}), int64_t{0})) *
                (16 / t::unit);
    } else if constexpr (t::residues == t::unit) {
        const int k = s.groups == 2 ? unit >> 1 : unit;
        feature += k * s.d + (s.groups == 2 ? (unit & 1) * t::unit : 0);
        if (k >= s.c) valid = 0;
    } else {
        feature += unit * t::unit;
        if (unit * (t::unit / t::residues) >= s.c) valid = 0;
    }
    if constexpr (!t::by_vectors) n += row;
    // Rows inside the operand: of k, or of vectors.
    const auto rows = static_cast<int>(
        min(t::by_vectors ? s.c : args.vectors - p.first_vector, int64_t{s.shared_rows}));
    const auto* from = static_cast<const typename t::element*>(args.x) +
                       p.batch * args.x_batch_stride + feature * args.x_feature_stride +
                       n * args.x_vector_stride;
    const int64_t apart =
        step * (t::by_vectors ? s.d * args.x_feature_stride : args.x_vector_stride);
    uint32_t target = shared + static_cast<uint32_t>(row * s.pitch + unit * 16);
    for (; row < s.shared_rows; row += step) {
        const bool inside = row < rows && valid > 0;
        ptx::copy_async16(target, inside ? from : args.x, inside ? valid : 0);
        from += apart;
        target += static_cast<uint32_t>(step * s.pitch);
    }
}

template <class t>
__device__ __forceinline__ void load_tile(const resident_arguments& args, const block_place& p,
                                          uint32_t shared) {
    const auto& s = args.shape;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    // Threads side by side own units side by side.
    const bool narrow = s.units < threads;
    const int step = narrow ? threads / s.units : 1;
    const int row = narrow ? thread / s.units : 0;
    if (row >= step) return;
    for (int unit = thread - row * s.units; unit < s.units; unit += threads) {
        if (args.x_units) {
            load_column<t>(args, p, unit, row, step, shared);
            continue;
        }
        for (int r = row; r < s.shared_rows; r += step) {
            const uint32_t target = shared + static_cast<uint32_t>(r * s.pitch + unit * 16);
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                uint32_t word;
                if constexpr (t::unit == 4) {
                    word = gather_element<t>(args, p, r, unit, w);
                } else {
                    word = gather_element<t>(args, p, r, unit, 2 * w) |
                           uint32_t{gather_element<t>(args, p, r, unit, 2 * w + 1)} << 16;
                }
                ptx::store_shared_u32(target + 4 * w, word);
            }
        }
    }
}

// The block's part of W: [group][block of outputs], each all steps of k.
template <class Tiling>
__device__ __forceinline__ void load_weights(const resident_arguments& args, const block_place& p,
                                             uint32_t shared) {
    const auto& s = args.shape;
    const int64_t set_bytes = int64_t{s.steps} * s.step_bytes;
    for (int group = 0; group < s.groups; ++group) {
        const int64_t set =
            (p.i * (s.d / Tiling::residues) + p.l / Tiling::residues + group) * s.output_blocks +
            p.first_outputs;
        const auto* from = reinterpret_cast<const uint8_t*>(args.w) + set * set_bytes;
        const int bytes = static_cast<int>(set_bytes) * p.output_blocks;
        const uint32_t target =
            shared + static_cast<uint32_t>(group * s.own_outputs * static_cast<int>(set_bytes));
        for (int at = static_cast<int>(threadIdx.x) * 16; at < bytes;
             at += static_cast<int>(blockDim.x) * 16)
            ptx::copy_async16(target + static_cast<uint32_t>(at), from + at, 16);
    }
}

template <class t>
struct unit_sums {
    float y[t::unit];
};

// Sums that are a unit of Y: outputs and residues from (j, l) on for vector n, or vectors from n
// on.
template <class t>
__device__ __noinline__ void store_scaled(const resident_arguments& args, const block_place& p,
                                          int64_t j, int64_t l, int64_t n, unit_sums<t> sums) {
    const auto& s = args.shape;
#pragma unroll
    for (int e = 0; e < t::unit; ++e) {
        const int64_t j_of = j + (t::by_vectors ? 0 : e / t::residues);
        if (j_of >= s.b) continue;
        const int64_t feature =
            (p.i * s.b + j_of) * s.d + l + (t::by_vectors ? 0 : e % t::residues);
        spmm::cuda::store_one(args.store, p.batch, feature, n + (t::by_vectors ? e : 0), sums.y[e]);
    }
}

// Where the unit of output j and vector n lies in Y.
template <class t>
__device__ __forceinline__ typename t::element* unit_of(const resident_arguments& args,
                                                        const block_place& p, int64_t j, int64_t l,
                                                        int64_t n) {
    const auto& s = args.shape;
    const auto& y = args.store;
    return static_cast<typename t::element*>(y.c) + p.batch * y.batch_stride +
           ((p.i * s.b + j) * s.d + l) * y.row_stride + n * y.col_stride;
}

// Stores a unit that lies `target` if that can be done at once; pack(y) makes its 16 bytes.
template <class t, class Pack>
__device__ __forceinline__ void store_unit(const resident_arguments& args, const block_place& p,
                                           int64_t j, int64_t l, int64_t n,
                                           typename t::element* target, const unit_sums<t>& sums,
                                           Pack&& pack) {
    const auto& s = args.shape;
    if (j >= s.b || n >= args.vectors) return;
    const bool whole =
        t::by_vectors ? n + t::unit <= args.vectors : j + t::unit / t::residues <= s.b;
    if (args.y_units && !args.scaled && whole) {
        *reinterpret_cast<uint4*>(target) = pack(sums.y);
    } else {
        store_scaled<t>(args, p, j, l, n, sums);
    }
}

// Compute: its tiling, whether W is in shared memory, and multiply_tile(args, place, W's and X's
// address in shared memory).
template <class Compute>
__global__ void __launch_bounds__(most_threads, 1)
    resident_kernel(const __grid_constant__ resident_arguments args) {
    using t = typename Compute::tiling_type;
    MAGICUBE_DYNAMIC_SHARED(uint8_t, memory, 128);
    const auto& s = args.shape;
    const auto parts = static_cast<uint32_t>(s.parts());
    const uint32_t walkers = gridDim.x / parts;
    const uint32_t w = ptx::shared_address(memory);
    const uint32_t tile_bytes = static_cast<uint32_t>(s.shared_rows * s.pitch);
    const uint32_t first = w + static_cast<uint32_t>(s.w_bytes);
    block_place p = place_of<t>(args, blockIdx.x % parts);
    if constexpr (Compute::w_is_shared) load_weights<t>(args, p, w);
    int64_t tile = blockIdx.x / parts;
    p.move_to(args, tile);
    load_tile<t>(args, p, first);
    ptx::commit_copies();
    for (uint32_t turn = 0; tile < args.tiles; ++turn, tile += walkers) {
        const bool more = tile + walkers < args.tiles;
        const uint32_t x = first + (s.buffers == 2 ? turn % 2 * tile_bytes : 0);
        block_place next = p;
        if (more) next.move_to(args, tile + walkers);
        if (s.buffers == 2) {
            if (more) load_tile<t>(args, next, first + (turn + 1) % 2 * tile_bytes);
            ptx::commit_copies();
            ptx::wait_copies<1>();
        } else {
            ptx::wait_copies<0>();
        }
        __syncthreads();
        Compute::multiply_tile(args, p, w, x);
        __syncthreads();
        if (s.buffers == 1 && more) {
            load_tile<t>(args, next, first);
            ptx::commit_copies();
        }
        p = next;
    }
}

template <class Compute>
cudaError_t load_resident(int shared_bytes) {
    return cudaFuncSetAttribute(resident_kernel<Compute>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

template <class Compute>
cudaError_t launch_resident(const resident_arguments& args, dim3 grid, cudaStream_t stream) {
    return magicube::cuda::launch_kernel(resident_kernel<Compute>,
                                         {grid, static_cast<unsigned>(args.shape.threads),
                                          static_cast<size_t>(args.shape.shared_bytes()), stream},
                                         args);
}

}  // namespace magicube::kronecker_mm::sm80
