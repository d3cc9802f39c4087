// SPDX-License-Identifier: Apache-2.0
//
// Scales: largest magnitudes, percentiles, and the search for the least mean squared error.
//
// Layout   a dense matrix in its order and ld; for percentile and search fp32 numbers group after
//          group.
// Mapping  absmax along stored lines: a block a part of a line, or of the matrix; across them: a
//          thread a place, over 64 lines; maxima meet by atomicMax on the bits of magnitudes.
//          Search: a block of 128 threads a part of a group; thread i tries candidate i, while the
//          numbers pass through shared memory; a second kernel sums the parts in their order.
//          Percentile: core/device/cuda/select.cuh.
// Shared   4 KB; any architecture; any alignment of elements.
// Bound    absmax: bytes of the matrix. Search: arithmetic, 100 roundings a number.
#include "core/quantize/cuda/scales.hpp"

#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/select.cuh"
#include "core/formats/cuda/elements.cuh"
#include "core/formats/cuda/launch.cuh"
#include "core/quantize/scale_rules.hpp"

namespace magicube::cuda {
namespace {

constexpr int threads = 256;
constexpr int64_t lines_of_thread = 64;
constexpr int64_t max_parts = 1024;  // of a group, in a search or of lines in a maximum
constexpr int search_threads = 128;
constexpr int numbers_at_once = 1024;

// ---- largest magnitudes --------------------------------------------------------------------

// The largest magnitude of up to 8 elements, as bits, which order as magnitudes do; NaN is 0.
__device__ __forceinline__ uint32_t largest_of(const dense_view& matrix, int64_t first,
                                               int64_t step, int64_t count) {
    const eight_elements loaded(matrix.type, matrix.values, first, step, count);
    uint32_t largest = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        const float number = float_from_bits(matrix.type, loaded.bits[k]);
        const uint32_t bits = bits_of(number) & 0x7fffffff;
        largest = max(largest, bits > 0x7f800000 ? 0 : bits);
    }
    return largest;
}

// maxima[line], or maxima[0] for all lines.
__global__ void __launch_bounds__(threads)
    absmax_of_lines_kernel(dense_view matrix, int64_t first, int64_t inner, int64_t outer,
                           bool one_group, uint32_t* maxima) {
    __shared__ uint32_t of_block;
    if (threadIdx.x == 0) of_block = 0;
    __syncthreads();
    uint32_t largest = 0;
    for (int64_t line = blockIdx.x; line < outer; line += gridDim.x) {
        const int64_t start = first + line * matrix.ld;
        for (int64_t i = blockIdx.y * 8 * threads + threadIdx.x; i < inner;
             i += gridDim.y * 8 * threads) {
            const int64_t count = ceil_div(inner - i, threads);
            largest = max(largest, largest_of(matrix, start + i, threads, count));
        }
        if (one_group) continue;
        const uint32_t of_warp = __reduce_max_sync(whole_warp, largest);
        if (threadIdx.x % warp_size == 0) atomicMax(maxima + line, of_warp);
        largest = 0;
    }
    if (!one_group) return;
    largest = __reduce_max_sync(whole_warp, largest);
    if (threadIdx.x % warp_size == 0) atomicMax(&of_block, largest);
    __syncthreads();
    if (threadIdx.x == 0) atomicMax(maxima, of_block);
}

// maxima[i] over all lines.
__global__ void __launch_bounds__(threads)
    absmax_across_lines_kernel(dense_view matrix, int64_t first, int64_t inner, int64_t outer,
                               uint32_t* maxima) {
    for (int64_t i = first_thread(); i < inner; i += thread_stride()) {
        uint32_t largest = 0;
        for (int64_t line = blockIdx.y; line < outer; line += int64_t{gridDim.y} * 8) {
            const int64_t count = ceil_div(outer - line, int64_t{gridDim.y});
            const int64_t start = first + line * matrix.ld + i;
            largest = max(largest, largest_of(matrix, start, gridDim.y * matrix.ld, count));
        }
        atomicMax(maxima + i, largest);
    }
}

__global__ void __launch_bounds__(threads)
    scales_from_absmax_kernel(int64_t groups, dtype target, float* scales) {
    for (int64_t g = first_thread(); g < groups; g += thread_stride()) {
        scales[g] = scale_for_absmax(scales[g], target);
    }
}

// ---- search --------------------------------------------------------------------------------

int64_t parts_of(int64_t per_group) {
    return std::min(std::max<int64_t>(1, per_group / 4096), max_parts);
}

// errors[(group * parts + part) * candidates + i]: of candidate i in that part of the group.
__global__ void __launch_bounds__(search_threads)
    errors_kernel(grouped_numbers all, int64_t parts, dtype target, quantizer round,
                  const float* absmax, double* errors) {
    __shared__ float numbers[numbers_at_once];
    const int candidate = min(static_cast<int>(threadIdx.x), scale_candidates - 1);
    for (int64_t unit = blockIdx.x; unit < all.groups * parts; unit += gridDim.x) {
        const int64_t group = unit / parts;
        const int64_t part = unit - group * parts;
        const float scale = candidate_scale(absmax[group], candidate, target);
        double sum = 0;
        for (int64_t base = part * numbers_at_once; base < all.per_group;
             base += parts * numbers_at_once) {
            const auto count =
                static_cast<int>(min(int64_t{numbers_at_once}, all.per_group - base));
            __syncthreads();
            for (int i = threadIdx.x; i < count; i += search_threads) {
                numbers[i] = all.numbers[group * all.per_group + base + i];
            }
            __syncthreads();
#pragma unroll 8
            for (int i = 0; i < count; ++i) {
                const double error = error_of(numbers[i], scale, round);
                sum += error * error;
            }
        }
        if (threadIdx.x < scale_candidates) {
            errors[unit * scale_candidates + threadIdx.x] = sum;
        }
    }
}

__global__ void __launch_bounds__(search_threads)
    best_candidates_kernel(int64_t groups, int64_t parts, dtype target, const double* errors,
                           float* scales) {
    __shared__ double sums[scale_candidates];
    for (int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
        __syncthreads();
        if (threadIdx.x < scale_candidates) {
            double sum = 0;
#pragma unroll 8
            for (int64_t part = 0; part < parts; ++part) {
                sum += errors[(group * parts + part) * scale_candidates + threadIdx.x];
            }
            sums[threadIdx.x] = sum;
        }
        __syncthreads();
        if (threadIdx.x != 0) continue;
        int best = 0;  // the first of equal ones, which is the larger scale
        for (int i = 1; i < scale_candidates; ++i) {
            if (sums[i] < sums[best]) best = i;
        }
        const float absmax = scales[group];
        scales[group] = absmax == 0 ? 1.0f : candidate_scale(absmax, best, target);
    }
}

// ---- percentile ----------------------------------------------------------------------------

struct magnitude_keys {
    const float* magnitudes;

