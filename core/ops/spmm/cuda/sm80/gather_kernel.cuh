// SPDX-License-Identifier: Apache-2.0
//
// SpMM on Tensor Cores since sm_80: each warp gathers rows of B from global memory.
//
// Computes  C = epilogue(A * B), A in the public SR-BCRS layout, so that values may come with each
//           call.
// Layout    a stage holds one step: 32 gathered rows of B (64 of int4), 128 bytes wide, their
//           16-byte chunks swizzled as gather_operands.cuh says; then the values of the step.
// Mapping   a warp owns a bundle (8 * Sets rows of A) of a tile 128 bytes of columns wide, and a
//           ring of stages that only it fills and reads, so that warps never wait for one another.
// Shared    2 or 3 stages of 4 KB (int4: 8 KB) and values a warp, 60 to 80 KB a CTA, so that also
//           GPUs with 99 KB hold one. Architecture sm_80, e4m3 sm_89. B's rows aligned to 16 bytes.
// Bound     128 bytes of B a slot and tile from L2, which gives a multiprocessor of Hopper at most
//           37 bytes a clock. (Tried: rows of B that several warps of a CTA want through L1, the
//           warps in step or not; no faster, for an asynchronous copy costs the same from there.)
// Source    the vector-sparse format and its row-major strides: Magicube, SC'22.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/ops/spmm/cuda/sm80/gather_operands.cuh"
#include "core/ops/spmm/cuda/sm80/gather_slots.cuh"
#include "core/ops/spmm/cuda/store.cuh"

namespace magicube::spmm::sm80 {

// The constants of an instance.
template <class Operands, int Sets>
struct gather_traits {
    using walk = slot_walk<Operands::value_bits, Sets, Operands::slots>;
    static constexpr int tile_columns = Operands::chunks * Operands::chunk_columns;
    static constexpr int accumulators = Sets * Operands::planes * Operands::chunks * 4;
    static constexpr int sums = Sets * Operands::parts * Operands::chunks * 4;
    // Where many sums and values leave room for few warps, each has more stages under way.
    static constexpr bool few_warps = accumulators > 64 || Sets > 2;
    static constexpr int warps = few_warps || Operands::slots > 32 ? 4 : 8;
    static constexpr int stages = few_warps && Operands::slots == 32 ? 3 : 2;
    static constexpr int stage_bytes = Operands::slots * row_bytes + walk::step_bytes;
    static constexpr int ring_bytes = stages * stage_bytes;
    static constexpr int shared_bytes = warps * ring_bytes;
    static constexpr int ctas = 2;
};

// What copy_async16 does, of bytes anywhere. Operands of 8 and 16 bits come aligned.
__device__ inline void copy_unaligned(uint32_t target, const uint8_t* source, uint32_t bytes) {
    for (uint32_t word = 0; word < 4; ++word) {
        uint32_t value = 0;
        for (uint32_t i = 0; i < 4; ++i)
            if (word * 4 + i < bytes) value |= uint32_t{source[word * 4 + i]} << (8 * i);
        ptx::store_shared_u32(target + word * 4, value);
    }
}

// Starts to fill a stage with the rows of B and the values of a prepared step.
template <class Operands, int Sets>
__device__ __forceinline__ void fill_stage(const typename gather_traits<Operands, Sets>::walk& walk,
                                           int step, const uint8_t* b, int64_t pitch, bool aligned,
                                           uint32_t bytes, uint32_t stage) {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < Operands::slots / 4; ++i) {
        const int slot = i * 4 + lane / 8;
        const int column = walk.column(slot);
        const bool real = column >= 0;
        const uint32_t chunk = (lane % 8 ^ Operands::swizzle(slot)) * 16;
        const uint8_t* source = b + (real ? column * pitch : 0);
        const uint32_t target = stage + slot * row_bytes + chunk;
        if (Operands::value_bits > 4 || aligned) {
            ptx::copy_async16(target, source, real ? bytes : 0);
        } else {
            copy_unaligned(target, source, real ? bytes : 0);
        }
    }
    walk.bring(step, stage + Operands::slots * row_bytes);
}

// Adds the sums of a warp to its 64-bit ones, or starts those.
template <class Operands, int Sets>
__device__ void fold(accumulators<Sets, Operands::planes, Operands::chunks, int32_t>& acc,
                     int64_t* totals, bool first) {
    constexpr int sums = gather_traits<Operands, 1>::sums;
#pragma unroll
    for (int i = 0; i < Sets * sums; ++i) {
        const int part = i % sums / (Operands::chunks * 4), c = i / 4 % Operands::chunks;
        const int64_t sum = Operands::template sum<int64_t>(acc[i / sums], part, c, i % 4);
        totals[i * 32] = first ? sum : totals[i * 32] + sum;
    }
#pragma unroll
    for (int i = 0; i < Sets * Operands::planes * Operands::chunks * 4; ++i)
        (&acc[0][0][0][0])[i] = 0;
}

