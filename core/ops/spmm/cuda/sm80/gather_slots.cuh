// SPDX-License-Identifier: Apache-2.0
// How a warp walks over the slots of a bundle: 8 * Sets rows of one block row or, if V < 8, the
// 8 / V block rows that make 8 rows, one after another. It takes `Slots` of them a step, tells
// their columns and brings their values into shared memory as they lie in the public layout: chunk
// after chunk of S slots, in a chunk row after row. Values that cannot be copied 16 bytes at a time
// (V < 8, S = 1, unaligned) are stored one by one instead, as one chunk of 32 slots, with zeros in
// the rows that a slot does not reach.
#pragma once

#include "core/device/cuda/ptx.cuh"
#include "core/ops/spmm/cuda/sm80/gather_launch.hpp"

namespace magicube::spmm::sm80 {

constexpr unsigned all_lanes = ~0u;

// Where a warp is in the problem.
struct tile_place {
    int64_t batch, column_tile, bundle;

    __device__ tile_place(const gather_arguments& args, int64_t tile, int warps) {
        const int64_t line = tile / args.bundle_groups;
        batch = line / args.column_tiles;
        column_tile = line - batch * args.column_tiles;
        bundle = (tile - line * args.bundle_groups) * warps + (threadIdx.x >> 5);
    }
};

// A value of `Bits` bits, whatever its type.
template <int Bits>
using raw_value =
    std::conditional_t<Bits == 8, uint8_t, std::conditional_t<Bits == 16, uint16_t, uint32_t>>;

template <int Bits>
__device__ __forceinline__ void store_value(uint32_t address, uint32_t value) {
    if constexpr (Bits == 8) {
        ptx::store_shared_u8(address, value);
    } else if constexpr (Bits == 16) {
        ptx::store_shared_u16(address, value);
    } else {
        ptx::store_shared_u32(address, value);
    }
}

template <int Bits, int Sets, int Slots>
class slot_walk {
  public:
    static constexpr int rows = 8 * Sets;
    static constexpr int per_lane = Slots / 32;
    static constexpr int step_bytes = rows * Slots * Bits / 8;  // of a step's values

    __device__ slot_walk(const gather_arguments& args, int64_t batch, int64_t bundle)
        : args_(args), lane_(threadIdx.x & 31) {
        const auto& a = args.a;
        const int64_t matrix = a.matrix_for(batch);
        const int64_t block = args.blocks > 1 ? bundle * args.blocks : bundle / args.parts;
        part_ = args.blocks > 1 ? 0 : static_cast<int>(bundle - block * args.parts);
        // Lane j looks at block row j.
        int64_t begin = 0;
        int count = 0;
        if (lane_ < args.blocks && block + lane_ < a.block_rows()) {
            const int64_t at = a.block_row_index(matrix, block + lane_);
            begin = a.row_begin[at];
            count = static_cast<int>(a.row_end[at] - begin);
        }
        finish_ = count;
#pragma unroll
        for (int distance = 1; distance < 8; distance *= 2) {
            const int before = __shfl_up_sync(all_lanes, finish_, distance);
            if (lane_ >= distance) finish_ += before;
        }
        offset_ = begin - (finish_ - count);
        slots_ = __shfl_sync(all_lanes, finish_, args.blocks - 1);
        values_ = static_cast<const uint8_t*>(a.values) +
                  (a.different_patterns ? 0 : matrix * a.values_stride * Bits / 8);
    }

    __device__ int steps() const {
        return (slots_ + Slots - 1) / Slots;
    }

    // Groups of so many slots that a step has.
    __device__ int groups(int step, int slots) const {
        return (min(slots_ - step * Slots, Slots) + slots - 1) / slots;
    }

    // Bytes from the start of a step's values to those of a row and slot, and from one row's to the
    // next's inside a chunk.
    __device__ uint32_t lane_offset(int row, int slot) const {
        const int shift = args_.copied ? args_.stride_shift : 5;
        const int chunk = slot >> shift;
        return ((((chunk * rows + row) << shift) + slot - (chunk << shift)) * Bits) / 8;
    }
    __device__ uint32_t row_offset() const {
        return (args_.copied ? args_.a.stride : 32) * Bits / 8;
    }

