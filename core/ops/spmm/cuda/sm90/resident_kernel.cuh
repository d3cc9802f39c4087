// SPDX-License-Identifier: Apache-2.0
//
// SpMM on Hopper for few rows of B: all of a column tile of B stays in shared memory.
//
// Computes  C = epilogue(A * B) for bundles of rows of A (packed as slab_format.hpp says, all of K
//           one slab) and column tiles of a row-major B, 128 bytes wide.
// Layout    as in the slab kernel, but each warp has a ring of records of its own, which it fills
//           by cp.async, a record for each that it has used.
// Mapping   a persistent CTA takes tiles (column tile, group) next to each other; each of its 16
//           warps owns one bundle of a group and goes from group to group without waiting for the
//           others, so that one warp's gathers overlap with another's stores. All wait where the
//           column tile changes.
// Shared    227 KB (fits_resident). Architecture sm_90a. B's base and ld aligned to 16 bytes.
// Bound     C's bytes for int32; else ldmatrix, as in the slab kernel.
// Source    the vector-sparse format: Magicube, SC'22; the staging is ours.
#pragma once

#include "core/ops/spmm/cuda/sm90/slab_kernel.cuh"

namespace magicube::spmm::sm90 {

// The runs of records that a warp needs, tile after tile. The next one's place is read early.
class run_walk {
  public:
    __device__ run_walk(const slab_arguments& args, int warp)
        : args_(args), warp_(warp), tile_(args), ahead_(args) {
        next_ = read();
        current_ = next_;
        ahead_.advance();
        next_ = read();
    }

    __device__ bool inside() const { return tile_.inside(); }
    __device__ const tile_walk& tile() const { return tile_; }
    __device__ const uint8_t* records() const { return current_.records; }
    __device__ uint32_t steps() const { return current_.steps; }
    __device__ void advance() {
        tile_.advance();
        current_ = next_;
        ahead_.advance();
        next_ = read();
    }

  private:
    struct run {
        const uint8_t* records;
        uint32_t steps;
    };

    __device__ run read() const {
        if (!ahead_.inside()) return {nullptr, 0};
        const uint8_t* part = args_.records + int64_t{args_.parts[ahead_.group()].begin} * 16;
        const uint2 header = reinterpret_cast<const uint2*>(part)[warp_];
        return {part + header.x, header.y};
    }

    const slab_arguments& args_;
    int warp_;
    tile_walk tile_, ahead_;
    run current_, next_;
};

// A warp's records under way, each one group of copies; empty groups past the last.
template <int RecordBytes>
class record_feed {
  public:
    static constexpr int depth = resident_depth(RecordBytes);

    __device__ record_feed(const slab_arguments& args, int warp, uint32_t begin)
        : runs_(args, warp), begin_(begin) {
        left_ = runs_.inside() ? runs_.steps() : 0;
        source_ = runs_.records();
    }

    __device__ __forceinline__ void fetch(uint32_t slot, int lane) {
        constexpr int units = RecordBytes / 16;
        while (left_ == 0 && runs_.inside()) {
            runs_.advance();
            left_ = runs_.inside() ? runs_.steps() : 0;
            source_ = runs_.records();
        }
        if (left_ > 0) {
#pragma unroll
            for (int first = 0; first < units; first += 32)
                if (first + lane < units)
                    ptx::copy_async<16>(slot + (first + lane) * 16, source_ + (first + lane) * 16);
            source_ += RecordBytes;
            --left_;
        }
        ptx::commit_copies();
    }
    __device__ __forceinline__ void start(int lane) {
        for (int i = 0; i < depth; ++i) fetch(begin_ + i * RecordBytes, lane);
    }
    __device__ __forceinline__ uint32_t begin() const {
        return begin_;
    }
    __device__ __forceinline__ uint32_t after(uint32_t slot) const {
        return slot == begin_ + (depth - 1) * RecordBytes ? begin_ : slot + RecordBytes;
    }

