// SPDX-License-Identifier: Apache-2.0
//
// SpMM of V:N:M on Hopper: wgmma with a sparse A on the rows of B that a block row selects.
//
// Computes  C = epilogue(A * B), 16-bit types, A packed as sm80/select_format.hpp says.
// Layout    a stage of the two rings holds a unit: 64 selected rows of B in panels of 64 columns
//           (rows of 128 bytes, 16-byte chunk c of row k at c ^ (k % 8)); the tile's values and
//           metadata.
// Mapping   a persistent CTA takes tiles of 128 x 256, or of 64 x 512 where V is 64. Two warpgroups
//           own 64 x 256 sums each; a third one copies: its four warps the rows of B, 16 bytes a
//           lane, its first thread A. mbarriers order the ring.
// Shared    227 KB: 5 stages (3 of the wider tiles) and 20 KB through which sums go to C, 16 rows x
//           32 columns a warp at a time. Architecture sm_90a. Rows of B aligned to 16 bytes.
// Bound     the bytes of the selected rows and of A from L2: 1130 clocks a stage at 37 a clock.
// Source    V:N:M and the selection of columns: VENOM, arXiv 2310.02065.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/ptx.cuh"
#include "core/device/cuda/ptx_warpgroup.cuh"
#include "core/ops/spmm/cuda/store.cuh"
#include "core/ops/vnm_mm/cuda/sm90/warpgroup_launch.hpp"
#include "core/ops/vnm_mm/cuda/sm90/warpgroup_store.cuh"

namespace magicube::vnm_mm::sm90 {

using sm80::metadata_bytes;
using sm80::mma_rows;
using sm80::unit_rows;

constexpr int group_threads = 128;  // of a warpgroup
constexpr int consumer_groups = 2;
constexpr int consumer_warps = consumer_groups * 4;
constexpr int producer_warps = 4;
constexpr int cta_threads = (consumer_warps + producer_warps) * 32;
constexpr int group_rows = 64, group_columns = 256;  // of a warpgroup's sums
constexpr int panel_columns = 64;
constexpr int panel_bytes = unit_rows * panel_columns * 2;
constexpr int value_row_bytes = 64;

template <int TileRows>
struct warpgroup_traits {
    static constexpr int groups_down = TileRows / group_rows;
    static constexpr int tile_columns = consumer_groups / groups_down * group_columns;
    static constexpr int b_bytes = tile_columns / panel_columns * panel_bytes;
    static constexpr int values_bytes = TileRows * value_row_bytes;
    static constexpr int unit_metadata_bytes = TileRows / mma_rows * metadata_bytes;
    static constexpr int a_bytes = values_bytes + unit_metadata_bytes;
    static constexpr int stages = TileRows == 128 ? 5 : 3;
    // Swizzles count from multiples of 1024.
    static constexpr int shared_bytes =
        1024 + stages * (b_bytes + a_bytes) + consumer_warps * staged_bytes;
};

// A stage of the ring and the parity of its next phase.
template <int Stages>
struct ring_place {
    int stage = 0;
    uint32_t parity;

