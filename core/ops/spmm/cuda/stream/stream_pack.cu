// SPDX-License-Identifier: Apache-2.0
//
// Packs A for the stream kernel: counts, then places vectors, then fills in values.
//
// Computes  the records that stream_format.hpp describes, from the public SR-BCRS layout.
// Mapping   counting: a block of threads a bundle; placing: one an entry (a bundle's segment);
//           filling: one an entry, a thread a lane of a record, which gathers the lane's values.
//           The columns of a bundle's segment are a bitmap in shared memory, so that block rows are
//           merged without sorting; a column's rank within its residue class mod 8 decides on its
//           slot: rank j of class r takes slot 8 * j + r, and what is beyond the records' end fills
//           the holes of the last groups of 8.
// Shared    the bitmap and its 8 prefix sums: 17 bits a column. Any architecture.
// Bound     the latency of scattered reads.
#include <algorithm>

#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/scan.cuh"
#include "core/ops/spmm/cuda/pack_reads.cuh"
#include "core/ops/spmm/cuda/stream/stream_pack.hpp"

namespace magicube::spmm::stream {
namespace {

constexpr int pack_threads = 256;  // a warp for each residue class
constexpr int most_parts = 8;
constexpr uint32_t residue_mask = 0x01010101;  // columns of residue 0 in a word of the bitmap

// The slots of one block row that lie in a segment.
struct slot_range {
    int64_t begin, end;  // absolute
    int64_t first;       // of the block row
};

__device__ int64_t block_row_of(const pack_source& s, int64_t bundle, int part) {
    return bundle * bundle_rows / s.a.vector_length + part;
}

__device__ slot_range find_range(const pack_source& s, int64_t bundle, int64_t segment, int part) {
    const int64_t matrix = bundle / s.bundles;
    const int64_t block_row = block_row_of(s, bundle % s.bundles, part);
    if (block_row >= s.a.block_rows()) return {0, 0, 0};
    const int64_t at = s.a.block_row_index(matrix, block_row);
    const int64_t first = s.a.row_begin[at], last = s.a.row_end[at];
    const int64_t begin = segment * s.segment_rows;
    return {cuda::lower_bound(s.a.col_indices, first, last, begin),
            cuda::lower_bound(s.a.col_indices, first, last, begin + s.segment_rows), first};
}

// Marks the columns of a bundle's segment. All threads of the block.
__device__ void mark_columns(const pack_source& s, int64_t bundle, int64_t segment,
                             slot_range (&ranges)[most_parts], uint32_t* bits, int words) {
    const int parts = s.parts();
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < parts)
        ranges[threadIdx.x] = find_range(s, bundle, segment, static_cast<int>(threadIdx.x));
    for (int i = threadIdx.x; i < words; i += pack_threads) bits[i] = 0;
    __syncthreads();
    for (int p = 0; p < parts; ++p) {
        for (int64_t i = ranges[p].begin + threadIdx.x; i < ranges[p].end; i += pack_threads) {
            const auto k = static_cast<uint32_t>(s.a.col_indices[i] - segment * s.segment_rows);
            atomicOr(bits + k / 32, 1u << k % 32);
        }
    }
    __syncthreads();
}

__global__ void __launch_bounds__(pack_threads)
    count_kernel(const __grid_constant__ pack_source s, int64_t bundles, uint32_t* records) {
    MAGICUBE_DYNAMIC_SHARED(uint32_t, bits, 16);
    __shared__ slot_range ranges[most_parts];
    __shared__ int count;
    const int words = s.segment_rows / 32;
    for (int64_t bundle = blockIdx.x; bundle < bundles; bundle += gridDim.x) {
        for (int64_t segment = 0; segment < s.segments; ++segment) {
            if (threadIdx.x == 0) count = 0;
            mark_columns(s, bundle, segment, ranges, bits, words);
            int own = 0;
            for (int i = threadIdx.x; i < words; i += pack_threads) own += __popc(bits[i]);
            own = __reduce_add_sync(~0u, own);
            if (threadIdx.x % 32 == 0) atomicAdd(&count, own);
            __syncthreads();
            if (threadIdx.x == 0)
                records[bundle * s.segments + segment] =
                    static_cast<uint32_t>((count + record_slots - 1) / record_slots);
        }
    }
}

// Ranks of columns within their residue classes.
struct ranking {
    const uint32_t* bits;
    const uint16_t* before;  // [class][word]: columns of the class in the words before
    int words;
    int totals[residues];
    int groups;  // of 8 slots

