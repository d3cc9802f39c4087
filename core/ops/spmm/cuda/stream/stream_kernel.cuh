// SPDX-License-Identifier: Apache-2.0
//
// SpMM for few columns, or few rows: A streams past rows of B that wait in shared memory.
//
// Computes  C = epilogue(A * B) for panels of 16 * Chunks columns, A packed as stream_format.hpp
//           says.
// Layout    a segment of B's rows lies in shared memory (stream_rows.cuh). A lane names one
//           gathered row; ldmatrix.trans brings a unit of each (stream_operands.cuh).
// Mapping   a CTA takes tiles of bundles, a tile segment by segment. All records of a tile's
//           segment are one run, of which each warp streams an equal part through a ring of its
//           own; the sums of a bundle that ends in its part, or goes on in the next warp's, are
//           left in shared memory. Then each warp adds up what was left for one or two bundles, in
//           the order of warps, so that results do not depend on chance. blockIdx.y is the matrix
//           of the batch, blockIdx.z the panel.
// Shared    (8 + segment) rows of B, the rings and the sums: shared_bytes(). Architecture sm_80 and
//           newer (e4m3: sm_89). Any alignment of B and C.
// Bound     the bytes of A over the device's memory bandwidth; with several panels those that come
//           from L2, of A for each panel and of a panel of B for each of its CTAs.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/ops/spmm/cuda/store.cuh"
#include "core/ops/spmm/cuda/stream/stream_operands.cuh"

namespace magicube::spmm::stream {

// A segment of one of the CTA's tiles.
struct work_unit {
    int32_t tile, segment;

    __device__ work_unit after(const stream_arguments& args) const {
        const bool finished = segment + 1 == args.segments;
        return {tile + finished, finished ? 0 : segment + 1};
    }
    __device__ const entry* entries(const stream_arguments& args, int64_t cta) const {
        return args.entries + ((cta * args.tiles_a_cta + tile) * args.segments + segment) *
                                  (args.tile_bundles + 1);
    }
};

// What of a unit's entries a lane reads, on its way while others work.
struct lane_entries {
    uint32_t start, stop;  // records of the bundle at place `lane`

    __device__ lane_entries(const stream_arguments& args, const entry* e, int lane) {
        start = e[min(lane, args.tile_bundles)].record;
        stop = e[min(lane + 1, args.tile_bundles)].record;
    }
};

// The records of a unit, and which part of them a warp streams.
struct record_run {
    uint32_t begin, end;    // of the warp
    uint32_t first, total;  // of all warps
    lane_entries bundles;

    __device__ record_run(const lane_entries& e, int warp)
        : record_run(e, {__shfl_sync(~0u, e.start, 0), __shfl_sync(~0u, e.stop, 31)}, warp) {}
    __device__ record_run(const lane_entries& e, first_run all, int warp)
        : first(all.begin), total(all.end - all.begin), bundles(e) {
        begin = first + boundary(warp);
        end = first + boundary(warp + 1);
    }
    __device__ uint32_t boundary(int warp) const {
        return static_cast<uint32_t>(uint64_t{total} * static_cast<uint32_t>(warp) / warps);
    }
    // The warp whose part holds a record of the run.
    __device__ int warp_of(uint32_t record) const {
        return static_cast<int>((uint64_t{record - first + 1} * warps - 1) / total);
    }
    // The place of a record's bundle in the tile.
    __device__ int place_of(uint32_t record) const {
        return __popc(__ballot_sync(~0u, bundles.stop <= record));
    }
    // The end of the records at a place.
    __device__ uint32_t stop_of(int place) const {
        return __shfl_sync(~0u, bundles.stop, place & 31);
    }
};

// A warp's records under way. Each is one group of copies, empty past the end of the run.
template <operand_kind Kind>
struct record_ring {
    uint32_t slots;