  private:
    run_walk runs_;
    uint32_t begin_;
    const uint8_t* source_;
    uint32_t left_;
};

// Starts the copy of a column tile of B; one thread.
template <class Operands>
__device__ __forceinline__ void load_b(const slab_arguments& args, const CUtensorMap* map,
                                       const tile_walk& tile, uint32_t rows, uint32_t full) {
    const slab_geometry& g = args.geometry;
    const auto x = static_cast<int>(tile.column_tile() * Operands::columns);
    const auto z = static_cast<int>(args.b_batched ? tile.batch() : 0);
    ptx::barrier_expect(full, g.slab_rows * Operands::row_bytes);
    for (int row = 0; row < g.slab_rows; row += g.box_rows)
        ptx::copy_tile(rows + row * Operands::row_bytes, map, x, row, z, full);
}

template <class Operands, int Sets>
__global__ void __launch_bounds__(consumer_warps * 32, 1)
    resident_kernel(const __grid_constant__ CUtensorMap b_map,
                    const __grid_constant__ CUtensorMap c_map,
                    const __grid_constant__ slab_arguments args) {
// Compiled for sm_90a alone; the implementation declines other devices.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int record_bytes = Sets * Operands::set_bytes + step_slots * 2;
    using feed = record_feed<record_bytes>;
    using accumulator = typename Operands::accumulator;
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 16);
    __shared__ __align__(8) uint64_t barrier;
    const uint32_t full = ptx::shared_address(&barrier);
    const int warp = __shfl_sync(~0u, threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
    const uint32_t slots = (ptx::shared_address(shared) + 1023) & ~1023u;
    const uint32_t zeros = slots + consumer_warps * store_slots * store_slot_bytes;
    ring_view b;
    b.begin = b.base = zeros + zero_rows * widest_row_bytes;
    b.end = b.begin + args.geometry.slab_rows * Operands::row_bytes;
    if (threadIdx.x == 0) {
        ptx::barrier_init(full, 1);
        ptx::fence_barrier_init();
    }
    if (threadIdx.x < zero_rows * widest_row_bytes / 16)
        ptx::store_shared_zero16(zeros + threadIdx.x * 16);
    __syncthreads();
    ptx::wait_for_prerequisites();
    ptx::launch_dependents();

    tile_walk first(args);
    if (threadIdx.x == 0 && first.inside()) load_b<Operands>(args, &b_map, first, b.begin, full);
    feed records(args, warp, b.end + warp * feed::depth * record_bytes);
    records.start(lane);
    store_ring c_slots(slots + warp * store_slots * store_slot_bytes);
    uint32_t slot = records.begin(), parity = 0;
    uint32_t line = first.line(), batch = first.batch();
    ptx::barrier_wait(full, parity);
    ptx::wait_copies<feed::depth - 1>();
    __syncwarp();
    auto row = Operands::load_rows(slot + Sets * Operands::set_bytes, lane);
    for (run_walk run(args, warp); run.inside(); run.advance()) {
        if (run.tile().line() != line || run.tile().batch() != batch) {
            line = run.tile().line();
            batch = run.tile().batch();
            parity ^= 1;
            __syncthreads();  // nobody gathers from the old tile
            if (threadIdx.x == 0) load_b<Operands>(args, &b_map, run.tile(), b.begin, full);
            ptx::barrier_wait(full, parity);
            __syncwarp();
        }
        accumulator acc[Sets][Operands::chunks][4] = {};
        for (uint32_t left = run.steps(); left > 0; --left) {
            typename Operands::values v[Sets];
#pragma unroll
            for (int s = 0; s < Sets; ++s)
                v[s] = Operands::load_values(slot + s * Operands::set_bytes, lane);
            const uint32_t after = records.after(slot);
            ptx::wait_copies<feed::depth - 2>();
            __syncwarp();  // the other lanes' copies are there too
            // Past the last record, and not used there.
            const auto next = Operands::load_rows(after + Sets * Operands::set_bytes, lane);
            Operands::step(acc, b, row, v);
            __syncwarp();  // all have read the slot
            records.fetch(slot, lane);
            row = next;
            slot = after;
        }
        const tile_walk& tile = run.tile();
        const int64_t first_row = args.bundle_rows[int64_t{tile.group()} * consumer_warps + warp];
        const int64_t column = int64_t{tile.column_tile()} * Operands::columns;
        if (first_row >= 0)
            store_bundle<Operands, Sets, false>(args, &c_map, c_slots,
                                                {tile.batch(), first_row, column}, acc);
    }
    if (lane == 0) ptx::wait_bulk_reads<0>();  // shared memory goes with the CTA
    ptx::wait_copies<0>();
#endif
}

template <class Operands, int Sets>
cudaError_t load_resident() {
    return cudaFuncSetAttribute(resident_kernel<Operands, Sets>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

template <class Operands, int Sets>
cudaError_t launch_resident(const CUtensorMap& b, const CUtensorMap& c, const slab_arguments& args,
                            int ctas, cudaStream_t stream) {
    const magicube::cuda::launch_shape shape{dim3(static_cast<unsigned>(ctas)), consumer_warps * 32,
                                             shared_bytes, stream, true};
    return magicube::cuda::launch_kernel(resident_kernel<Operands, Sets>, shape, b, c, args);
}

#define MAGICUBE_DEFINE_RESIDENT(OPERANDS, SETS)                                                \
    cudaError_t load_resident_##OPERANDS##_##SETS() {                                           \
        return load_resident<OPERANDS##_operands, SETS>();                                      \
    }                                                                                           \
    cudaError_t launch_resident_##OPERANDS##_##SETS(const CUtensorMap& b, const CUtensorMap& c, \
                                                    const slab_arguments& args, int ctas,       \
                                                    cudaStream_t stream) {                      \
        return launch_resident<OPERANDS##_operands, SETS>(b, c, args, ctas, stream);            \
    }

}  // namespace magicube::spmm::sm90