    __device__ int rank(int k) const {
        const uint32_t lower = bits[k / 32] & ((1u << k % 32) - 1);
        return before[k % residues * words + k / 32] + __popc(lower & residue_mask << k % residues);
    }
    // Columns that have no group of their own class left go to holes, from the last group on.
    __device__ int hole(int index) const {
        for (int group = groups - 1;; --group)
            for (int r = 0; r < residues; ++r)
                if (totals[r] <= group && index-- == 0) return group * residues + r;
    }
    __device__ int slot(int k) const {
        const int r = k % residues, j = rank(k);
        if (j < groups) return j * residues + r;
        int index = j - groups;
        for (int q = 0; q < r; ++q) index += max(0, totals[q] - groups);
        return hole(index);
    }
};

// One warp counts one class.
__device__ void count_before(const uint32_t* bits, int words, uint16_t* before, int* total) {
    const int lane = threadIdx.x % 32, r = threadIdx.x / 32;
    int sum = 0;
    for (int first = 0; first < words; first += 32) {
        const int word = first + lane;
        const int own = word < words ? __popc(bits[word] & residue_mask << r) : 0;
        const int until = magicube::cuda::sum_up_to_lane(own);
        if (word < words) before[r * words + word] = static_cast<uint16_t>(sum + until - own);
        sum += __shfl_sync(~0u, until, 31);
    }
    if (lane == 0) *total = sum;
}

__global__ void __launch_bounds__(pack_threads)
    place_kernel(const __grid_constant__ pack_source s, bool half, const entry* entries,
                 int64_t entry_count, uint16_t* indices, int32_t* slots) {
    MAGICUBE_DYNAMIC_SHARED(uint32_t, bits, 16);
    __shared__ slot_range ranges[most_parts];
    __shared__ int totals[residues];
    const int words = s.segment_rows / 32;
    auto* before = reinterpret_cast<uint16_t*>(bits + words);
    const int parts = s.parts();
    for (int64_t e = blockIdx.x; e < entry_count; e += gridDim.x) {
        const int64_t begin = entries[e].record;
        if (entries[e].bundle == no_bundle) continue;
        const int records = static_cast<int>(entries[e + 1].record - begin);
        const int64_t segment = entries[e].segment;
        mark_columns(s, entries[e].bundle, segment, ranges, bits, words);
        count_before(bits, words, before, totals + threadIdx.x / 32);
        for (int i = threadIdx.x; i < records * record_slots; i += pack_threads) {
            indices[begin * record_slots + i / record_slots * record_slots +
                    index_place(half, i % record_slots)] = static_cast<uint16_t>(i % residues);
            for (int p = 0; p < parts; ++p) slots[(begin * record_slots + i) * parts + p] = -1;
        }
        __syncthreads();
        ranking order{bits, before, words, {}, records * (record_slots / residues)};
        for (int r = 0; r < residues; ++r) order.totals[r] = totals[r];
        for (int p = 0; p < parts; ++p) {
            for (int64_t i = ranges[p].begin + threadIdx.x; i < ranges[p].end; i += pack_threads) {
                const auto k = static_cast<int>(s.a.col_indices[i] - segment * s.segment_rows);
                const int slot = order.slot(k);
                indices[begin * record_slots + slot / record_slots * record_slots +
                        index_place(half, slot % record_slots)] =
                    static_cast<uint16_t>(k + zero_rows);
                slots[(begin * record_slots + slot) * parts + p] =
                    static_cast<int32_t>(i - ranges[p].first);
            }
        }
    }
}

// The value of a record's slot and row, its bits.
struct value_reader {
    const pack_source& s;
    int64_t matrix;
    int64_t first;  // slot of the block row of this lane's row of A
    int part;       // of the bundle, to which that row belongs
    int v;          // its place in the block row
    bool exists;