    __device__ __forceinline__ void copy(const stream_arguments& args, const record_run& run,
                                         uint32_t record, uint32_t slot, int lane) const {
        constexpr int value_units = record_value_bytes(Kind) / unit_bytes;
        constexpr int units = slot_bytes(Kind) / unit_bytes;
        const uint8_t* values = args.values + int64_t{record} * record_value_bytes(Kind);
        const uint8_t* indices = args.indices + int64_t{record} * record_index_bytes;
#pragma unroll
        for (int first = 0; first < units; first += 32) {
            const int unit = first + lane;
            const uint8_t* source = unit < value_units
                                        ? values + unit * unit_bytes
                                        : indices + (unit - value_units) * unit_bytes;
            if (record < run.end && unit < units)
                ptx::copy_async<unit_bytes>(slot + unit * unit_bytes, source);
        }
        ptx::commit_copies();
    }
    __device__ __forceinline__ void fill(const stream_arguments& args, const record_run& run,
                                         int lane) const {
#pragma unroll
        for (int i = 0; i < depth_of(Kind); ++i)
            copy(args, run, run.begin + i, slots + i * slot_bytes(Kind), lane);
    }
};

template <operand_kind Kind, int Chunks>
using sums_of = typename operands_of<Kind>::accumulator[Chunks][planes_of(Kind)][4];

// Leaves a warp's sums of a bundle in its entry and clears them.
template <operand_kind Kind, int Chunks>
__device__ __forceinline__ void leave(uint8_t* partials, int index, sums_of<Kind, Chunks>& acc,
                                      int lane) {
    auto* target = reinterpret_cast<int4*>(partials) + index * Chunks * planes_of(Kind) * 32 + lane;
#pragma unroll
    for (int c = 0; c < Chunks; ++c)
#pragma unroll
        for (int p = 0; p < planes_of(Kind); ++p) {
            int4 word;
            memcpy(&word, acc[c][p], sizeof(word));
            target[(c * planes_of(Kind) + p) * 32] = word;
#pragma unroll
            for (int i = 0; i < 4; ++i) acc[c][p][i] = 0;
        }
}

// A warp's part of a run. What place p leaves with warp w goes to index p + w, which grows along
// the run.
template <operand_kind Kind, int Chunks>
__device__ __forceinline__ void stream_run(const stream_arguments& args, const record_run& run,
                                           const record_ring<Kind>& ring, uint32_t rows,
                                           uint8_t* partials, int warp, int lane) {
    using operands = operands_of<Kind>;
    sums_of<Kind, Chunks> acc = {};
    if (run.begin >= run.end) return;
    int place = run.place_of(run.begin);
    uint32_t stop = min(run.stop_of(place), run.end);
    uint32_t slot = ring.slots;
    const uint32_t last_slot = ring.slots + (depth_of(Kind) - 1) * slot_bytes(Kind);
    for (uint32_t record = run.begin; record < run.end;) {
        ptx::wait_copies<depth_of(Kind) - 1>();
        typename operands::record r;
        __syncwarp();  // the other lanes' copies are there too
        operands::load(r, slot, lane);
        operands::template step<Chunks>(acc, rows, r);
        __syncwarp();  // all have read the slot
        ring.copy(args, run, record + depth_of(Kind), slot, lane);
        slot = slot == last_slot ? ring.slots : slot + slot_bytes(Kind);
        if (++record == stop) {
            leave<Kind, Chunks>(partials, place + warp, acc, lane);
            place = run.place_of(record);
            stop = min(run.stop_of(place), run.end);
        }
    }
}

// Sums over the segments, exact: planes of 16-bit integers are brought together, nibbles scaled
// back.
template <operand_kind Kind>
using total_of = std::conditional_t<is_integer_kind(Kind), int64_t, float>;

template <operand_kind Kind, int Chunks>
__device__ __forceinline__ void add_up(const record_run& run, const uint8_t* partials, int place,
                                       total_of<Kind> (&totals)[Chunks][4], int lane) {
    constexpr int planes = planes_of(Kind);
    using accumulator = typename operands_of<Kind>::accumulator;
    const uint32_t start = __shfl_sync(~0u, run.bundles.start, place);
    const uint32_t stop = run.stop_of(place);
    if (start == stop) return;
    const int last = run.warp_of(stop - 1);
    for (int w = run.warp_of(start); w <= last; ++w) {
        if (run.boundary(w) == run.boundary(w + 1)) continue;
        const auto* source =
            reinterpret_cast<const int4*>(partials) + (place + w) * Chunks * planes * 32 + lane;
#pragma unroll
        for (int c = 0; c < Chunks; ++c) {
            accumulator left[planes][4];
#pragma unroll
            for (int p = 0; p < planes; ++p) {
                const int4 word = source[(c * planes + p) * 32];
                memcpy(left[p], &word, sizeof(word));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                if constexpr (planes == 2) {
                    totals[c][i] += int64_t{left[0][i]} * 256 + left[1][i];
                } else if constexpr (Kind == operand_kind::s4) {
                    totals[c][i] += left[0][i] >> 4;
                } else {
                    totals[c][i] += left[0][i];
                }
            }
        }
    }
}

template <class Storage, operand_kind Kind, int Chunks>
__device__ __forceinline__ void store_as(const cuda::store_arguments& s, int64_t batch, int64_t row,
                                         int64_t column,
                                         const total_of<Kind> (&totals)[Chunks][4]) {
    using operands = operands_of<Kind>;
    const int lane = threadIdx.x & 31;
    cuda::store_squares<Storage, Chunks, 16, total_of<Kind>>(
        s, batch, row + lane % 4 * 2, column + operands::first_column(lane),
        [&](int c, total_of<Kind>(&sums)[2][2]) { operands::arrange(totals[c], sums); });
}

template <operand_kind Kind, int Chunks>
__device__ __forceinline__ void store_totals(const cuda::store_arguments& s, int64_t batch,
                                             int64_t row, int64_t column,
                                             const total_of<Kind> (&totals)[Chunks][4]) {
    switch (s.type) {
        case dtype::int32:
            if constexpr (is_integer_kind(Kind))
                store_as<int32_t, Kind, Chunks>(s, batch, row, column, totals);
            break;
        case dtype::fp16:
            store_as<half, Kind, Chunks>(s, batch, row, column, totals);
            break;
        case dtype::bf16:
            store_as<bfloat16, Kind, Chunks>(s, batch, row, column, totals);
            break;
        case dtype::int8:
            store_as<int8_t, Kind, Chunks>(s, batch, row, column, totals);
            break;
        default:
            store_as<float, Kind, Chunks>(s, batch, row, column, totals);
            break;
    }
}

// What the epilogue of a bundle reads by row is on its way to L2 while A streams.
__device__ __forceinline__ void prefetch_scales(const cuda::store_arguments& s, int64_t batch,
                                                int64_t row) {
    for (const scale_reader scales : {s.a_scale.at(batch), s.bias.at(batch)})
        if (scales.data && scales.step == 1) ptx::prefetch(scales.data + row);
}

// The bundles of the tile under way that a warp finishes: their numbers, and their sums over the
// segments so far.
template <operand_kind Kind, int Chunks>
struct own_bundles {
    static constexpr int count = bundles_a_warp(Chunks);
    int64_t batch;
    uint32_t first;  // bundle of the matrix
    int64_t column;  // first of the panel
    uint32_t numbers[count];
    total_of<Kind> totals[count][Chunks][4];

