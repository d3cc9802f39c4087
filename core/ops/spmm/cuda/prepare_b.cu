// SPDX-License-Identifier: Apache-2.0
//
// Transposes, unpacks and aligns B for the staged kernels.
//
// Computes  target[k, n] = b[k, n], row-major, int4 as int8; columns up to the target's ld are 0.
// Layout    b in lines, rows or columns as it is stored, that start on any byte; the target's rows
//           are a multiple of 128 bytes.
// Mapping   columns: a block takes 128 rows and 128 bytes of columns. A lane loads 16 bytes along k
//           of those columns that share a word of the target, transposes them in registers, and
//           the block exchanges words through shared memory. Rows: a thread makes four chunks of
//           16 bytes and exchanges nothing.
// Shared    columns: 128 rows of 128 bytes, chunk c of row k at c xor the place along k of the lane
//           that writes it, so that neither side meets a bank twice. Both: 32 bytes, the
//           edges of the operand.
// Alignment any: lines off their 16 bytes are loaded as aligned words and shifted into place.
//           Nothing is read outside of the bytes from b's first element to its last.
// Bound     the bytes of both matrices over the bandwidth of L2 or memory. Any architecture.
#include <algorithm>
#include <type_traits>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/ptx.cuh"
#include "core/ops/spmm/cuda/prepare_b.hpp"
#include "core/ops/spmm/cuda/registers.cuh"

namespace magicube::spmm::cuda {
namespace {

using magicube::cuda::check;

constexpr int block_threads = 256;
constexpr int least_blocks = 4;  // an SM: a thread may have 64 registers
constexpr int tile_rows = 128;
constexpr int tile_bytes = 128;  // of a row of the target
constexpr int tile_words = tile_bytes / 4;
constexpr int chunk_bytes = 16;
constexpr int chunks_a_thread = 4;  // by rows
constexpr int most_task_blocks = 65535;
constexpr int64_t staged_alignment = 128;

struct prepare_arguments {
    const uint8_t* source;
    const uint8_t* source_end;  // behind the last element of the last matrix
    int64_t line_bytes;         // from a line to the next
    int64_t matrix_bytes;       // from a matrix to the next
    bool aligned;               // every line starts on 16 bytes
    int64_t rows;
    int64_t cols;
    uint8_t* target;
    int64_t target_bytes;  // of a row
    int64_t batch_count;
    int wide;  // by rows: a block's chunks of one row are 1 << wide
};

// ---- loads -------------------------------------------------------------------------------------
// Inside says that all loads of a block lie inside the operand. Elsewhere, words that reach over
// its first or last byte come from `edges`: the 16 aligned bytes around each, in shared memory.

__device__ __forceinline__ void load_edges(const prepare_arguments& p, uint8_t* edges) {
    __syncthreads();
    if (threadIdx.x < 2 * chunk_bytes) {
        const uint8_t* edge = threadIdx.x < chunk_bytes ? p.source : p.source_end - 1;
        const uint8_t* at =
            edge - reinterpret_cast<uintptr_t>(edge) % chunk_bytes + threadIdx.x % chunk_bytes;
        edges[threadIdx.x] = at >= p.source && at < p.source_end ? *at : 0;
    }
    __syncthreads();
}

// Words at an address aligned to their size; what lies outside the operand is any value.
template <bool Inside, int Words>
__device__ __forceinline__ void load_aligned(const prepare_arguments& p, const uint8_t* edges,
                                             const uint8_t* at, uint32_t* words) {
    using vector = std::conditional_t<Words == 4, uint4, uint2>;
    vector v;
    if constexpr (Inside) {
        v = __ldg(reinterpret_cast<const vector*>(at));
    } else {
        const bool before = at < p.source, whole = !before && at + sizeof(v) <= p.source_end;
        const uint8_t* edge =
            edges + (before ? 0 : chunk_bytes) + reinterpret_cast<uintptr_t>(at) % chunk_bytes;
        v = *reinterpret_cast<const vector*>(whole ? at : edge);
    }
    words[0] = v.x, words[1] = v.y;
    if constexpr (Words == 4) words[2] = v.z, words[3] = v.w;
}

// The words that start at any byte; where they are not aligned, the aligned ones around them.
template <bool Aligned, int Words>
struct loaded {
    uint32_t x[Aligned ? Words : 2 * Words] = {};
    uint32_t offset = 0;  // of the wanted ones, in bytes

