// SPDX-License-Identifier: Apache-2.0
//
// to = op(from), element by element: a copy, a magnitude, or a number over its scale as an integer.
//
// Layout   both matrices in their own order and ld, batches apart by their strides.
// Mapping  one block of 256 threads a tile of 64 x 64, read along the stored lines of `from` into
//          shared memory and written along those of `to`; threads run along the lines on both
//          sides. int4 is written two elements a thread, for they share a byte.
// Shared   16.6 KB, 65 floats a line so that both directions are free of bank conflicts.
// Needs    any architecture; any alignment of elements.
// Bound    bytes of both matrices over the device's memory bandwidth.
#include "core/quantize/cuda/transform.hpp"

#include "core/device/cuda/launch.cuh"
#include "core/formats/cuda/elements.cuh"
#include "core/formats/cuda/launch.cuh"
#include "core/quantize/scale_rules.hpp"

namespace magicube::cuda {
namespace {

constexpr int threads = 256;
constexpr int tile_size = 64;
constexpr int lines_at_once = threads / tile_size;

// The tiles of a batch, in terms of the stored lines of `from`.
struct tile_grid {
    int64_t inner;
    int64_t outer;
    int64_t along;   // tiles in a line
    int64_t across;  // tiles over all lines of a matrix
    int64_t count;

    explicit tile_grid(const dense_view& from)
        : inner(from.inner()),
          outer(from.outer()),
          along(ceil_div(inner, tile_size)),
          across(ceil_div(outer, tile_size)),
          count(along * across * from.batch_count) {}
};

struct tile_place {
    int64_t batch;
    int64_t first_line;
    int64_t first_along;
    int lines;
    int length;

    __device__ tile_place(const tile_grid& grid, int64_t number) {
        const int64_t band = number / grid.along;
        batch = band / grid.across;
        first_line = (band - batch * grid.across) * tile_size;
        first_along = (number - band * grid.along) * tile_size;
        lines = static_cast<int>(min(int64_t{tile_size}, grid.outer - first_line));
        length = static_cast<int>(min(int64_t{tile_size}, grid.inner - first_along));
    }
};

template <number_op Op>
__device__ __forceinline__ float apply(float x, const float* scale, const quantizer& round) {
    if constexpr (Op == number_op::copy) return x;
    if constexpr (Op == number_op::magnitude) return rankable_magnitude(x);
    return round(x, *scale);
}

// Integers are within the range of their type.
__device__ __forceinline__ uint32_t bits_of_number(dtype type, float number) {
    if (type == dtype::fp32) return bits_of(number);
    const auto integer = static_cast<uint32_t>(static_cast<int32_t>(number));
    return type == dtype::int4 ? integer & 15 : integer;
}

// A tile of `from`, taken through Op, as lines of numbers. Eight loads a thread are under way at
// once.
template <number_op Op>
__device__ void read_tile(const dense_view& from, const tile_place& tile, const scale_array& scales,
                          const quantizer& round, float (*numbers)[tile_size + 1]) {
    const int lane = threadIdx.x % tile_size;
    if (lane >= tile.length) return;
    const bool by_row = from.storage == order::row;
    const int64_t along = tile.first_along + lane;
    const int64_t line_step = by_row ? scales.row_step : scales.col_step;
    const int64_t along_step = by_row ? scales.col_step : scales.row_step;
    for (int line = threadIdx.x / tile_size; line < tile.lines; line += 8 * lines_at_once) {
        const int64_t l = tile.first_line + line;
        const int64_t start = tile.batch * from.batch_stride + l * from.ld + along;
        const int left = (tile.lines - line + lines_at_once - 1) / lines_at_once;
        const eight_elements loaded(from.type, from.values, start, lines_at_once * from.ld, left);
        const float* scale =
            scales.data + tile.batch * scales.batch_stride + l * line_step + along * along_step;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            if (k >= left) break;
            const float x = float_from_bits(from.type, loaded.bits[k]);
            numbers[line + k * lines_at_once][lane] =
                apply<Op>(x, scale + k * lines_at_once * line_step, round);
        }
    }
}

// The same numbers as lines of `to`: those of the tile, or its columns.
__device__ void write_tile(const dense_view& to, const tile_place& tile, bool transposes,
                           const float (*numbers)[tile_size + 1]) {
    const int lines = transposes ? tile.length : tile.lines;
    const int length = transposes ? tile.lines : tile.length;
    const int at = threadIdx.x % tile_size * static_cast<int>(unit_of(to.type));
    if (at >= length) return;
    const int64_t first_line = transposes ? tile.first_along : tile.first_line;
    const int64_t along = (transposes ? tile.first_line : tile.first_along) + at;
    const int64_t base = tile.batch * to.batch_stride + first_line * to.ld + along;
#pragma unroll 4
    for (int line = threadIdx.x / tile_size; line < lines; line += lines_at_once) {
        const int64_t first = base + line * to.ld;
        store_unit(to.type, to.values, first, first + length - at, [&](int64_t i) {
            const int k = at + static_cast<int>(i - first);
            return bits_of_number(to.type, transposes ? numbers[k][line] : numbers[line][k]);
        });
    }
}

template <number_op Op>
__global__ void __launch_bounds__(threads, 4)
    transform_kernel(dense_view from, dense_view to, tile_grid grid, scale_array scales,
                     quantizer round) {
    __shared__ float numbers[tile_size][tile_size + 1];
    for (int64_t n = blockIdx.x; n < grid.count; n += gridDim.x) {
        const tile_place tile(grid, n);
        __syncthreads();
        read_tile<Op>(from, tile, scales, round, numbers);
        __syncthreads();
        write_tile(to, tile, from.storage != to.storage, numbers);
    }
}

}  // namespace

void transform(const context& ctx, const dense_view& from, const dense_view& to, number_op op,
               const scale_array& scales) {
    if (from.empty()) return;
    const tile_grid grid(from);
    const auto launch = [&](auto kernel) {
        launch_kernel(kernel, {grid_for(grid.count), threads, 0, ctx.stream}, from, to, grid,
                      scales, quantizer(to.type));
        check(cudaGetLastError(), "transform_kernel");
    };
    switch (op) {
        case number_op::copy:
            return launch(transform_kernel<number_op::copy>);
        case number_op::magnitude:
            return launch(transform_kernel<number_op::magnitude>);
        case number_op::quantize:
            return launch(transform_kernel<number_op::quantize>);
    }
}

}  // namespace magicube::cuda