    __device__ __forceinline__ int64_t row(int i) const {
        return int64_t{numbers[i] - first} * bundle_rows;
    }
    __device__ __forceinline__ void read(const stream_arguments& args, const entry* e, int warp) {
#pragma unroll
        for (int i = 0; i < count; ++i)
            numbers[i] = e[min(warp + i * warps, args.tile_bundles)].bundle;
    }
    __device__ __forceinline__ void prefetch(const cuda::store_arguments& s) const {
#pragma unroll
        for (int i = 0; i < count; ++i)
            if (numbers[i] != no_bundle) prefetch_scales(s, batch, row(i));
    }
    __device__ __forceinline__ void add(const stream_arguments& args, const record_run& run,
                                        const uint8_t* partials, int warp, int lane) {
#pragma unroll
        for (int i = 0; i < count; ++i)
            if (warp + i * warps < args.tile_bundles)
                add_up<Kind, Chunks>(run, partials, warp + i * warps, totals[i], lane);
    }
    // Clears the sums too.
    __device__ __forceinline__ void store(const cuda::store_arguments& s) {
// Rolled, with moves, so that the code of the stores exists once.
#pragma unroll 1
        for (int i = 0; i < count; ++i) {
            if (numbers[0] != no_bundle)
                store_totals<Kind, Chunks>(s, batch, row(0), column, totals[0]);
            // Element by element: of a memcpy here nvcc 13.0 moved the first chunk alone.
            if constexpr (count == 2) {
                numbers[0] = numbers[1];
#pragma unroll
                for (int q = 0; q < Chunks * 4; ++q)
                    totals[0][q / 4][q % 4] = totals[1][q / 4][q % 4];
            }
        }
        memset(totals, 0, sizeof(totals));
    }
};

template <operand_kind Kind, int Chunks>
__global__ void __launch_bounds__(cta_threads, 1)
    stream_kernel(const __grid_constant__ stream_arguments args) {
    constexpr int units = units_of(Kind, Chunks);
    using copy_of_rows = row_copy<typename operands_of<Kind>::element, units>;
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 128);
    const uint32_t rows = ptx::shared_address(shared);
    const int row_area = (zero_rows + args.segment_rows) * units * unit_bytes;
    uint8_t* partials = shared + row_area + ring_bytes(Kind);
    const int lane = threadIdx.x & 31;
    const int warp = __shfl_sync(~0u, threadIdx.x >> 5, 0);
    const int64_t cta = int64_t{blockIdx.y} * args.ctas_apart + blockIdx.x;
    own_bundles<Kind, Chunks> own{blockIdx.y, args.ctas_apart == 0 ? 0 : args.bundles * blockIdx.y,
                                  int64_t{blockIdx.z} * Chunks * chunk_columns};