    template <bool Inside>
    __device__ __forceinline__ void load(const prepare_arguments& p, const uint8_t* edges,
                                         const uint8_t* at) {
        if constexpr (!Aligned) {
            offset = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(at) % (4 * Words));
            at -= offset;
            // Where nothing is to be shifted, the upper words do not count: the lower ones again.
            load_aligned<Inside, Words>(p, edges, at + (offset == 0 ? 0 : 4 * Words), x + Words);
        }
        load_aligned<Inside, Words>(p, edges, at, x);
    }

    __device__ __forceinline__ void shift(uint32_t (&y)[Words]) {
        if constexpr (Aligned) {
#pragma unroll
            for (int w = 0; w < Words; ++w) y[w] = x[w];
        } else {
#pragma unroll
            for (int step = Words / 2; step > 0; step /= 2)
#pragma unroll
                for (int w = 0; w < Words + step; ++w)
                    x[w] = offset & (4 * step) ? x[w + step] : x[w];
#pragma unroll
            for (int w = 0; w < Words; ++w) y[w] = __funnelshift_r(x[w], x[w + 1], offset * 8);
        }
    }
};

// Whether loads from bytes [begin, end) of lines [first, last] are inside.
__device__ __forceinline__ bool is_inside(const prepare_arguments& p, const uint8_t* matrix,
                                          int64_t first, int64_t last, int64_t begin, int64_t end) {
    const uint8_t* lowest = matrix + first * p.line_bytes + begin;
    const uint8_t* behind = matrix + last * p.line_bytes + end + (p.aligned ? 0 : chunk_bytes);
    return lowest - reinterpret_cast<uintptr_t>(lowest) % chunk_bytes >= p.source &&
           behind <= p.source_end;
}

// ---- columns -----------------------------------------------------------------------------------

// What a lane transposes at once: `words` words along k of `columns` columns, which are one word
// each of `rows` rows of the target.
template <int Bits>
struct transposed_unit {
    static constexpr int element_bytes = Bits == 4 ? 1 : Bits / 8;
    static constexpr int words = Bits == 4 ? 2 : 4;
    static constexpr int columns = 4 / element_bytes;
    static constexpr int rows = 16 / element_bytes;
    static constexpr int tile_columns = tile_bytes / element_bytes;
    static constexpr int repeats = tile_rows / (8 * rows);  // eight lanes lie along k
};

// Writes a unit to rows 0 .. unit::rows - 1 of `slot`, where rows are tile_words apart.
template <int Bits, int Columns, int Words>
__device__ __forceinline__ void store_unit(uint32_t* slot, const uint32_t (&x)[Columns][Words]) {
#pragma unroll
    for (int w = 0; w < Words; ++w) {
        if constexpr (Bits == 4) {
#pragma unroll
            for (int odd = 0; odd < 2; ++odd) {
                uint32_t unpacked[4], r[4];
#pragma unroll
                for (int c = 0; c < 4; ++c) unpacked[c] = unpack_int4(x[c][w], odd == 1);
                transpose_bytes(unpacked, r);
#pragma unroll
                for (int i = 0; i < 4; ++i) slot[(8 * w + 2 * i + odd) * tile_words] = r[i];
            }
        } else if constexpr (Bits == 8) {
            const uint32_t four[4] = {x[0][w], x[1][w], x[2][w], x[3][w]};
            uint32_t r[4];
            transpose_bytes(four, r);
#pragma unroll
            for (int i = 0; i < 4; ++i) slot[(4 * w + i) * tile_words] = r[i];
        } else if constexpr (Bits == 16) {
            slot[2 * w * tile_words] = __byte_perm(x[0][w], x[1][w], 0x5410);
            slot[(2 * w + 1) * tile_words] = __byte_perm(x[0][w], x[1][w], 0x7632);
        } else {
            slot[w * tile_words] = x[0][w];
        }
    }
}

// Fills the tile of shared memory from row k0 and column n0 of a matrix on. Rows behind the last
// hold any values, columns behind the last hold 0.
template <int Bits, bool Inside, bool Aligned>
__device__ __forceinline__ void load_tile(const prepare_arguments& p, const uint8_t* edges,
                                          const uint8_t* matrix, int64_t k0, int64_t n0,
                                          uint32_t* tile) {
    using unit = transposed_unit<Bits>;
    const int along_k = threadIdx.x % 8, word = threadIdx.x / 8;
    const int64_t n = n0 + word * unit::columns;
    const uint8_t* from = matrix + n * p.line_bytes + (k0 + along_k * unit::rows) * Bits / 8;
    loaded<Aligned, unit::words> x[unit::columns][unit::repeats];
#pragma unroll
    for (int c = 0; c < unit::columns; ++c) {
        if (n + c < p.cols)
#pragma unroll
            for (int i = 0; i < unit::repeats; ++i)
                x[c][i].template load<Inside>(p, edges, from + i * 8 * chunk_bytes);
        from += p.line_bytes;
    }
#pragma unroll
    for (int i = 0; i < unit::repeats; ++i) {
        uint32_t y[unit::columns][unit::words];
#pragma unroll
        for (int c = 0; c < unit::columns; ++c) x[c][i].shift(y[c]);
        store_unit<Bits>(tile + (i * 8 + along_k) * unit::rows * tile_words + (word ^ along_k * 4),
                         y);
    }
}

template <int Bits>
__global__ void __launch_bounds__(block_threads, least_blocks)
    transpose_kernel(const __grid_constant__ prepare_arguments p) {
    using unit = transposed_unit<Bits>;
    constexpr int store_rows = block_threads / 8;  // at once, eight threads to one
    __shared__ __align__(chunk_bytes) uint32_t tile[tile_rows * tile_words];
    __shared__ __align__(chunk_bytes) uint8_t edges[2 * chunk_bytes];
    ptx::launch_dependents();
    const int64_t n0 = int64_t{blockIdx.x} * unit::tile_columns;
    const int64_t last = min(n0 + unit::tile_columns, p.cols) - 1;
    const int64_t row_tiles = ceil_div(p.rows, tile_rows);
    for (int64_t task = blockIdx.y; task < row_tiles * p.batch_count; task += gridDim.y) {
        const int64_t batch = task / row_tiles, k0 = (task - batch * row_tiles) * tile_rows;
        const uint8_t* matrix = p.source + batch * p.matrix_bytes;
        if (!is_inside(p, matrix, n0, last, k0 * Bits / 8, (k0 + tile_rows) * Bits / 8)) {
            load_edges(p, edges);
            load_tile<Bits, false, false>(p, edges, matrix, k0, n0, tile);
        } else if (p.aligned) {
            load_tile<Bits, true, true>(p, edges, matrix, k0, n0, tile);
        } else {
            load_tile<Bits, true, false>(p, edges, matrix, k0, n0, tile);
        }
        __syncthreads();
        const int k = threadIdx.x / 8, chunk = threadIdx.x % 8;
        uint8_t* target = p.target + (batch * p.rows + k0 + k) * p.target_bytes +
                          int64_t{blockIdx.x} * tile_bytes + chunk * chunk_bytes;
#pragma unroll
        for (int i = 0; i < tile_rows; i += store_rows) {
            const int slot = chunk ^ ((i + k) / unit::rows % 8);
            const uint4 v = *reinterpret_cast<const uint4*>(tile + (i + k) * tile_words + slot * 4);
            if (k0 + k + i < p.rows) *reinterpret_cast<uint4*>(target) = v;
            target += store_rows * p.target_bytes;
        }
        __syncthreads();
    }
}

// ---- rows --------------------------------------------------------------------------------------

// Sixteen bytes of the target from the source's words.
__device__ __forceinline__ void expand(const uint32_t (&x)[4], uint32_t (&y)[4]) {
#pragma unroll
    for (int w = 0; w < 4; ++w) y[w] = x[w];
}
__device__ __forceinline__ void expand(const uint32_t (&x)[2], uint32_t (&y)[4]) {
#pragma unroll
    for (int w = 0; w < 2; ++w) {
        const uint2 unpacked = unpack_int4(x[w]);
        y[2 * w] = unpacked.x, y[2 * w + 1] = unpacked.y;
    }
}

// Bytes from `count` on become 0.
__device__ __forceinline__ void keep_bytes(uint32_t (&y)[4], int64_t count) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        const int bits = static_cast<int>(min(max(count - 4 * w, int64_t{0}), int64_t{4})) * 8;
        y[w] &= static_cast<uint32_t>((uint64_t{1} << bits) - 1);
    }
}

