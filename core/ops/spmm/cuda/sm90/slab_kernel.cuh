// SPDX-License-Identifier: Apache-2.0
//
// SpMM on Hopper: slabs of B in a ring of shared memory, gathered by ldmatrix, multiplied by
// mma.sync.
//
// Computes  C = epilogue(A * B) for bundles of rows of A (packed as slab_format.hpp says) and
//           column tiles of a row-major B, 128 or 64 bytes wide.
// Layout    B's rows lie side by side in shared memory, swizzled by the tensor copy that brings
//           them; slab_operands.cuh says how they are gathered, slab_store.cuh how C leaves.
// Mapping   a persistent CTA takes tiles (column tile, group) in the order of slab_arguments; 16
//           consumer warps own `Bundles` bundles each, one thread of the producer warpgroup fills
//           the rings, mbarriers order the two.
// Shared    227 KB, divided by the plan. Architecture sm_90a. B's base and ld aligned to 16 bytes.
// Bound     ldmatrix: 512 bytes of shared memory for 32 x 16 bytes of B, 128 bytes a clock.
// Source    the vector-sparse format and its strides: Magicube, SC'22; the staging is ours.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/ops/spmm/cuda/sm90/slab_launch.hpp"
#include "core/ops/spmm/cuda/sm90/slab_operands.cuh"
#include "core/ops/spmm/cuda/sm90/slab_store.cuh"

namespace magicube::spmm::sm90 {

// Walks over the tiles of a CTA. One register: the rest is worked out when it is asked for.
class tile_walk {
  public:
    __device__ explicit tile_walk(const slab_arguments& args)
        : args_(args), tile_(contiguous() ? edge(blockIdx.x) : blockIdx.x) {}

    __device__ bool inside() const {
        return tile_ <
               (contiguous() ? edge(blockIdx.x + 1) : args_.lines.value() * args_.groups.value());
    }
    __device__ void advance() {
        // There and back: the last of one row of tiles has the first of the next.
        const uint32_t ctas = args_.ctas.value();
        tile_ += contiguous() ? 1 : snake() ? 2 * (ctas - args_.ctas.remainder(tile_)) - 1 : ctas;
    }

    __device__ uint32_t line() const {
        return snake() ? args_.lines.remainder(tile_) : args_.groups.quotient(tile_);
    }
    __device__ uint32_t group() const {
        return snake() ? args_.lines.quotient(tile_) : args_.groups.remainder(tile_);
    }
    __device__ uint32_t batch() const {
        return args_.one_pattern ? args_.column_tiles.quotient(line())
                                 : args_.groups_a_matrix.quotient(group());
    }
    __device__ uint32_t column_tile() const {
        return args_.one_pattern ? args_.column_tiles.remainder(line()) : line();
    }

  private:
    __device__ bool contiguous() const { return args_.order == tile_order::contiguous; }
    __device__ bool snake() const { return args_.order == tile_order::snake; }
    __device__ uint32_t edge(uint32_t cta) const {
        const uint64_t tiles = uint64_t{args_.lines.value()} * args_.groups.value();
        return static_cast<uint32_t>(cta * tiles / args_.ctas.value());
    }

    const slab_arguments& args_;
    uint32_t tile_;
};

// Where things lie in shared memory; addresses.
struct shared_layout {
    uint32_t slots, zeros, b_ring, a_ring;
    uint32_t full, empty;