    // What a plan has fixed may be read while the kernel before still runs; B and C may not.
    ptx::launch_dependents();
    if (!args.fixed_values) ptx::wait_for_prerequisites();
    work_unit at{0, 0};
    const entry* e = at.entries(args, cta);
    const lane_entries first_entries(args, e, lane);
    record_run run = args.first_run_count > 0
                         ? record_run(first_entries, args.first_runs[cta], warp)
                         : record_run(first_entries, warp);
    const record_ring<Kind> ring{rows + row_area + warp * depth_of(Kind) * slot_bytes(Kind)};
    ring.fill(args, run, lane);
    ptx::wait_for_prerequisites();
    const copy_of_rows copy(args.b, own.batch, blockIdx.z, 0, args.segment_rows, shared);
    copy.start();
    if (threadIdx.x < zero_rows * units)
        reinterpret_cast<uint4*>(shared)[threadIdx.x] = make_uint4(0, 0, 0, 0);
    copy.finish();
    while (true) {
        const work_unit next = at.after(args);
        const bool more = next.tile < args.tiles_a_cta, last = at.segment + 1 == args.segments;
        const entry* next_e = more ? next.entries(args, cta) : e;
        const lane_entries next_entries(args, next_e, lane);
        own.read(args, e, warp);
        if (last && lane == 0) own.prefetch(args.store);
        __syncthreads();
        stream_run<Kind, Chunks>(args, run, ring, rows, partials, warp, lane);

        // What comes next is under way before the warps meet.
        const record_run next_run(next_entries, warp);
        if (more) ring.fill(args, next_run, lane);
        __syncthreads();
        const copy_of_rows next_copy(args.b, own.batch, blockIdx.z, next.segment, args.segment_rows,
                                     shared);
        const bool reload = more && next.segment != at.segment;
        if (reload) next_copy.start();
        own.add(args, run, partials, warp, lane);
        if (last) own.store(args.store);
        if (!more) break;
        if (reload) next_copy.finish();
        at = next;
        e = next_e;
        run = next_run;
    }
}

template <operand_kind Kind, int Chunks>
stream_kernel_info load(int shared_bytes) {
    const auto kernel = stream_kernel<Kind, Chunks>;
    cudaFuncAttributes attributes{};
    stream_kernel_info info{};
    info.code = cudaFuncGetAttributes(&attributes, kernel);
    if (info.code == cudaSuccess)
        info.code =
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    // Code that the driver made from PTX has what that PTX was compiled for.
    info.architecture = attributes.ptxVersion;
    return info;
}

template <operand_kind Kind, int Chunks>
cudaError_t launch(const stream_arguments& args, dim3 grid, cudaStream_t stream) {
    const auto bytes = static_cast<size_t>(shared_bytes(Kind, Chunks, args.segment_rows));
    return magicube::cuda::launch_kernel(stream_kernel<Kind, Chunks>,
                                         {grid, cta_threads, bytes, stream, args.overlaps}, args);
}

#define MAGICUBE_DEFINE_STREAM(KIND, CHUNKS)                                            \
    const stream_instance stream_##KIND##_##CHUNKS = {load<operand_kind::KIND, CHUNKS>, \
                                                      launch<operand_kind::KIND, CHUNKS>};
#define MAGICUBE_DEFINE_STREAMS(KIND) \
    MAGICUBE_DEFINE_STREAM(KIND, 1)   \
    MAGICUBE_DEFINE_STREAM(KIND, 2)   \
    MAGICUBE_DEFINE_STREAM(KIND, 4)

}  // namespace magicube::spmm::stream
