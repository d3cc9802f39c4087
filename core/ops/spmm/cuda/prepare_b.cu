// SPDX-License-Identifier: Apache-2.0
//
// Transposes, unpacks and aligns B for the staged kernels.
//
// Computes  target[k, n] = b[k, n], row-major, int4 as int8; columns up to the target's ld become
// 0. Layout    b as the caller has it; target's rows are a multiple of 128 bytes. Mapping   a block
// takes a tile of 64 rows and 128 bytes of columns through shared memory: reads run along
//           b's contiguous dimension, writes along the target's, four bytes a thread.
// Shared    64 rows of 132 bytes: an odd number of words, so that reading along k meets distinct
// banks. Bound     the bytes of both matrices over the device's memory bandwidth. Any architecture.
#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/ops/spmm/cuda/prepare_b.hpp"

namespace magicube::spmm::cuda {
namespace {

using magicube::cuda::check;

constexpr int block_threads = 256;
constexpr int tile_rows = 64;
constexpr int tile_bytes = 128;
constexpr int pitch_bytes = tile_bytes + 4;
constexpr int64_t staged_alignment = 128;

struct prepare_arguments {
    const void* source;
    bool int4;
    bool by_rows;  // the source's order
    int64_t ld;
    int64_t source_batch_stride;
    int64_t rows;
    int64_t cols;
    uint32_t* target;
    int64_t target_words;  // of a row
    int64_t batch_count;
};

template <class Element>
__device__ Element load(const prepare_arguments& p, int64_t batch, int64_t k, int64_t n) {
    const int64_t i = batch * p.source_batch_stride + (p.by_rows ? k * p.ld + n : n * p.ld + k);
    if constexpr (sizeof(Element) == 1)
        if (p.int4)
            return static_cast<Element>(load_int4(static_cast<const uint8_t*>(p.source), i));
    return static_cast<const Element*>(p.source)[i];
}

template <class Element>
__global__ void __launch_bounds__(block_threads)
    prepare_kernel(const __grid_constant__ prepare_arguments p) {
    constexpr int tile_cols = tile_bytes / sizeof(Element);
    __shared__ uint32_t tile[tile_rows * pitch_bytes / 4];
    const int64_t n0 = int64_t{blockIdx.x} * tile_cols;
    const int64_t k_tiles = (p.rows + tile_rows - 1) / tile_rows;
    for (int64_t task = blockIdx.y; task < k_tiles * p.batch_count; task += gridDim.y) {
        const int64_t batch = task / k_tiles;
        const int64_t k0 = (task - batch * k_tiles) * tile_rows;
        for (int i = threadIdx.x; i < tile_rows * tile_cols; i += block_threads) {
            const int k = p.by_rows ? i / tile_cols : i % tile_rows;
            const int n = p.by_rows ? i % tile_cols : i / tile_rows;
            const bool inside = k0 + k < p.rows && n0 + n < p.cols;
            auto* row = reinterpret_cast<Element*>(tile + k * (pitch_bytes / 4));
            row[n] = inside ? load<Element>(p, batch, k0 + k, n0 + n) : Element{0};
        }
        __syncthreads();
        for (int i = threadIdx.x; i < tile_rows * tile_bytes / 4; i += block_threads) {
            const int k = i / (tile_bytes / 4), word = i % (tile_bytes / 4);
            if (k0 + k < p.rows)
                p.target[(batch * p.rows + k0 + k) * p.target_words +
                         int64_t{blockIdx.x} * (tile_bytes / 4) + word] =
                    tile[k * (pitch_bytes / 4) + word];
        }
        __syncthreads();
    }
}

}  // namespace

bool is_staged(const dense_view& b) {
    const int64_t bytes = storage_bits(b.type) / 8;
    const bool aligned = reinterpret_cast<uintptr_t>(b.values) % 16 == 0 &&
                         b.ld * bytes % 16 == 0 && b.batch_stride * bytes % 16 == 0;
    return b.type != dtype::int4 && b.storage == order::row && aligned;
}

staged_shape shape_staged(dtype type, int64_t rows, int64_t cols, int64_t batch_count) {
    staged_shape shape;
    shape.element_bytes = storage_bits(type) > 8 ? 2 : 1;
    shape.ld = round_up(cols, staged_alignment / shape.element_bytes);
    const int64_t matrix = checked_mul(rows, shape.ld, "B's elements");
    shape.batch_stride = batch_count > 1 ? matrix : 0;
    shape.bytes = checked_mul(checked_mul(matrix, shape.element_bytes, "B's bytes"),
                              std::max<int64_t>(batch_count, 1), "B's bytes");
    return shape;
}

dense_view prepare_b(const context& ctx, const dense_view& b, void* target) {
    const int64_t matrices = b.batch_stride == 0 ? 1 : b.batch_count;
    const staged_shape shape = shape_staged(b.type, b.rows, b.cols, matrices);
    prepare_arguments p;
    p.source = b.values;
    p.int4 = b.type == dtype::int4;
    p.by_rows = b.storage == order::row;
    p.ld = b.ld;
    p.source_batch_stride = b.batch_stride;
    p.rows = b.rows;
    p.cols = b.cols;
    p.target = static_cast<uint32_t*>(target);
    p.target_words = shape.ld * shape.element_bytes / 4;
    p.batch_count = matrices;
    const int64_t tasks = ceil_div(b.rows, tile_rows) * matrices;
    const dim3 grid(static_cast<unsigned>(shape.ld * shape.element_bytes / tile_bytes),
                    static_cast<unsigned>(std::min<int64_t>(tasks, 65535)));
    magicube::cuda::device_scope scope(ctx.ordinal);
    if (shape.element_bytes == 1) {
        prepare_kernel<uint8_t><<<grid, block_threads, 0, ctx.stream>>>(p);
    } else {
        prepare_kernel<uint16_t><<<grid, block_threads, 0, ctx.stream>>>(p);
    }
    check(cudaGetLastError(), "prepare_kernel");
    dense_view staged = b;
    staged.values = target;
    staged.type = p.int4 ? dtype::int8 : b.type;
    staged.storage = order::row;
    staged.ld = shape.ld;
    staged.batch_stride = b.batch_stride == 0 ? 0 : shape.batch_stride;
    return staged;
}

}  // namespace magicube::spmm::cuda