// The block's chunks of rows k0 and on and chunks c0 and on of a matrix.
template <int Bits, bool Inside, bool Aligned>
__device__ __forceinline__ void copy_rows(const prepare_arguments& p, const uint8_t* edges,
                                          const uint8_t* matrix, uint8_t* target, int64_t k0,
                                          int64_t c0) {
    constexpr int words = Bits == 4 ? 2 : 4;
    const int64_t byte = (c0 + (threadIdx.x & ((1 << p.wide) - 1))) * chunk_bytes;
    const int64_t k = k0 + (threadIdx.x >> p.wide);
    const int step = block_threads >> p.wide;
    const uint8_t* from = matrix + k * p.line_bytes + byte * Bits / 8;
    loaded<Aligned, words> x[chunks_a_thread];
    if (byte < p.cols)
#pragma unroll
        for (int i = 0; i < chunks_a_thread; ++i) {
            if (Inside || k + i * step < p.rows) x[i].template load<Inside>(p, edges, from);
            from += step * p.line_bytes;
        }
    if (byte >= p.target_bytes) return;
    target += k * p.target_bytes + byte;
#pragma unroll
    for (int i = 0; i < chunks_a_thread; ++i) {
        if (!Inside && k + i * step >= p.rows) return;
        uint32_t packed[words], y[4];
        x[i].shift(packed);
        expand(packed, y);
        if (byte + chunk_bytes > p.cols) keep_bytes(y, p.cols - byte);
        *reinterpret_cast<uint4*>(target) = make_uint4(y[0], y[1], y[2], y[3]);
        target += step * p.target_bytes;
    }
}