    __device__ __forceinline__ void advance() {
        if (++stage == Stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

struct tile_place {
    uint32_t row_tile, column_tile, matrix;

    __device__ tile_place(const warpgroup_arguments& args, uint32_t tile) {
        const uint32_t line = args.row_tiles.quotient(tile);
        row_tile = tile - line * args.row_tiles.value();
        matrix = args.column_tiles.quotient(line);
        column_tile = line - matrix * args.column_tiles.value();
    }
};

// Addresses in shared memory.
struct shared_places {
    uint32_t b_ring, a_ring, full, empty;
    float* staged;
};

// Fills the ring; all lanes of a producer warp.
template <class Traits>
__device__ __forceinline__ void produce(const warpgroup_arguments& args, const shared_places& at,
                                        int warp, int lane) {
    constexpr int rows_a_warp = unit_rows / producer_warps;
    constexpr int parts = Traits::tile_columns / group_columns;  // 512 bytes of a row
    const sm80::select_arguments& s = args.select;
    ring_place<Traits::stages> place{0, 1};
    uint32_t swizzled[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) swizzled[i] = (lane % 8 ^ i) << 4;
    for (uint32_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
        const tile_place t(args, tile);
        const int64_t units = int64_t{t.row_tile} * s.units;
        const uint8_t* values = s.values + t.matrix * s.values_apart + units * Traits::values_bytes;
        const uint8_t* metadata = s.metadata + units * Traits::unit_metadata_bytes;
        const int32_t* columns = s.columns +
                                 int64_t{t.row_tile} / s.tiles_a_block * s.units * unit_rows +
                                 warp * rows_a_warp + lane % rows_a_warp;
        const uint8_t* b[parts];
        uint32_t bytes[parts];  // of this lane's 16 that lie in B
#pragma unroll
        for (int i = 0; i < parts; ++i) {
            const int64_t column =
                int64_t{t.column_tile} * Traits::tile_columns + i * group_columns + lane * 8;
            const int64_t left = (s.b_columns - column) * 2;
            bytes[i] = static_cast<uint32_t>(max(int64_t{0}, min(left, int64_t{16})));
            b[i] = s.b + t.matrix * s.b_apart + (bytes[i] == 0 ? 0 : column * 2);
        }
        bool mine = args.b_pitch != 0;
#pragma unroll
        for (int i = 0; i < parts; ++i) mine = mine && bytes[i] == 16;
        const bool whole = __all_sync(~0u, mine);
        int32_t next = s.units > 0 ? *columns : -1;
        for (int unit = 0; unit < s.units; ++unit) {
            const int32_t row = next;
            if (unit + 1 < s.units) next = columns[(unit + 1) * unit_rows];
            const uint32_t b_stage = at.b_ring + place.stage * Traits::b_bytes;
            const uint32_t a_stage = at.a_ring + place.stage * Traits::a_bytes;
            const uint32_t full = at.full + 8 * place.stage;
            ptx::barrier_wait(at.empty + 8 * place.stage, place.parity);
            if (warp == 0 && lane == 0) {
                ptx::barrier_expect(full, Traits::a_bytes);
                ptx::copy_bulk(a_stage, values + int64_t{unit} * Traits::values_bytes,
                               Traits::values_bytes, full);
                ptx::copy_bulk(a_stage + Traits::values_bytes,
                               metadata + int64_t{unit} * Traits::unit_metadata_bytes,
                               Traits::unit_metadata_bytes, full);
            }
            __syncwarp();
            const uint32_t target = b_stage + warp * rows_a_warp * 128 + lane / 8 * panel_bytes;
            if (whole && __all_sync(~0u, row >= 0)) {
                // Little but the copies themselves: these instructions set the pace.
#pragma unroll
                for (int i = 0; i < rows_a_warp; ++i) {
                    const auto k = static_cast<uint32_t>(__shfl_sync(~0u, row, i));
                    const uint64_t from = uint64_t{k} * args.b_pitch;
#pragma unroll
                    for (int j = 0; j < parts; ++j)
                        ptx::copy_async<16>(
                            target + swizzled[i % 8] + i * 128 + j * 4 * panel_bytes, b[j] + from);
                }
            } else {
#pragma unroll 1
                for (int i = 0; i < rows_a_warp; ++i) {
                    const int32_t k = __shfl_sync(~0u, row, i);
#pragma unroll
                    for (int j = 0; j < parts; ++j)
                        ptx::copy_async16(
                            target + ((lane % 8 ^ i % 8) << 4) + i * 128 + j * 4 * panel_bytes,
                            k < 0 ? s.b : b[j] + k * s.b_pitch, k < 0 ? 0 : bytes[j]);
                }
            }
            ptx::barrier_arrive_after_copies(full);
            place.advance();
        }
    }
    ptx::commit_copies();
    ptx::wait_copies<0>();
}

// How wgmma finds a matrix: its address, two distances in bytes, the swizzle (1: 128 bytes, 2: 64).
__device__ __forceinline__ uint64_t matrix_in_shared(uint32_t address, uint32_t leading,
                                                     uint32_t stride, uint64_t swizzle) {
    return static_cast<uint64_t>((address & 0x3ffff) >> 4) |
           static_cast<uint64_t>(leading >> 4) << 16 | static_cast<uint64_t>(stride >> 4) << 32 |
           swizzle << 62;
}

struct fp16_products {
    using storage = half;
    static __device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b,
                                                    uint32_t metadata, bool adds) {
        ptx::warpgroup_multiply_sparse_fp16(d, a, b, metadata, adds);
    }
};
struct bf16_products {
    using storage = bfloat16;
    static __device__ __forceinline__ void multiply(float (&d)[128], uint64_t a, uint64_t b,
                                                    uint32_t metadata, bool adds) {
        ptx::warpgroup_multiply_sparse_bf16(d, a, b, metadata, adds);
    }
};

// The products of a unit, in two steps of 32 rows of B. `down` and `across` say which 64 x 256 of
// the tile.
template <class Products, class Traits>
__device__ __forceinline__ void multiply_unit(float (&sums)[128], uint32_t b_stage,
                                              uint32_t a_stage, int down, int across, int warp,
                                              int lane, bool adds) {
    constexpr int step_rows = unit_rows / 2;
    const uint32_t values = a_stage + down * group_rows * value_row_bytes;
    const uint32_t b = b_stage + across * (group_columns / panel_columns) * panel_bytes;
    const uint32_t words = a_stage + Traits::values_bytes + (down * 4 + warp) * metadata_bytes +
                           lane / 4 * 16 + lane % 2 * 4;
    const uint32_t metadata[2] = {ptx::load_shared_u32(words), ptx::load_shared_u32(words + 8)};
    ptx::warpgroup_fence();
#pragma unroll
    for (int step = 0; step < 2; ++step)
        Products::multiply(
            sums, matrix_in_shared(values + step * value_row_bytes / 2, 16, 8 * value_row_bytes, 2),
            matrix_in_shared(b + step * step_rows * 128, panel_bytes, 8 * 128, 1), metadata[step],
            adds || step > 0);
    ptx::warpgroup_commit();
}

template <class Products, class Traits>
__device__ __forceinline__ void consume(const warpgroup_arguments& args, const shared_places& at,
                                        int group, int warp, int lane) {
    const int down = group % Traits::groups_down, across = group / Traits::groups_down;
    float* staged = at.staged + (group * 4 + warp) * (staged_bytes / 4);
    ring_place<Traits::stages> place{0, 0};
    float sums[128];
    for (uint32_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
        if (args.select.units == 0) {
#pragma unroll
            for (float& sum : sums) sum = 0;
        }
        uint32_t before = 0;  // the stage whose products are under way
        for (int unit = 0; unit < args.select.units; ++unit) {
            ptx::barrier_wait(at.full + 8 * place.stage, place.parity);
            ptx::fence_products();
            multiply_unit<Products, Traits>(sums, at.b_ring + place.stage * Traits::b_bytes,
                                            at.a_ring + place.stage * Traits::a_bytes, down, across,
                                            warp, lane, unit > 0);
            ptx::warpgroup_wait<1>();
            if (unit > 0 && lane == 0) ptx::barrier_arrive(before);
            before = at.empty + 8 * place.stage;
            place.advance();
        }
        ptx::warpgroup_wait<0>();
        if (args.select.units > 0 && lane == 0) ptx::barrier_arrive(before);
        const tile_place t(args, tile);
        constexpr int tile_rows = Traits::groups_down * group_rows;
        store_sums<typename Products::storage>(
            args.select.store, t.matrix,
            int64_t{t.row_tile} * tile_rows + down * group_rows + warp * mma_rows,
            int64_t{t.column_tile} * Traits::tile_columns + across * group_columns, sums, staged);
    }
}

template <class Products, int TileRows>
__global__ void __launch_bounds__(cta_threads, 1)
    warpgroup_kernel(const __grid_constant__ warpgroup_arguments args) {
// Compiled for sm_90a alone; the implementation declines other devices.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using traits = warpgroup_traits<TileRows>;
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 16);
    __shared__ __align__(8) uint64_t barriers[2 * traits::stages];
    shared_places at;
    at.b_ring = (ptx::shared_address(shared) + 1023) & ~1023u;
    at.a_ring = at.b_ring + traits::stages * traits::b_bytes;
    // A pointer rather than an address, so that the distances of a loop become part of
    // instructions.
    at.staged = reinterpret_cast<float*>(
        shared + (at.a_ring + traits::stages * traits::a_bytes - ptx::shared_address(shared)));
    at.full = ptx::shared_address(barriers);
    at.empty = at.full + 8 * traits::stages;
    const int lane = threadIdx.x % 32, warp = __shfl_sync(~0u, threadIdx.x / 32, 0);
    if (threadIdx.x == 0) {
        for (int i = 0; i < traits::stages; ++i) {
            ptx::barrier_init(at.full + 8 * i, producer_warps * 32 + 1);
            ptx::barrier_init(at.empty + 8 * i, consumer_warps);
        }
        ptx::fence_barrier_init();
    }
    __syncthreads();
    if (warp >= consumer_warps) {
        ptx::give_registers<40>();
        produce<traits>(args, at, warp - consumer_warps, lane);
    } else {
        ptx::take_registers<232>();
        consume<Products, traits>(args, at, warp / 4, warp % 4, lane);
    }
#endif
}

template <class Products, int TileRows>
cudaError_t load_warpgroup() {
    return cudaFuncSetAttribute(warpgroup_kernel<Products, TileRows>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                warpgroup_traits<TileRows>::shared_bytes);
}

template <class Products, int TileRows>
cudaError_t launch_warpgroup(const warpgroup_arguments& args, unsigned ctas, cudaStream_t stream) {
    return magicube::cuda::launch_kernel(
        warpgroup_kernel<Products, TileRows>,
        {ctas, cta_threads, warpgroup_traits<TileRows>::shared_bytes, stream}, args);
}

#define MAGICUBE_DEFINE_WARPGROUP(TYPE, ROWS)                    \
    const warpgroup_instance warpgroup_##TYPE##_##ROWS = {       \
        dtype::TYPE, ROWS, warpgroup_traits<ROWS>::tile_columns, \
        load_warpgroup<TYPE##_products, ROWS>, launch_warpgroup<TYPE##_products, ROWS>};
#define MAGICUBE_DEFINE_WARPGROUPS(TYPE) \
    MAGICUBE_DEFINE_WARPGROUP(TYPE, 64)  \
    MAGICUBE_DEFINE_WARPGROUP(TYPE, 128)

}  // namespace magicube::vnm_mm::sm90