    __device__ uint64_t operator()(int64_t i) const { return bits_of(magnitudes[i]); }
};

__global__ void __launch_bounds__(threads)
    percentile_scales_kernel(int64_t groups, dtype target, const selected* found, float* scales) {
    for (int64_t g = first_thread(); g < groups; g += thread_stride()) {
        const float magnitude = float_of(static_cast<uint32_t>(found[g].key));
        scales[g] = scales[g] == 0 ? 1.0f : scale_for(magnitude, target);
    }
}

size_t results_bytes(int64_t groups) {
    return static_cast<size_t>(checked_mul(groups, sizeof(selected), "scratch"));
}

}  // namespace

void find_absmax(const context& ctx, const dense_view& matrix, int64_t batch, granularity per,
                 float* out) {
    const int64_t groups = group_count(per, matrix.rows, matrix.cols);
    check(cudaMemsetAsync(out, 0, static_cast<size_t>(groups) * sizeof(float), ctx.stream),
          "cudaMemsetAsync");
    if (matrix.empty()) return;
    auto* maxima = reinterpret_cast<uint32_t*>(out);
    const int64_t first = batch * matrix.batch_stride;
    const int64_t inner = matrix.inner();
    const int64_t outer = matrix.outer();
    const bool along =
        per == granularity::tensor || (per == granularity::row) == (matrix.storage == order::row);
    if (along) {
        // Long lines are shared by blocks, so that a few of them occupy the device too.
        const int64_t parts = std::min(ceil_div(inner, 8 * threads), max_parts);
        const int64_t blocks = per == granularity::tensor ? max_parts : int64_t{1} << 20;
        const dim3 grid(grid_for(std::max<int64_t>(1, std::min(outer, blocks / parts))),
                        static_cast<unsigned>(parts));
        launch_kernel(absmax_of_lines_kernel, {grid, threads, 0, ctx.stream}, matrix, first, inner,
                      outer, per == granularity::tensor, maxima);
        check(cudaGetLastError(), "absmax_of_lines_kernel");
        return;
    }
    const dim3 grid(grid_for(inner, threads),
                    static_cast<unsigned>(std::min(ceil_div(outer, lines_of_thread), max_parts)));
    launch_kernel(absmax_across_lines_kernel, {grid, threads, 0, ctx.stream}, matrix, first, inner,
                  outer, maxima);
    check(cudaGetLastError(), "absmax_across_lines_kernel");
}

void scales_from_absmax(const context& ctx, int64_t groups, dtype target, float* scales) {
    launch_kernel(scales_from_absmax_kernel, {grid_for(groups, threads), threads, 0, ctx.stream},
                  groups, target, scales);
    check(cudaGetLastError(), "scales_from_absmax_kernel");
}

size_t search_scratch(int64_t groups, int64_t per_group) {
    const int64_t sums = checked_mul(groups, parts_of(per_group) * scale_candidates, "scratch");
    return static_cast<size_t>(checked_mul(sums, sizeof(double), "scratch"));
}

void search_scales(const context& ctx, const grouped_numbers& all, dtype target, float* scales,
                   void* scratch) {
    const int64_t parts = parts_of(all.per_group);
    auto* errors = static_cast<double*>(scratch);
    launch_kernel(errors_kernel, {grid_for(all.groups * parts), search_threads, 0, ctx.stream}, all,
                  parts, target, quantizer(target), scales, errors);
    check(cudaGetLastError(), "errors_kernel");
    launch_kernel(best_candidates_kernel, {grid_for(all.groups), search_threads, 0, ctx.stream},
                  all.groups, parts, target, errors, scales);
    check(cudaGetLastError(), "best_candidates_kernel");
}

size_t percentile_scratch(int64_t groups) {
    return results_bytes(groups) + select_scratch;
}

void percentile_scales(const context& ctx, const grouped_numbers& all, double percentile,
                       dtype target, float* scales, void* scratch) {
    // The k-th smallest is so many from the largest.
    const int64_t keep = all.per_group - percentile_rank(percentile, all.per_group) + 1;
    auto* found = static_cast<selected*>(scratch);
    select_largest(ctx, magnitude_keys{all.numbers}, all.groups, {all.per_group, keep, 31, 0},
                   found, static_cast<char*>(scratch) + results_bytes(all.groups));
    launch_kernel(percentile_scales_kernel, {grid_for(all.groups, threads), threads, 0, ctx.stream},
                  all.groups, target, found, scales);
    check(cudaGetLastError(), "percentile_scales_kernel");
}

}  // namespace magicube::cuda