    __device__ shared_layout(const slab_geometry& g, void* shared, uint64_t* barriers) {
        slots = (ptx::shared_address(shared) + 1023) & ~1023u;
        zeros = slots + consumer_warps * store_slots * store_slot_bytes;
        b_ring = zeros + zero_rows * widest_row_bytes;
        a_ring = b_ring + g.b_stages * g.slab_rows * g.row_bytes;
        full = ptx::shared_address(barriers);
        empty = full + 8 * max_stages;
    }
};

// Fills the rings for all of this CTA's tiles; one thread.
template <class Operands>
__device__ inline void produce(const slab_arguments& args, const CUtensorMap* map,
                               const shared_layout& at) {
    // Places of parts are read early: a look takes longer than a slab.
    constexpr int ahead = parts_read_ahead;
    const slab_geometry& g = args.geometry;
    const uint32_t slab_bytes = g.slab_rows * Operands::row_bytes;
    ring_position a{0, 1};
    uint32_t target = at.b_ring;
    uint32_t line = ~0u;
    for (tile_walk tile(args); tile.inside(); tile.advance()) {
        const slab_part* part = args.parts + int64_t{tile.group()} * g.slabs;
        const bool loaded = g.resident() && args.one_pattern && tile.line() == line;
        if (g.resident() && !loaded) {
            // What is in the ring must be done with.
            ring_position all = a;
            for (int i = 0; i < g.a_stages; ++i) {
                ptx::barrier_wait(at.empty + 8 * all.stage, all.parity);
                all.advance(g.a_stages);
            }
        }
        line = tile.line();
        const auto x = static_cast<int>(tile.column_tile() * Operands::columns);
        const auto z = static_cast<int>(args.b_batched ? tile.batch() : 0);
        slab_part window[ahead];
#pragma unroll
        for (int i = 0; i < ahead; ++i) window[i] = part[i];
        for (int slab = 0; slab < g.slabs;) {
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                if (slab >= g.slabs) break;
                const uint32_t full = at.full + 8 * a.stage;
                const uint32_t bytes = window[i].length * 16;
                ptx::barrier_wait(at.empty + 8 * a.stage, a.parity);
                ptx::barrier_expect(full, bytes + (loaded ? 0 : slab_bytes));
                ptx::copy_bulk(at.a_ring + a.stage * g.a_bytes,
                               args.records + int64_t{window[i].begin} * 16, bytes, full);
                if (!loaded)
                    for (int row = 0; row < g.slab_rows; row += g.box_rows)
                        ptx::copy_tile(target + row * Operands::row_bytes, map, x,
                                       slab * g.slab_rows + row, z, full);
                window[i] = part[slab + ahead];
                ++slab;
                target += slab_bytes;
                if (target == at.a_ring) target = at.b_ring;
                a.advance(g.a_stages);
            }
        }
    }
}

// The sums of a bundle in the squares that the stores take. Plane sets are recombined, row sets are
// 8 rows apart.
template <class Storage, class Operands, int Sets, bool Planes>
__device__ __forceinline__ void store_bundle(
    const slab_arguments& args, const CUtensorMap* map, store_ring& ring, store_box box,
    const typename Operands::accumulator (&acc)[Sets][Operands::chunks][4]) {
    const int lane = threadIdx.x & 31;
    using accumulator = typename Operands::accumulator;
    using sum = std::conditional_t<Planes, int64_t, accumulator>;
    constexpr bool fills_slots = Operands::columns * sizeof(Storage) >= store_row_bytes;
#pragma unroll
    for (int set = 0; set < (Planes ? 1 : Sets); ++set, box.row += 8) {
        const auto square = [&](int c, sum(&sums)[2][2]) {
            if constexpr (Planes) {
#pragma unroll
                for (int q = 0; q < 4; ++q)
                    sums[q & 1][q >> 1] = int64_t{acc[0][c][q]} * 256 + acc[1][c][q];
            } else {
                Operands::arrange(acc[set][c], sums);
            }
        };
        if (fills_slots && args.store_by != store_path::squares) {
            if constexpr (fills_slots)
                stage_tile<Storage, Operands, sum>(args, map, ring, box, square);
        } else {
            cuda::store_squares<Storage, Operands::chunks, 16, sum>(
                args.store, box.batch, box.row + lane % 4 * 2,
                box.column + Operands::first_column(lane), square);
        }
    }
}