// Elements of 4 bits, or of bytes: then p.cols is the bytes of a row.
template <int Bits>
__global__ void __launch_bounds__(block_threads, least_blocks)
    align_kernel(const __grid_constant__ prepare_arguments p) {
    __shared__ __align__(chunk_bytes) uint8_t edges[2 * chunk_bytes];
    ptx::launch_dependents();
    const int rows = chunks_a_thread * block_threads >> p.wide;
    const int64_t c0 = int64_t{blockIdx.x} << p.wide, begin = c0 * chunk_bytes;
    const int64_t end = min(begin + (chunk_bytes << p.wide), round_up(p.cols, chunk_bytes));
    const int64_t row_tiles = ceil_div(p.rows, rows);
    for (int64_t task = blockIdx.y; task < row_tiles * p.batch_count; task += gridDim.y) {
        const int64_t batch = task / row_tiles, k0 = (task - batch * row_tiles) * rows;
        const uint8_t* matrix = p.source + batch * p.matrix_bytes;
        uint8_t* target = p.target + batch * p.rows * p.target_bytes;
        const bool inside = k0 + rows <= p.rows && is_inside(p, matrix, k0, k0 + rows - 1,
                                                             begin * Bits / 8, end * Bits / 8);
        if (!inside) {
            load_edges(p, edges);
            copy_rows<Bits, false, false>(p, edges, matrix, target, k0, c0);
        } else if (p.aligned) {
            copy_rows<Bits, true, true>(p, edges, matrix, target, k0, c0);
        } else {
            copy_rows<Bits, true, false>(p, edges, matrix, target, k0, c0);
        }
    }
}

// ---- host --------------------------------------------------------------------------------------