    __device__ value_reader(const pack_source& source, uint32_t bundle, int row) : s(source) {
        matrix = bundle / s.bundles;
        const int64_t absolute = bundle % s.bundles * bundle_rows + row;
        const int64_t block_row = absolute / s.a.vector_length;
        part = s.a.vector_length < bundle_rows ? row / s.a.vector_length : 0;
        v = static_cast<int>(absolute % s.a.vector_length);
        exists = block_row < s.a.block_rows();
        first = exists ? s.a.row_begin[s.a.block_row_index(matrix, block_row)] : 0;
    }
    __device__ uint32_t operator()(const int32_t* of_record, int slot) const {
        const int32_t relative = of_record[slot * s.parts() + part];
        if (relative < 0 || !exists) return 0;
        return cuda::value_bits(s.a, s.a.value_index(matrix, first + relative, v));
    }
};

// A lane's value i of 16 into its words.
__device__ __forceinline__ void put(operand_kind kind, uint32_t (&words)[8], int i,
                                    uint32_t value) {
    const int shift = i % 4 * 8;
    if (is_half(kind)) {
        words[i / 2] |= value << i % 2 * 16;
    } else if (kind == operand_kind::s4) {
        words[i / 8] |= (value & 0xf) << (shift + i / 4 % 2 * 4);
    } else if (kind == operand_kind::s8u8) {
        words[i / 4] |= (value >> 8 & 0xff) << shift;
        words[4 + i / 4] |= (value & 0xff) << shift;
    } else {
        words[i / 4] |= (value & 0xff) << shift;
    }
}

__global__ void __launch_bounds__(pack_threads)
    fill_kernel(const __grid_constant__ pack_source s, operand_kind kind, const entry* entries,
                int64_t entry_count, const int32_t* slots, uint8_t* values) {
    const int lane = threadIdx.x % 32;
    const int row = lane / 4;
    const int64_t record_bytes = record_value_bytes(kind);
    for (int64_t e = blockIdx.x; e < entry_count; e += gridDim.x) {
        if (entries[e].bundle == no_bundle) continue;
        const value_reader read(s, entries[e].bundle, row);
        for (int64_t record = entries[e].record + threadIdx.x / 32; record < entries[e + 1].record;
             record += pack_threads / 32) {
            uint32_t words[8] = {};
#pragma unroll
            for (int i = 0; i < 16; ++i)
                put(kind, words, i,
                    read(slots + record * record_slots * s.parts(),
                         i / 2 * residues + lane % 4 * 2 + i % 2));
            uint8_t* target = values + record * record_bytes;
            if (kind == operand_kind::s4) {
                reinterpret_cast<uint2*>(target)[lane] = make_uint2(words[0], words[1]);
                continue;
            }
            auto* blocks = reinterpret_cast<uint4*>(target) + lane;
            blocks[0] = make_uint4(words[0], words[1], words[2], words[3]);
            if (record_bytes == 1024)
                blocks[32] = make_uint4(words[4], words[5], words[6], words[7]);
        }
    }
}

unsigned blocks_for(int64_t count) {
    return static_cast<unsigned>(std::clamp<int64_t>(count, 1, 65535));
}

}  // namespace

cudaError_t count_records(const pack_source& source, int64_t matrices, uint32_t* records,
                          cudaStream_t stream) {
    const int64_t bundles = source.bundles * matrices;
    const size_t bytes = static_cast<size_t>(source.segment_rows) / 8;
    magicube::cuda::launch_kernel(count_kernel, {blocks_for(bundles), pack_threads, bytes, stream},
                                  source, bundles, records);
    return cudaGetLastError();
}

cudaError_t place_slots(const pack_source& source, operand_kind kind, const entry* entries,
                        int64_t entry_count, uint16_t* indices, int32_t* slots,
                        cudaStream_t stream) {
    const size_t bytes = static_cast<size_t>(source.segment_rows) / 32 * (4 + residues * 2);
    if (const cudaError_t failed = magicube::cuda::launch_kernel(
            place_kernel, {blocks_for(entry_count), pack_threads, bytes, stream}, source,
            is_half(kind), entries, entry_count, indices, slots);
        failed != cudaSuccess)
        return failed;
    // The first values may come with a call that is being captured.
    return magicube::cuda::load_kernel(fill_kernel);
}

cudaError_t fill_values(const pack_source& source, operand_kind kind, const entry* entries,
                        int64_t entry_count, const int32_t* slots, uint8_t* values,
                        cudaStream_t stream) {
    magicube::cuda::launch_kernel(fill_kernel, {blocks_for(entry_count), pack_threads, 0, stream},
                                  source, kind, entries, entry_count, slots, values);
    return cudaGetLastError();
}

}  // namespace magicube::spmm::stream
