// SPDX-License-Identifier: Apache-2.0
//
// Magnitude pruning: norms of all vectors in fp64, the threshold of each scope, the keep-mask.
//
// Layout   weight and mask in their own order and ld; norms block row after block row.
// Mapping  norms and mask: a thread a vector, threads along the columns, V elements in row order.
//          Thresholds: core/device/cuda/select.cuh over the norms' bits, which order as they do.
// Shared   that of the select; any architecture; any alignment of elements.
// Bound    bytes: the weight and 8 a vector once, 8 a vector for each of up to 9 digits, the mask.
#include "core/prune/cuda/prune.hpp"

#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/select.cuh"
#include "core/formats/cuda/elements.cuh"
#include "core/formats/cuda/launch.cuh"
#include "core/prune/ranking.hpp"

namespace magicube::cuda {
namespace {

constexpr int threads = 256;

// Norms are at least 0 and no NaN: read as integers they are in the same order.
struct norm_keys {
    const double* norms;

    __device__ uint64_t operator()(int64_t i) const {
        return static_cast<uint64_t>(__double_as_longlong(norms[i]));
    }
};

// Vectors of one matrix; number block_row * cols + col.
struct vector_grid {
    int64_t rows;
    int64_t cols;
    int64_t count;
    int32_t length;

    vector_grid(const dense_view& weight, int32_t v)
        : rows(weight.rows),
          cols(weight.cols),
          count(ceil_div(weight.rows, v) * weight.cols),
          length(v) {}
};

__device__ double number_of(dtype type, uint32_t bits) {
    if (is_floating(type)) return float_from_bits(type, bits);
    if (type == dtype::uint8) return bits;
    const int unused = 32 - storage_bits(type);
    return static_cast<int32_t>(bits << unused) >> unused;
}

// Of the `height` elements from `start` on, `step` apart.
__device__ double norm_of(const dense_view& weight, int64_t start, int64_t step, int height,
                          prune_norm norm) {
    double sum = 0;
    if (height == 1) {
        const uint32_t bits = load_bits(weight.type, weight.values, start);
        add_term(sum, number_of(weight.type, bits), norm);
        return sum;
    }
    for (int r = 0; r < height; r += 8) {
        const eight_elements loaded(weight.type, weight.values, start + r * step, step, height - r);
        // Absent ones add +0, which changes no sum.
#pragma unroll
        for (int k = 0; k < 8; ++k) add_term(sum, number_of(weight.type, loaded.bits[k]), norm);
    }
    return sum;
}

__global__ void __launch_bounds__(threads)
    norms_kernel(dense_view weight, int64_t batch, vector_grid grid, prune_norm norm,
                 double* norms) {
    const int64_t step = weight.storage == order::row ? weight.ld : 1;
    for (int64_t i = first_thread(); i < grid.count; i += thread_stride()) {
        const int64_t block_row = i / grid.cols;
        const int64_t row = block_row * grid.length;
        const int64_t start = weight.index(batch, row, i - block_row * grid.cols);
        const auto height = static_cast<int>(min(int64_t{grid.length}, grid.rows - row));
        norms[i] = rankable(norm_of(weight, start, step, height, norm));
    }
}

__global__ void __launch_bounds__(threads)
    mask_kernel(dense_view mask, int64_t batch, vector_grid grid, prune_scope scope,
                const double* norms, const selected* kept) {
    auto* bytes = static_cast<uint8_t*>(mask.values);
    const int64_t step = mask.storage == order::row ? mask.ld : 1;
    for (int64_t i = first_thread(); i < grid.count; i += thread_stride()) {
        const int64_t block_row = i / grid.cols;
        const int64_t col = i - block_row * grid.cols;
        const bool by_row = scope == prune_scope::row;
        const selected& found = kept[by_row ? block_row : 0];
        const selection choice{__longlong_as_double(static_cast<int64_t>(found.key)),
                               found.last_tie};
        const uint8_t keeps = choice.keeps(norms[i], by_row ? col : i);
        const int64_t row = block_row * grid.length;
        const int64_t start = mask.index(batch, row, col);
        const auto height = static_cast<int>(min(int64_t{grid.length}, grid.rows - row));
        for (int r = 0; r < height; ++r) bytes[start + r * step] = keeps;
    }
}

// Where all or none is kept there is nothing to select.
__global__ void __launch_bounds__(threads) mask_all_kernel(dense_view mask, uint8_t value) {
    const int64_t inner = mask.storage == order::row ? mask.cols : mask.rows;
    const int64_t outer = mask.storage == order::row ? mask.rows : mask.cols;
    auto* bytes = static_cast<uint8_t*>(mask.values);
    for (int64_t i = first_thread(); i < inner * outer * mask.batch_count; i += thread_stride()) {
        const int64_t line = i / inner;
        const int64_t batch = line / outer;
        const int64_t at = (line - batch * outer) * mask.ld + (i - line * inner);
        bytes[batch * mask.batch_stride + at] = value;
    }
}

int64_t scopes_of(const dense_view& weight, const prune_params& params) {
    return params.scope == prune_scope::row ? ceil_div(weight.rows, params.vector_length) : 1;
}

}  // namespace

size_t prune_workspace(const dense_view& weight, const prune_params& params) {
    const int64_t vectors =
        checked_mul(ceil_div(weight.rows, params.vector_length), weight.cols, "scratch");
    const int64_t norms = checked_mul(vectors, sizeof(double), "scratch");
    const int64_t results = checked_mul(scopes_of(weight, params), sizeof(selected), "scratch");
    const int64_t rest = checked_add(results, select_scratch, "scratch");
    return static_cast<size_t>(checked_add(round_up(norms, 16), rest, "scratch"));
}

void prune(const context& ctx, const dense_view& weight, const prune_params& params, int64_t keep,
           const dense_view& mask, void* workspace) {
    device_scope scope(ctx.ordinal);
    cuda::require_on_device(ctx, weight.values, "weight");
    cuda::require_on_device(ctx, mask.values, "mask");
    cuda::require_on_device(ctx, workspace, "workspace");
    const vector_grid grid(weight, params.vector_length);
    const int64_t scopes = scopes_of(weight, params);
    const int64_t in_scope = grid.count / scopes;
    if (keep == 0 || keep == in_scope) {
        const int64_t elements = mask.rows * mask.cols * mask.batch_count;
        launch_kernel(mask_all_kernel, {grid_for(elements, threads), threads, 0, ctx.stream}, mask,
                      keep != 0);
        check(cudaGetLastError(), "mask_all_kernel");
        return;
    }
    auto* norms = static_cast<double*>(workspace);
    char* behind =
        static_cast<char*>(workspace) + round_up(grid.count * int64_t{sizeof(double)}, 16);
    void* scratch = behind;
    auto* kept = reinterpret_cast<selected*>(behind + select_scratch);
    const select_problem problem{in_scope, keep, 63, index_bits_of(in_scope)};
    const unsigned blocks = grid_for(grid.count, threads);
    for (int64_t batch = 0; batch < weight.batch_count; ++batch) {
        launch_kernel(norms_kernel, {blocks, threads, 0, ctx.stream}, weight, batch, grid,
                      params.norm, norms);
        check(cudaGetLastError(), "norms_kernel");
        select_largest(ctx, norm_keys{norms}, scopes, problem, kept, scratch);
        launch_kernel(mask_kernel, {blocks, threads, 0, ctx.stream}, mask, batch, grid,
                      params.scope, norms, kept);
        check(cudaGetLastError(), "mask_kernel");
    }
}

}  // namespace magicube::cuda
