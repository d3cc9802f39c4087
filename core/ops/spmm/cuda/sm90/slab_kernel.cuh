// SPDX-License-Identifier: Apache-2.0
//
// SpMM on Hopper: slabs of B in a ring of shared-memory stages, gathered by ldmatrix, multiplied by
// mma.sync.
//
// Computes  C = epilogue(A * B) for bundles of 8 rows of A (packed as slab_format.hpp says) and
// column tiles
//           of a row-major B, 128 bytes wide.
// Layout    B's rows lie 128 bytes wide in shared memory, their 16-byte chunk c at c ^ (row % 8),
// which the
//           tensor copy writes by itself. The dense operand is the MMA's A (columns of B x gathered
//           rows), the sparse values its B (gathered rows x 8 rows of A), so that all of the MMA
//           works at V = 8. A lane names one gathered row; ldmatrix.trans brings 16 bytes of each.
//           For 8-bit types a register then holds 2 columns x 2 rows, and one prmt a register
//           finishes the transposition; the order of rows that this leaves is the order of the
//           packed values.
// Mapping   a persistent CTA takes tiles (batch, column tile, group); 16 consumer warps own
// `Bundles` bundles
//           each, one thread of the producer warpgroup fills stages, mbarriers order the two.
// Shared    3 stages of 75 KB. Architecture sm_90a. B's base and ld aligned to 16 bytes.
// Bound     ldmatrix: 512 bytes of shared memory for 32 x 16 bytes of B, at 128 bytes a clock an
// SM. Source    the vector-sparse format and its row-major strides: Magicube, SC'22; the staging is
// ours.
#pragma once

#include "core/device/cuda/ptx.cuh"
#include "core/ops/spmm/cuda/sm90/slab_launch.hpp"
#include "core/ops/spmm/cuda/store.cuh"

namespace magicube::spmm::sm90 {

// How a CTA walks over its tiles.
struct tile_walk {
    int64_t group;  // index into groups
    int64_t batch;
    int32_t column_tile;

    __device__ tile_walk(const slab_arguments& args, int64_t tile) {
        const int64_t line = tile / args.group_count;
        batch = line / args.column_tiles;
        column_tile = static_cast<int32_t>(line - batch * args.column_tiles);
        group = tile - line * args.group_count + batch * args.groups_apart;
    }
};

// Operands of 8 bits: an ldmatrix brings 16 columns of 32 gathered rows. UnsignedSets has bit s set
// if the values of set s are unsigned.
template <class Accumulator, int UnsignedSets>
struct byte_operands {
    using accumulator = Accumulator;
    using values = uint2;
    using rows = int;
    static constexpr int chunks = 8;
    static constexpr int chunk_columns = 16;
    static constexpr int set_bytes = 256;

    static __device__ __forceinline__ values load_values(uint32_t set, int lane) {
        return ptx::load_shared_v2(set + lane * 8);
    }
    static __device__ __forceinline__ rows load_rows(uint32_t list, int lane) {
        return ptx::load_shared_s16(list + lane * 2);
    }
    // First of the two columns that neighbours() gives, relative to the chunk's first.
    static __device__ __forceinline__ int first_column(int lane) { return lane / 4 * 2; }
    static __device__ __forceinline__ void neighbours(const Accumulator (&acc)[4],
                                                      Accumulator (&sums)[2][2]) {
#pragma unroll
        for (int q = 0; q < 4; ++q) sums[q & 1][q >> 1] = acc[q];
    }

    template <int Set>
    static __device__ __forceinline__ void multiply(Accumulator (&d)[4], const uint32_t (&a)[4],
                                                    values b) {
        if constexpr (std::is_same_v<Accumulator, float>) {
            ptx::mma_e4m3(d, a, b.x, b.y);
        } else if constexpr (UnsignedSets >> Set & 1) {
            ptx::mma_s8_u8(d, a, b.x, b.y);
        } else {
            ptx::mma_s8_s8(d, a, b.x, b.y);
        }
    }

