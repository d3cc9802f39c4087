// SPDX-License-Identifier: Apache-2.0
//
// Packs A for the select kernel.
//
// Computes  the arrays that select_format.hpp describes, from the public V:N:M layout.
// Mapping   a thread a group of a block row (columns), a lane's word (metadata), or a row's group
//           (values: its two lie side by side in both layouts, and neighbouring threads read
//           neighbouring ones).
// Any architecture and alignment.
// Bound     the bytes of A over the device's memory bandwidth.
#include "core/ops/vnm_mm/cuda/sm80/select_pack.hpp"

#include <algorithm>

#include "core/device/cuda/launch.cuh"

namespace magicube::vnm_mm::sm80 {
namespace {

constexpr int pack_threads = 256;

template <class Body>
__device__ __forceinline__ void each(int64_t count, const Body& body) {
    for (int64_t i = int64_t{blockIdx.x} * pack_threads + threadIdx.x; i < count;
         i += int64_t{gridDim.x} * pack_threads)
        body(i);
}

__global__ void __launch_bounds__(pack_threads)
    columns_kernel(const __grid_constant__ pack_source s, int32_t* columns) {
    const int64_t a_block = s.units() * unit_groups;
    each(s.a.block_rows() * a_block, [&](int64_t i) {
        const int64_t block_row = i / a_block, group = i % a_block;
        const int in_unit = static_cast<int>(group % unit_groups);
        int32_t* unit = columns + (i - in_unit) * 4;
        for (int place = 0; place < 4; ++place) {
            // Places past a short group's width repeat its last column.
            const bool exists = group < s.a.groups() && place < s.a.group_width(group);
            unit[row_of(s.element_bytes(), in_unit, place)] =
                exists ? static_cast<int32_t>(group * s.a.m +
                                              s.a.loc(s.a.loc_index(block_row, group, place)))
                       : -1;
        }
    });
}

// The positions of neighbouring groups of a row.
__device__ uint32_t positions_of(const pack_source& s, int64_t row, int64_t first_group,
                                 int count) {
    uint32_t word = 0;
    for (int i = 0; i < count; ++i) {
        const int64_t group = first_group + i;
        const bool exists = row < s.a.rows && group < s.a.groups();
        const uint32_t positions =
            exists ? s.a.place(row, group, 0) | s.a.place(row, group, 1) << 2 : empty_group;
        word |= positions << 4 * i;
    }
    return word;
}

__global__ void __launch_bounds__(pack_threads)
    metadata_kernel(const __grid_constant__ pack_source s, uint32_t* words) {
    const int sets_a_tile = s.tile_rows / mma_rows;
    each(s.sets() * 32, [&](int64_t i) {
        const int lane = static_cast<int>(i % 32);
        const int64_t set = i / 32;
        const int64_t unit = set / sets_a_tile % s.units(), tile = set / sets_a_tile / s.units();
        const int64_t row = tile * s.tile_rows + set % sets_a_tile * mma_rows + lane / 4;
        const int64_t group = unit * unit_groups;
        const int t = lane % 4;
        words[i] = s.element_bytes() == 2 ? positions_of(s, row, group + t * 4, 4) |
                                                positions_of(s, row + 8, group + t * 4, 4) << 16
                                          : positions_of(s, row + t % 2 * 8, group + t / 2 * 8, 8);
    });
}

// Two values of a row and group, which lie side by side.
template <class Pair>
__global__ void __launch_bounds__(pack_threads)
    values_kernel(const __grid_constant__ pack_source s, int64_t matrices, uint8_t* values) {
    constexpr int element_bytes = sizeof(Pair) / 2;
    const int64_t groups = s.units() * unit_groups;
    const int64_t rows = s.tiles() * s.tile_rows;
    each(matrices * rows * groups, [&](int64_t i) {
        const int64_t group = i % groups, row = i / groups % rows, matrix = i / groups / rows;
        Pair pair = 0;
        if (row < s.a.rows && group < s.a.groups()) {
            const int64_t at = s.a.value_index(matrix, row, group, 0);
            const auto* source = static_cast<const uint8_t*>(s.a.values) + at * element_bytes;
            // Values given later may lie anywhere, so element by element.
            using element = std::conditional_t<element_bytes == 2, uint16_t, uint8_t>;
            const auto* two = reinterpret_cast<const element*>(source);
            pair = static_cast<Pair>(two[0] | static_cast<Pair>(two[1]) << 8 * element_bytes);
        }
        const int in_set = static_cast<int>(row % mma_rows);
        const int in_unit = static_cast<int>(group % unit_groups);
        const int64_t tile = row / s.tile_rows, set = row % s.tile_rows / mma_rows;
        const int64_t index = ((matrix * s.tiles() + tile) * s.units() + group / unit_groups) *
                                  (s.tile_rows / mma_rows) +
                              set;
        uint8_t* target = values + index * value_bytes(element_bytes) +
                          value_place(element_bytes, in_set, in_unit, 0) * element_bytes;
        *reinterpret_cast<Pair*>(target) = pair;
    });
}

unsigned blocks_for(int64_t count) {
    return static_cast<unsigned>(
        std::clamp<int64_t>(ceil_div(count, int64_t{pack_threads}), 1, 65535));
}

}  // namespace

cudaError_t pack_pattern(const pack_source& source, uint8_t* metadata, int32_t* columns,
                         cudaStream_t stream) {
    using magicube::cuda::launch_kernel;
    const int64_t groups = source.a.block_rows() * source.units() * unit_groups;
    if (groups == 0) return cudaSuccess;
    if (const cudaError_t failed = launch_kernel(
            columns_kernel, {blocks_for(groups), pack_threads, 0, stream}, source, columns);
        failed != cudaSuccess)
        return failed;
    return launch_kernel(metadata_kernel, {blocks_for(source.sets() * 32), pack_threads, 0, stream},
                         source, reinterpret_cast<uint32_t*>(metadata));
}

cudaError_t pack_values(const pack_source& source, int64_t matrices, uint8_t* values,
                        cudaStream_t stream) {
    const int64_t count = matrices * source.sets() * mma_rows * unit_groups;
    if (count == 0) return cudaSuccess;
    const auto kernel =
        source.element_bytes() == 2 ? values_kernel<uint32_t> : values_kernel<uint16_t>;
    return magicube::cuda::launch_kernel(kernel, {blocks_for(count), pack_threads, 0, stream},
                                         source, matrices, values);
}

cudaError_t load_pack_values() {
    if (const cudaError_t failed = magicube::cuda::load_kernel(values_kernel<uint16_t>);
        failed != cudaSuccess)
        return failed;
    return magicube::cuda::load_kernel(values_kernel<uint32_t>);
}

}  // namespace magicube::vnm_mm::sm80
