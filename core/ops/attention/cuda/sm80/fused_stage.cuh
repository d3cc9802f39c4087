// SPDX-License-Identifier: Apache-2.0
// A stage of the fused attention's ring: the gathered rows of K and V of one step, and how they
// become fragments of MMAs. 16-byte chunk c of row r lies at c xor r % 8, so that the 8 rows of a
// matrix never share banks.
#pragma once

#include "core/device/cuda/ptx.cuh"
#include "core/ops/attention/cuda/sm80/fused_launch.hpp"

namespace magicube::attention::sm80 {

template <int Dim>
struct fused_stage {
    static constexpr int keys = Dim <= 64 ? 32 : 16;  // of a step
    static constexpr int row_bytes = Dim * 2;
    static constexpr int chunks = Dim / 8;  // of a row
    static constexpr int rows_at_once = 32 / chunks;
    static constexpr int matrix_bytes = keys * row_bytes;
    static constexpr int bytes = 2 * matrix_bytes;  // K, then V

    static __device__ __forceinline__ uint32_t place(int row, int chunk) {
        return row * row_bytes + (chunk ^ (row & 7)) * 16;
    }

    // Keys along the MMA's rows, 16 elements of the head along its columns.
    static __device__ __forceinline__ void load_keys(uint32_t (&a)[4], uint32_t stage, int group,
                                                     int tile) {
        const int lane = threadIdx.x & 31;
        ptx::load_matrices(a, stage + place(group * 16 + lane % 16, 2 * tile + lane / 16));
    }

    // 16 elements of the head along the MMA's rows, keys along its columns.
    static __device__ __forceinline__ void load_values(uint32_t (&a)[4], uint32_t stage, int group,
                                                       int tile) {
        const int lane = threadIdx.x & 31;
        ptx::load_matrices_transposed(
            a, stage + matrix_bytes +
                   place(group * 16 + lane / 16 * 8 + lane % 8, 2 * tile + (lane / 8 & 1)));
    }
};

// What copy_async16 does, of 16-bit elements anywhere.
__device__ inline void copy_elements(uint32_t target, const uint16_t* source, int count) {
    for (int word = 0; word < 4; ++word) {
        uint32_t value = 0;
        if (2 * word < count) value = source[2 * word];
        if (2 * word + 1 < count) value |= uint32_t{source[2 * word + 1]} << 16;
        ptx::store_shared_u32(target + 4 * word, value);
    }
}

// One of K and V of a head, as a lane copies from it: chunk lane % chunks of every row.
template <int Dim>
struct lane_source {
    using stage = fused_stage<Dim>;

    const uint16_t* first;
    int64_t pitch;
    int count;  // elements of the lane's chunk

    __device__ lane_source(const tensor& from, int64_t batch, int64_t head, int64_t dim) {
        const int chunk = (threadIdx.x & 31) % stage::chunks;
        count = static_cast<int>(min(int64_t{8}, max(int64_t{0}, dim - 8 * chunk)));
        first = static_cast<const uint16_t*>(from.values) + from.row(batch, head, 0) +
                (count > 0 ? 8 * chunk : 0);
        pitch = from.row_stride;
    }

    // key < 0: the row becomes 0.
    __device__ __forceinline__ void copy(uint32_t matrix, int row, int key, bool aligned) const {
        const uint32_t target = matrix + stage::place(row, (threadIdx.x & 31) % stage::chunks);
        const int real = key < 0 ? 0 : count;
        const uint16_t* source = first + (real > 0 ? key * pitch : 0);
        if (aligned) {
            ptx::copy_async16(target, real > 0 ? source : first, 2 * real);
        } else {
            copy_elements(target, source, real);
        }
    }
};

// Starts to fill a stage with the rows of a step, whose keys lanes hold: slot i lane i.
template <int Dim>
__device__ __forceinline__ void fill_stage(const lane_source<Dim>& k, const lane_source<Dim>& v,
                                           uint32_t stage, int key, bool aligned) {
    using layout = fused_stage<Dim>;
#pragma unroll
    for (int i = 0; i < layout::keys / layout::rows_at_once; ++i) {
        const int row = i * layout::rows_at_once + (threadIdx.x & 31) / layout::chunks;
        const int own = __shfl_sync(~0u, key, row);
        k.copy(stage, row, own, aligned);
        v.copy(stage + layout::matrix_bytes, row, own, aligned);
    }
}

}  // namespace magicube::attention::sm80