    template <int Sets>
    static __device__ __forceinline__ void step(Accumulator (&acc)[Sets][chunks][4], uint32_t stage,
                                                uint32_t previous, rows row,
                                                const values (&v)[Sets]) {
        const uint32_t base = stage + row * row_bytes + (row < 0 ? previous : 0u);
        const uint32_t swizzle = (row & 7) << 4;
        uint32_t q[chunks][4];
#pragma unroll
        for (int c = 0; c < chunks; ++c)
            ptx::load_matrices_transposed(q[c], base + ((c * 16) ^ swizzle));
#pragma unroll
        for (int c = 0; c < chunks; ++c) {
            const uint32_t a[4] = {
                __byte_perm(q[c][0], q[c][1], 0x6420), __byte_perm(q[c][0], q[c][1], 0x7531),
                __byte_perm(q[c][2], q[c][3], 0x6420), __byte_perm(q[c][2], q[c][3], 0x7531)};
            multiply<0>(acc[0][c], a, v[0]);
            if constexpr (Sets > 1) multiply<1>(acc[1][c], a, v[1]);
        }
    }
};

// Operands of 16 bits: a step is two MMAs deep, and an ldmatrix brings 16 columns of 16 gathered
// rows.
template <bool Bf16>
struct half_operands {
    using accumulator = float;
    using values = uint4;
    using rows = int2;
    static constexpr int chunks = 4;
    static constexpr int chunk_columns = 16;
    static constexpr int set_bytes = 512;

    static __device__ __forceinline__ values load_values(uint32_t set, int lane) {
        return ptx::load_shared_v4(set + lane * 16);
    }
    static __device__ __forceinline__ rows load_rows(uint32_t list, int lane) {
        const int slot = lane / 16 * 8 + lane % 8;
        return make_int2(ptx::load_shared_s16(list + slot * 2),
                         ptx::load_shared_s16(list + slot * 2 + 32));
    }
    // The MMA leaves columns g and g + 8 in lane g; lanes of even and odd g exchange one, so that
    // each has two neighbours.
    static __device__ __forceinline__ int first_column(int lane) {
        const int g = lane / 4;
        return g % 2 == 0 ? g : g + 7;
    }
    static __device__ __forceinline__ void neighbours(const float (&acc)[4], float (&sums)[2][2]) {
        const bool odd = threadIdx.x & 4;
#pragma unroll
        for (int a = 0; a < 2; ++a) {
            const float received = __shfl_xor_sync(~0u, odd ? acc[a] : acc[a + 2], 4);
            sums[a][0] = odd ? received : acc[a];
            sums[a][1] = odd ? acc[a + 2] : received;
        }
    }

    static __device__ __forceinline__ void multiply(float (&d)[4], const uint32_t (&a)[4],
                                                    uint32_t b0, uint32_t b1) {
        if constexpr (Bf16) {
            ptx::mma_bf16(d, a, b0, b1);
        } else {
            ptx::mma_fp16(d, a, b0, b1);
        }
    }

    template <int Sets>
    static __device__ __forceinline__ void step(float (&acc)[Sets][chunks][4], uint32_t stage,
                                                uint32_t previous, rows row,
                                                const values (&v)[Sets]) {
        const uint32_t half = (threadIdx.x & 8) << 1;  // 8 columns further for odd matrices
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const int r = h == 0 ? row.x : row.y;
            const uint32_t base = stage + r * row_bytes + (r < 0 ? previous : 0u);
            const uint32_t swizzle = (r & 7) << 4;
            uint32_t a[chunks][4];
#pragma unroll
            for (int c = 0; c < chunks; ++c)
                ptx::load_matrices_transposed(a[c], base + ((c * 32 + half) ^ swizzle));
#pragma unroll
            for (int c = 0; c < chunks; ++c)
#pragma unroll
                for (int s = 0; s < Sets; ++s)
                    multiply(acc[s][c], a[c], h == 0 ? v[s].x : v[s].z, h == 0 ? v[s].y : v[s].w);
        }
    }
};

// Fills the stages of all of this CTA's tiles.
__device__ inline void produce(const slab_arguments& args, const CUtensorMap* map, int columns,
                               uint32_t stages, uint32_t full, uint32_t empty) {
    int stage = 0;
    uint32_t parity = 1;
    for (int64_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
        const tile_walk at(args, tile);
        const slab_group group = args.groups[at.group];
        const int x = at.column_tile * columns;
        const int z = args.b_batched ? static_cast<int>(at.batch) : 0;
        uint32_t begin = args.offsets[group.first_slab];
        for (uint32_t slab = 0; slab < group.slab_count; ++slab) {
            const uint32_t end = args.offsets[group.first_slab + slab + 1];
            ptx::barrier_wait(empty + 8 * stage, parity);
            const uint32_t target = stages + stage * stage_bytes + zero_rows * row_bytes;
            const uint32_t b_bytes = group.slab_rows * row_bytes;
            const uint32_t a_bytes = (end - begin) * 16;
            ptx::barrier_expect(full + 8 * stage, b_bytes + a_bytes);
            ptx::copy_bulk(target + b_bytes, args.records + int64_t{begin} * 16, a_bytes,
                           full + 8 * stage);
            for (uint32_t row = 0; row < group.slab_rows; row += box_rows)
                ptx::copy_tile(target + row * row_bytes, map, x,
                               static_cast<int>(slab * group.slab_rows + row), z, full + 8 * stage);
            begin = end;
            if (++stage == stage_count) {
                stage = 0;
                parity ^= 1;
            }
        }
    }
}