prepare_arguments make_arguments(const dense_view& b, void* target, const staged_shape& shape,
                                 int64_t matrices) {
    const int64_t bits = storage_bits(b.type);
    prepare_arguments p;
    p.source = static_cast<const uint8_t*>(b.values);
    p.line_bytes = b.ld * bits / 8;
    p.matrix_bytes = b.batch_stride * bits / 8;
    p.source_end = p.source + (matrices - 1) * p.matrix_bytes + (b.outer() - 1) * p.line_bytes +
                   storage_bytes(b.type, b.inner());
    p.aligned = reinterpret_cast<uintptr_t>(p.source) % 16 == 0 && p.line_bytes % 16 == 0 &&
                p.matrix_bytes % 16 == 0;
    p.rows = b.rows;
    p.cols = b.cols;
    p.target = static_cast<uint8_t*>(target);
    p.target_bytes = shape.ld * shape.element_bytes;
    p.batch_count = matrices;
    p.wide = 3;
    return p;
}

using prepare_kernel = void (*)(prepare_arguments);

prepare_kernel kernel_for(const dense_view& b) {
    const int bits = storage_bits(b.type);
    if (b.storage == order::row) return bits == 4 ? align_kernel<4> : align_kernel<8>;
    switch (bits) {
        case 4:
            return transpose_kernel<4>;
        case 8:
            return transpose_kernel<8>;
        case 16:
            return transpose_kernel<16>;
        default:
            return transpose_kernel<32>;
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
    shape.element_bytes = std::max(1, storage_bits(type) / 8);
    shape.ld = round_up(cols, staged_alignment / shape.element_bytes);
    const int64_t matrix = checked_mul(rows, shape.ld, "B's elements");
    shape.batch_stride = batch_count > 1 ? matrix : 0;
    shape.bytes = checked_mul(checked_mul(matrix, shape.element_bytes, "B's bytes"),
                              std::max<int64_t>(batch_count, 1), "B's bytes");
    return shape;
}

void load_prepare_b(const context& ctx, dtype type) {
    const magicube::cuda::device_scope scope(ctx.ordinal);
    for (const order storage : {order::row, order::col}) {
        dense_view b{};
        b.type = type;
        b.storage = storage;
        check(magicube::cuda::load_kernel(kernel_for(b)), "prepare_b");
    }
}

dense_view prepare_b(const context& ctx, const dense_view& b, void* target) {
    const int64_t matrices = b.batch_stride == 0 ? 1 : b.batch_count;
    const staged_shape shape = shape_staged(b.type, b.rows, b.cols, matrices);
    dense_view staged = b;
    staged.values = target;
    staged.type = b.type == dtype::int4 ? dtype::int8 : b.type;
    staged.storage = order::row;
    staged.ld = shape.ld;
    staged.batch_stride = b.batch_stride == 0 ? 0 : shape.batch_stride;
    if (b.empty()) return staged;

    prepare_arguments p = make_arguments(b, target, shape, matrices);
    int rows = tile_rows;
    if (b.storage == order::row) {
        p.cols *= shape.element_bytes;
        // Long runs of a row touch fewer sectors; up to an eighth of the threads may idle for it.
        const int64_t chunks = p.target_bytes / chunk_bytes;
        for (int wide = 4; wide <= 5; ++wide)
            if (round_up(chunks, 1 << wide) <= chunks + chunks / 8) p.wide = wide;
        rows = chunks_a_thread * block_threads >> p.wide;
    }
    const int64_t across = ceil_div(p.target_bytes, int64_t{chunk_bytes} << p.wide);
    const int64_t tasks = ceil_div(b.rows, rows) * matrices;
    const dim3 grid(static_cast<unsigned>(across),
                    static_cast<unsigned>(std::min<int64_t>(tasks, most_task_blocks)));
    magicube::cuda::device_scope scope(ctx.ordinal);
    magicube::cuda::launch_kernel(kernel_for(b), {grid, block_threads, 0, ctx.stream}, p);
    check(cudaGetLastError(), "prepare_b");
    return staged;
}

}  // namespace magicube::spmm::cuda