    // Reads the columns of a step, and those values that bring() would have to wait for.
    __device__ __forceinline__ void prepare(int step) {
#pragma unroll
        for (int i = 0; i < per_lane; ++i) {
            const int slot = step * Slots + i * 32 + lane_;
            block_ = block_of(slot);
            at_ = slot + __shfl_sync(all_lanes, offset_, block_);
            column_[i] = slot < slots_ ? args_.a.col_indices[at_] : -1;
        }
        if (args_.blocks == 1) return;
#pragma unroll
        for (int v = 0; v < 4; ++v)
            early_[v] = column_[0] >= 0 && v < args_.a.vector_length ? load(v) : 0;
    }

    // Column of a slot of the prepared step, -1 past the last.
    __device__ __forceinline__ int column(int slot) const {
        return __shfl_sync(all_lanes, column_[per_lane == 1 ? 0 : slot / 32], slot % 32);
    }

    // The prepared step's column of the lane's own slot.
    __device__ __forceinline__ int own_column() const {
        return column_[0];
    }

    // Starts to bring the values of the prepared step, whose number is `step`.
    __device__ __forceinline__ void bring(int step, uint32_t target) const {
        if (args_.copied) {
            copy_values(step, target);
        } else if constexpr (per_lane == 1) {
            if (args_.blocks > 1) {
                store_early(target);
            } else {
                store_rows(target);
            }
        }
    }

    // Puts zeros where a step that has been brought holds padding.
    __device__ void clear_padding(int step, uint32_t values) const {
        if (!args_.copied || (step + 1) * Slots <= slots_) return;
        if (step * Slots + lane_ < slots_) return;
        for (int row = 0; row < rows; ++row) store_value<Bits>(values + lane_offset(row, lane_), 0);
    }

  private:
    // Which of the bundle's block rows has a slot.
    __device__ __forceinline__ int block_of(int slot) const {
        int block = 0;
        for (int j = 0; j + 1 < args_.blocks; ++j)
            block += slot >= __shfl_sync(all_lanes, finish_, j);
        return block;
    }

    // Of the lane's prepared slot.
    __device__ __forceinline__ uint32_t load(int v) const {
        if constexpr (Bits >= 8) {
            const auto& a = args_.a;
            const int64_t chunk = at_ >> args_.stride_shift << args_.stride_shift;
            return reinterpret_cast<const raw_value<Bits>*>(
                values_)[chunk * a.vector_length + v * a.stride + (at_ - chunk)];
        }
        return 0;
    }

    __device__ __forceinline__ void copy_values(int step, uint32_t target) const {
        const int stride = args_.a.stride;
        const int chunk_bytes = rows * stride * Bits / 8;
        const int64_t first = __shfl_sync(all_lanes, offset_, 0) + step * Slots;
#pragma unroll
        for (int i = 0; i < (step_bytes + 511) / 512; ++i) {
            const int at = (i * 32 + lane_) * 16;
            const int chunk = at * 8 / Bits / rows >> args_.stride_shift;
            const int64_t source = (first + chunk * stride) * args_.a.vector_length * Bits / 8 +
                                   part_ * chunk_bytes + (at - chunk * chunk_bytes);
            const bool real = step * Slots + chunk * stride < slots_;
            if (step_bytes % 512 == 0 || at < step_bytes)
                ptx::copy_async16(target + at, values_ + (real ? source : 0), real ? 16 : 0);
        }
    }

    // V < 8: the slot's few values and zeros in the rows of other block rows.
    __device__ __forceinline__ void store_early(uint32_t target) const {
        const int first_row = block_ * args_.a.vector_length;
#pragma unroll
        for (int row = 0; row < 8; ++row) {
            const int v = row - first_row;
            const uint32_t low = v & 1 ? early_[1] : early_[0];
            const uint32_t high = v & 1 ? early_[3] : early_[2];
            const bool own = v >= 0 && v < args_.a.vector_length;
            store_value<Bits>(target + (row * 32 + lane_) * Bits / 8, !own    ? 0
                                                                      : v & 2 ? high
                                                                              : low);
        }
    }

    __device__ void store_rows(uint32_t target) const {
#pragma unroll 4
        for (int row = 0; row < rows; ++row)
            store_value<Bits>(target + (row * 32 + lane_) * Bits / 8,
                              column_[0] >= 0 ? load(part_ * rows + row) : 0);
    }

    const gather_arguments& args_;
    int lane_;
    int part_;        // of the block row
    int finish_;      // of lane j: slots of block rows 0 to j
    int64_t offset_;  // of lane j: from a slot's number in the bundle to its number in A
    int slots_;
    const uint8_t* values_;
    // Of the prepared step, the lane's slot:
    int column_[per_lane];
    int block_;
    int64_t at_;         // its number in A
    uint32_t early_[4];  // its values if V < 8
};

}  // namespace magicube::spmm::sm80