// The sums of a bundle in the squares that store.cuh takes. Plane sets are recombined, row sets are
// 8 rows apart.
template <class Storage, class Operands, int Sets, bool Planes>
__device__ __forceinline__ void store_bundle(
    const cuda::store_arguments& s, int64_t batch, int64_t row, int64_t column,
    const typename Operands::accumulator (&acc)[Sets][Operands::chunks][4]) {
    const int lane = threadIdx.x & 31;
    using accumulator = typename Operands::accumulator;
    using sum = std::conditional_t<Planes, int64_t, accumulator>;
#pragma unroll
    for (int set = 0; set < (Planes ? 1 : Sets); ++set) {
        cuda::store_squares<Storage, Operands::chunks, Operands::chunk_columns, sum>(
            s, batch, row + set * 8 + lane % 4 * 2, column + Operands::first_column(lane),
            [&](int c, sum(&sums)[2][2]) {
                if constexpr (Planes) {
#pragma unroll
                    for (int q = 0; q < 4; ++q)
                        sums[q & 1][q >> 1] = int64_t{acc[0][c][q]} * 256 + acc[1][c][q];
                } else {
                    Operands::neighbours(acc[set][c], sums);
                }
            });
    }
}

template <class Operands, int Sets, bool Planes>
__device__ __forceinline__ void store_bundle(
    const cuda::store_arguments& s, int64_t batch, int64_t row, int64_t column,
    const typename Operands::accumulator (&acc)[Sets][Operands::chunks][4]) {
    switch (s.type) {
        case dtype::int32:
            if constexpr (std::is_same_v<typename Operands::accumulator, int32_t>)
                store_bundle<int32_t, Operands, Sets, Planes>(s, batch, row, column, acc);
            break;
        case dtype::fp16:
            store_bundle<half, Operands, Sets, Planes>(s, batch, row, column, acc);
            break;
        case dtype::bf16:
            store_bundle<bfloat16, Operands, Sets, Planes>(s, batch, row, column, acc);
            break;
        case dtype::int8:
            store_bundle<int8_t, Operands, Sets, Planes>(s, batch, row, column, acc);
            break;
        default:
            store_bundle<float, Operands, Sets, Planes>(s, batch, row, column, acc);
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

template <class Operands, int Bundles, int Sets, bool Planes>
__global__ void __launch_bounds__((consumer_warps + producer_warps) * 32, 1)
    slab_kernel(const __grid_constant__ CUtensorMap map,
                const __grid_constant__ slab_arguments args) {
// Compiled for sm_90a alone; the implementation declines other devices.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    using accumulator = typename Operands::accumulator;
    constexpr int columns = Operands::chunks * Operands::chunk_columns;
    constexpr int record_bytes = Sets * Operands::set_bytes + step_slots * 2;
    extern __shared__ uint8_t shared[];
    __shared__ __align__(8) uint64_t barriers[2 * stage_count];
    const uint32_t stages = (ptx::shared_address(shared) + 1023) & ~1023u;
    const uint32_t full = ptx::shared_address(barriers);
    const uint32_t empty = full + 8 * stage_count;
    const int lane = threadIdx.x & 31;
    const int warp = __shfl_sync(~0u, threadIdx.x >> 5, 0);

    if (threadIdx.x == 0) {
        for (int i = 0; i < stage_count; ++i) {
            ptx::barrier_init(full + 8 * i, 1);
            ptx::barrier_init(empty + 8 * i, consumer_warps);
        }
        ptx::fence_barrier_init();
    }
    for (int i = threadIdx.x; i < stage_count * zero_rows * row_bytes / 16; i += blockDim.x) {
        const int per_stage = zero_rows * row_bytes / 16;
        ptx::store_shared_zero16(stages + i / per_stage * stage_bytes + i % per_stage * 16);
    }
    __syncthreads();

    if (warp >= consumer_warps) {
        ptx::give_registers<24>();
        if (warp == consumer_warps && lane == 0) produce(args, &map, columns, stages, full, empty);
        return;
    }
    ptx::take_registers<112>();
    int stage = 0;
    uint32_t parity = 0;
    for (int64_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
        const tile_walk at(args, tile);
        const slab_group group = args.groups[at.group];
        accumulator acc[Bundles][Sets][Operands::chunks][4] = {};
        for (uint32_t slab = 0; slab < group.slab_count; ++slab) {
            ptx::barrier_wait(full + 8 * stage, parity);
            const uint32_t base = stages + stage * stage_bytes;
            const uint32_t part = base + (zero_rows + group.slab_rows) * row_bytes;
            const uint2 header = ptx::load_shared_v2(part + warp * 8);
            // From an address one stage's rows before this stage's start to where those rows are.
            const uint32_t previous =
                (stage == 0 ? (stage_count - 1) * stage_bytes : -stage_bytes) +
                group.slab_rows * row_bytes + zero_rows * row_bytes;
            uint32_t record = part + header.x;
            auto row = Operands::load_rows(record + Sets * Operands::set_bytes, lane);
#pragma unroll
            for (int bundle = 0; bundle < Bundles; ++bundle) {
                const int steps = header.y >> (16 * bundle) & 0xffff;
                for (int i = 0; i < steps; ++i) {
                    typename Operands::values v[Sets];
#pragma unroll
                    for (int s = 0; s < Sets; ++s)
                        v[s] = Operands::load_values(record + s * Operands::set_bytes, lane);
                    record += record_bytes;
                    const auto next =
                        Operands::load_rows(record + Sets * Operands::set_bytes, lane);
                    Operands::step(acc[bundle], base, previous, row, v);
                    row = next;
                }
            }
            // The stage before is needed no longer; the last of a tile is not read from the next.
            __syncwarp();
            if (lane == 0) {
                if (slab > 0)
                    ptx::barrier_arrive(empty + 8 * (stage == 0 ? stage_count - 1 : stage - 1));
                if (slab + 1 == group.slab_count) ptx::barrier_arrive(empty + 8 * stage);
            }
            __syncwarp();
            if (++stage == stage_count) {
                stage = 0;
                parity ^= 1;
            }
        }
// Rolled, with moves, so that the code of the stores exists once.
#pragma unroll 1
        for (int bundle = 0; bundle < Bundles; ++bundle) {
            const int64_t row =
                args.bundle_rows[(at.group * consumer_warps + warp) * Bundles + bundle];
            const int64_t column = int64_t{at.column_tile} * columns;
            if (row >= 0)
                store_bundle<Operands, Sets, Planes>(args.store, at.batch, row, column, acc[0]);
#pragma unroll
            for (int next = 1; next < Bundles; ++next) copy_sums(acc[next - 1], acc[next]);
        }
    }
#endif
}

using s8_operands = byte_operands<int32_t, 0>;
using u8_operands = byte_operands<int32_t, 3>;
using s8u8_operands = byte_operands<int32_t, 2>;
using e4m3_operands = byte_operands<float, 0>;
using fp16_operands = half_operands<false>;
using bf16_operands = half_operands<true>;

template <class Operands, int Bundles, int Sets, bool Planes>
cudaError_t launch_slab(const CUtensorMap& map, const slab_arguments& args, int ctas,
                        cudaStream_t stream) {
    const auto kernel = slab_kernel<Operands, Bundles, Sets, Planes>;
    const cudaError_t code =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (code != cudaSuccess) return code;
    kernel<<<ctas, (consumer_warps + producer_warps) * 32, shared_bytes, stream>>>(map, args);
    return cudaGetLastError();
}

#define MAGICUBE_DEFINE_SLAB_LAUNCH(OPERANDS, BUNDLES, SETS, PLANES)                             \
    cudaError_t launch_slab_##OPERANDS##_##BUNDLES##_##SETS(                                     \
        const CUtensorMap& map, const slab_arguments& args, int ctas, cudaStream_t stream) {     \
        return launch_slab<OPERANDS##_operands, BUNDLES, SETS, PLANES>(map, args, ctas, stream); \
    }

}  // namespace magicube::spmm::sm90