// Multiplies all steps of a bundle. Returns whether sums were folded.
template <class Operands, int Sets>
__device__ __forceinline__ bool multiply_bundle(
    const gather_arguments& args, const tile_place& at, uint32_t ring, int64_t* totals,
    accumulators<Sets, Operands::planes, Operands::chunks, typename Operands::accumulator>& acc) {
    using traits = gather_traits<Operands, Sets>;
    const int lane = threadIdx.x & 31;
    const int64_t offset = at.column_tile * row_bytes + lane % 8 * 16;
    const auto bytes =
        static_cast<uint32_t>(max(int64_t{0}, min(int64_t{16}, args.row_bytes - offset)));
    const uint8_t* b = args.b + at.batch * args.apart + (bytes == 0 ? 0 : offset);
    typename traits::walk walk(args, at.batch, at.bundle);
    const int steps = walk.steps();
    const uint32_t own_values =
        Operands::slots * row_bytes + walk.lane_offset(lane / 4, lane % 4 * Operands::value_slots);
    const uint32_t set_offset = 8 * walk.row_offset();
    bool folded = false;
    walk.prepare(0);
    for (int step = 0; step < traits::stages - 1; ++step) {
        if (step < steps)
            fill_stage<Operands, Sets>(walk, step, b, args.pitch, args.aligned, bytes,
                                       ring + step * traits::stage_bytes);
        ptx::commit_copies();
        walk.prepare(step + 1);
    }
    int stage = 0, next_stage = traits::stages - 1;
    for (int step = 0; step < steps; ++step) {
        ptx::wait_copies<traits::stages - 2>();
        // This stage has arrived for all lanes, and all have read the one to be filled.
        __syncwarp();
        const int next = step + traits::stages - 1;
        if (next < steps) {
            fill_stage<Operands, Sets>(walk, next, b, args.pitch, args.aligned, bytes,
                                       ring + next_stage * traits::stage_bytes);
            walk.prepare(next + 1);
        }
        ptx::commit_copies();
        const uint32_t rows = ring + stage * traits::stage_bytes;
        if constexpr (Operands::floating) {
            walk.clear_padding(step, rows + Operands::slots * row_bytes);
            __syncwarp();
        }
        Operands::template step<Sets>(acc, rows, rows + own_values, set_offset);
        if constexpr (!Operands::floating) {
            if (totals && (step + 1) % fold_steps == 0) {
                fold<Operands, Sets>(acc, totals, !folded);
                folded = true;
            }
        }
        if (++stage == traits::stages) stage = 0;
        if (++next_stage == traits::stages) next_stage = 0;
    }
    __syncwarp();
    return folded;
}

// The squares of 8 rows, kept in the warp's ring, each lane's own, so that the code of the stores
// can loop over them and stays small.
template <class Operands>
struct kept_squares {
    using sum = std::conditional_t<Operands::floating, float, int64_t>;
    static constexpr int count = Operands::parts * Operands::chunks;
    static constexpr int bytes = count * 4 * 32 * sizeof(sum);

    sum* own;

    // `totals`, if not null, are added.
    __device__ __forceinline__ void keep(
        const typename Operands::accumulator (&acc)[Operands::planes][Operands::chunks][4],
        const int64_t* totals) const {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            sum four[4], square[2][2];
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                four[q] =
                    Operands::template sum<sum>(acc, i / Operands::chunks, i % Operands::chunks, q);
                if constexpr (!Operands::floating)
                    if (totals) four[q] += totals[(i * 4 + q) * 32];
            }
            Operands::arrange(four, square);
#pragma unroll
            for (int q = 0; q < 4; ++q) own[(i * 4 + q) * 32] = square[q >> 1][q & 1];
        }
    }

    template <class Storage>
    __device__ __forceinline__ void store(const cuda::store_arguments& s, int64_t batch,
                                          int64_t row, int64_t column) const {
        constexpr int at_once = 4;
        const int lane = threadIdx.x & 31;
#pragma unroll 1
        for (int i = 0; i < count; i += at_once) {
            const int part = i / Operands::chunks, chunk = i % Operands::chunks;
            cuda::store_squares<Storage, at_once, Operands::chunk_columns, sum>(
                s, batch, row + lane % 4 * 2,
                column + chunk * Operands::chunk_columns + Operands::first_column(lane, part),
                [&](int c, sum(&square)[2][2]) {
#pragma unroll
                    for (int q = 0; q < 4; ++q) square[q >> 1][q & 1] = own[((i + c) * 4 + q) * 32];
                });
        }
    }

    __device__ __forceinline__ void store_as(const cuda::store_arguments& s, int64_t batch,
                                             int64_t row, int64_t column) const {
        switch (s.type) {
            case dtype::int32:
                if constexpr (!Operands::floating) store<int32_t>(s, batch, row, column);
                break;
            case dtype::fp16:
                store<half>(s, batch, row, column);
                break;
            case dtype::bf16:
                store<bfloat16>(s, batch, row, column);
                break;
            case dtype::int8:
                store<int8_t>(s, batch, row, column);
                break;
            default:
                store<float>(s, batch, row, column);
                break;
        }
    }
};