template <class Operands, int Sets, bool Planes>
__device__ __forceinline__ void store_bundle(
    const slab_arguments& args, const CUtensorMap* map, store_ring& ring, const store_box& box,
    const typename Operands::accumulator (&acc)[Sets][Operands::chunks][4]) {
    switch (args.store.type) {
        case dtype::int32:
            if constexpr (std::is_same_v<typename Operands::accumulator, int32_t>)
                store_bundle<int32_t, Operands, Sets, Planes>(args, map, ring, box, acc);
            break;
        case dtype::fp16:
            store_bundle<half, Operands, Sets, Planes>(args, map, ring, box, acc);
            break;
        case dtype::bf16:
            store_bundle<bfloat16, Operands, Sets, Planes>(args, map, ring, box, acc);
            break;
        case dtype::int8:
            store_bundle<int8_t, Operands, Sets, Planes>(args, map, ring, box, acc);
            break;
        default:
            store_bundle<float, Operands, Sets, Planes>(args, map, ring, box, acc);
            break;
    }
}

template <int Sets, int Chunks, class T>
__device__ __forceinline__ void copy_sums(T (&target)[Sets][Chunks][4],
                                          const T (&source)[Sets][Chunks][4]) {
#pragma unroll
    for (int i = 0; i < Sets * Chunks * 4; ++i)
        target[i / (Chunks * 4)][i / 4 % Chunks][i % 4] =
            source[i / (Chunks * 4)][i / 4 % Chunks][i % 4];
}

// The steps of one part.
template <class Operands, int Bundles, int Sets>
__device__ __forceinline__ void multiply_part(
    uint32_t part, int warp, const ring_view& ring,
    typename Operands::accumulator (&acc)[Bundles][Sets][Operands::chunks][4]) {
    constexpr int record_bytes = Sets * Operands::set_bytes + step_slots * 2;
    const int lane = threadIdx.x & 31;
    const uint2 header = ptx::load_shared_v2(part + warp * 8);
    if (header.y == 0) return;
    uint32_t record = part + header.x;
    auto row = Operands::load_rows(record + Sets * Operands::set_bytes, lane);
#pragma unroll
    for (int bundle = 0; bundle < Bundles; ++bundle) {
        const uint32_t end = record + (header.y >> (8 * bundle) & 0xff) * record_bytes;
        while (record != end) {
            typename Operands::values v[Sets];
#pragma unroll
            for (int s = 0; s < Sets; ++s)
                v[s] = Operands::load_values(record + s * Operands::set_bytes, lane);
            record += record_bytes;
            // One record past the part's last is read, and not used.
            const auto next = Operands::load_rows(record + Sets * Operands::set_bytes, lane);
            Operands::step(acc[bundle], ring, row, v);
            row = next;
        }
    }
}

template <class Operands, int Bundles, int Sets, bool Planes>
__device__ __forceinline__ void consume(const slab_arguments& args, const CUtensorMap* map,
                                        const shared_layout& at, int warp) {
    using accumulator = typename Operands::accumulator;
    const slab_geometry& g = args.geometry;
    const int slab_bytes = g.slab_rows * Operands::row_bytes;
    const int lane = threadIdx.x & 31;
    ring_position a{0, 0};
    ring_view ring;
    ring.begin = ring.base = at.b_ring;
    ring.end = at.a_ring;
    store_ring slots(at.slots + warp * store_slots * store_slot_bytes);
    for (tile_walk tile(args); tile.inside(); tile.advance()) {
        accumulator acc[Bundles][Sets][Operands::chunks][4] = {};
        for (int slab = 0; slab < g.slabs; ++slab) {
            ptx::barrier_wait(at.full + 8 * a.stage, a.parity);
            __syncwarp();
            multiply_part<Operands, Bundles, Sets>(at.a_ring + a.stage * g.a_bytes, warp, ring,
                                                   acc);
            __syncwarp();
            if (lane == 0) ptx::barrier_arrive(at.empty + 8 * a.stage);
            a.advance(g.a_stages);
            ring.advance(slab_bytes);
        }
// Rolled, with moves, so that the code of the stores exists once.
#pragma unroll 1
        for (int bundle = 0; bundle < Bundles; ++bundle) {
            const int64_t row =
                args.bundle_rows[(int64_t{tile.group()} * consumer_warps + warp) * Bundles +
                                 bundle];
            const int64_t column = int64_t{tile.column_tile()} * Operands::columns;
            if (row >= 0)
                store_bundle<Operands, Sets, Planes>(args, map, slots, {tile.batch(), row, column},
                                                     acc[0]);
#pragma unroll
            for (int next = 1; next < Bundles; ++next) copy_sums(acc[next - 1], acc[next]);
        }
    }
    if (lane == 0) ptx::wait_bulk_reads<0>();  // shared memory goes with the CTA
}