template <class Operands, int Sets>
__global__ void __launch_bounds__((gather_traits<Operands, Sets>::warps * 32),
                                  (gather_traits<Operands, Sets>::ctas))
    gather_kernel(const __grid_constant__ gather_arguments args) {
// Older architectures lack the instruction of some operands; the implementation declines them.
#if defined(__CUDA_ARCH__)
    constexpr int lowest = std::is_same_v<Operands, e4m3_operands> ? 890 : 800;
    constexpr int highest = std::is_same_v<Operands, s4_operands> ? 900 : 99999;
    if constexpr (__CUDA_ARCH__ >= lowest && __CUDA_ARCH__ <= highest) {
        using traits = gather_traits<Operands, Sets>;
        MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 128);
        const int warp = threadIdx.x >> 5;
        uint8_t* own_shared = shared + warp * traits::ring_bytes;
        const uint32_t ring = ptx::shared_address(own_shared);
        using squares = kept_squares<Operands>;
        static_assert(squares::bytes <= traits::ring_bytes);
        const squares kept{reinterpret_cast<typename squares::sum*>(own_shared) +
                           (threadIdx.x & 31)};
        for (int64_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
            const tile_place at(args, tile, traits::warps);
            if (at.bundle >= args.bundles) continue;
            typename Operands::accumulator acc[Sets][Operands::planes][Operands::chunks][4] = {};
            int64_t* totals =
                args.totals ? args.totals +
                                  (int64_t{blockIdx.x} * traits::warps + warp) * traits::sums * 32 +
                                  (threadIdx.x & 31)
                            : nullptr;
            if (!multiply_bundle<Operands, Sets>(args, at, ring, totals, acc)) totals = nullptr;
// Rolled, with moves, so that the code of the stores exists once.
#pragma unroll 1
            for (int set = 0; set < Sets; ++set) {
                kept.keep(acc[0], totals);
                kept.store_as(args.store, at.batch, (at.bundle * Sets + set) * 8,
                              at.column_tile * traits::tile_columns);
                if (totals) totals += traits::sums / Sets * 32;
#pragma unroll
                for (int i = 0; i < (Sets - 1) * Operands::planes * Operands::chunks * 4; ++i) {
                    auto* sums = &acc[0][0][0][0];
                    sums[i] = sums[i + Operands::planes * Operands::chunks * 4];
                }
            }
            __syncwarp();
        }
    }
#endif
}

template <class Operands, int Sets>
gather_kernel_info describe_gather() {
    using traits = gather_traits<Operands, Sets>;
    const auto kernel = gather_kernel<Operands, Sets>;
    gather_kernel_info info{};
    cudaFuncAttributes attributes{};
    info.code = cudaFuncGetAttributes(&attributes, kernel);
    if (info.code == cudaSuccess)
        info.code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         traits::shared_bytes);
    if (info.code == cudaSuccess)
        info.code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &info.ctas, kernel, traits::warps * 32, traits::shared_bytes);
    // Code that the driver made from PTX has what that PTX was compiled for.
    info.architecture = attributes.ptxVersion;
    return info;
}

template <class Operands, int Sets>
cudaError_t launch_gather(const gather_arguments& args, int64_t ctas, cudaStream_t stream) {
    using traits = gather_traits<Operands, Sets>;
    magicube::cuda::launch_kernel(
        gather_kernel<Operands, Sets>,
        {static_cast<unsigned>(ctas), traits::warps * 32, traits::shared_bytes, stream}, args);
    return cudaGetLastError();
}

#define MAGICUBE_DEFINE_GATHER(OPERANDS, SETS)                   \
    const gather_instance gather_##OPERANDS##_##SETS = {         \
        #OPERANDS,                                               \
        {gather_traits<OPERANDS##_operands, SETS>::warps, SETS,  \
         gather_traits<OPERANDS##_operands, SETS>::tile_columns, \
         gather_traits<OPERANDS##_operands, SETS>::sums},        \
        describe_gather<OPERANDS##_operands, SETS>,              \
        launch_gather<OPERANDS##_operands, SETS>};

}  // namespace magicube::spmm::sm80