template <class Operands, int Bundles, int Sets, bool Planes>
__global__ void __launch_bounds__((consumer_warps + producer_warps) * 32, 1)
    slab_kernel(const __grid_constant__ CUtensorMap b_map,
                const __grid_constant__ CUtensorMap c_map,
                const __grid_constant__ slab_arguments args) {
// Compiled for sm_90a alone; the implementation declines other devices.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 16);
    __shared__ __align__(8) uint64_t barriers[2 * max_stages];
    const shared_layout at(args.geometry, shared, barriers);
    const int warp = __shfl_sync(~0u, threadIdx.x >> 5, 0);
    if (threadIdx.x < max_stages) {
        ptx::barrier_init(at.full + 8 * threadIdx.x, 1);
        ptx::barrier_init(at.empty + 8 * threadIdx.x, consumer_warps);
        ptx::fence_barrier_init();
    }
    if (threadIdx.x < zero_rows * widest_row_bytes / 16)
        ptx::store_shared_zero16(at.zeros + threadIdx.x * 16);
    __syncthreads();
    ptx::wait_for_prerequisites();
    ptx::launch_dependents();

    if (warp >= consumer_warps) {
        ptx::give_registers<24>();
        if (threadIdx.x == consumer_warps * 32) produce<Operands>(args, &b_map, at);
    } else {
        ptx::take_registers<112>();
        consume<Operands, Bundles, Sets, Planes>(args, &c_map, at, warp);
    }
#endif
}

using s8_operands = byte_operands<int32_t, 0>;
using s8n_operands = byte_operands<int32_t, 0, 64>;
using u8_operands = byte_operands<int32_t, 3>;
using s8u8_operands = byte_operands<int32_t, 2>;
using e4m3_operands = byte_operands<float, 0>;
using fp16_operands = half_operands<false>;
using bf16_operands = half_operands<true>;

// Loads the kernel and lets it have its shared memory.
template <class Operands, int Bundles, int Sets, bool Planes>
cudaError_t load_slab() {
    return cudaFuncSetAttribute(slab_kernel<Operands, Bundles, Sets, Planes>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

template <class Operands, int Bundles, int Sets, bool Planes>
cudaError_t launch_slab(const CUtensorMap& b, const CUtensorMap& c, const slab_arguments& args,
                        int ctas, cudaStream_t stream) {
    const magicube::cuda::launch_shape shape{dim3(static_cast<unsigned>(ctas)),
                                             (consumer_warps + producer_warps) * 32, shared_bytes,
                                             stream, true};
    return magicube::cuda::launch_kernel(slab_kernel<Operands, Bundles, Sets, Planes>, shape, b, c,
                                         args);
}

#define MAGICUBE_DEFINE_SLAB_LAUNCH(OPERANDS, BUNDLES, SETS, PLANES)                              \
    cudaError_t load_slab_##OPERANDS##_##BUNDLES##_##SETS() {                                     \
        return load_slab<OPERANDS##_operands, BUNDLES, SETS, PLANES>();                           \
    }                                                                                             \
    cudaError_t launch_slab_##OPERANDS##_##BUNDLES##_##SETS(                                      \
        const CUtensorMap& b, const CUtensorMap& c, const slab_arguments& args, int ctas,         \
        cudaStream_t stream) {                                                                    \
        return launch_slab<OPERANDS##_operands, BUNDLES, SETS, PLANES>(b, c, args, ctas, stream); \
    }

}  // namespace magicube::spmm::sm90
