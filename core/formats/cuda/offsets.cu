// SPDX-License-Identifier: Apache-2.0
//
// Lays lists out one after another: exclusive sums of their lengths, each rounded up to a multiple.
//
// Layout   begins, ends: int32 or int64, one entry a list; ends holds the lengths on input.
// Mapping  one block of 1024 threads walks the lists, 4 neighbours a thread and step; shuffles scan
//          a warp, shared memory the 32 warps, a register carries the sum from step to step.
//          One block needs neither scratch nor a second launch.
// Shared   256 bytes; any architecture; arrays aligned to their entries.
// Bound    latency of a step, which 4096 lists share.
#include "core/formats/cuda/offsets.hpp"

#include "core/common/checked.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/runtime.hpp"
#include "core/device/cuda/scan.cuh"
#include "core/formats/cuda/launch.cuh"

namespace magicube::cuda {
namespace {

constexpr int threads = 1024;
constexpr int per_thread = 4;

__global__ void __launch_bounds__(threads)
    place_lists_kernel(void* begins, void* ends, index_type type, int64_t lists, int32_t multiple) {
    int64_t carried = 0;
    for (int64_t base = 0; base < lists; base += threads * per_thread) {
        const int64_t first = base + int64_t{threadIdx.x} * per_thread;
        int64_t lengths[per_thread];
        int64_t sum = 0;
        for (int k = 0; k < per_thread; ++k) {
            const index_array given{ends, type};
            lengths[k] = first + k < lists ? given[first + k] : 0;
            sum += round_up(lengths[k], multiple);
        }
        int64_t all = 0;
        int64_t begin = carried + sum_before<threads>(sum, &all);
        for (int k = 0; k < per_thread && first + k < lists; ++k) {
            put_index(begins, type, first + k, begin);
            put_index(ends, type, first + k, begin + lengths[k]);
            begin += round_up(lengths[k], multiple);
        }
        carried += all;
    }
    __syncthreads();
    // Tells the host of a sum that the type cannot hold.
    if (type == index_type::int32 && carried > INT32_MAX && threadIdx.x == 0) {
        put_index(ends, type, lists - 1, -1);
    }
}

int64_t read_index(const context& ctx, const void* array, index_type type, int64_t i) {
    int64_t wide = 0;
    int32_t narrow = 0;
    const bool is_wide = type == index_type::int64;
    void* target = is_wide ? static_cast<void*>(&wide) : &narrow;
    const int64_t bytes = index_bytes(type);
    cuda::copy(ctx, target, static_cast<const char*>(array) + i * bytes,
               static_cast<size_t>(bytes));
    cuda::synchronize(ctx);
    return is_wide ? wide : narrow;
}

}  // namespace

int64_t place_lists(const context& ctx, void* begins, void* ends, index_type type, int64_t lists,
                    int32_t multiple, const char* what) {
    if (lists == 0) return 0;
    launch_kernel(place_lists_kernel, {1, threads, 0, ctx.stream}, begins, ends, type, lists,
                  multiple);
    check(cudaGetLastError(), "place_lists_kernel");
    const int64_t end = read_index(ctx, ends, type, lists - 1);
    require_value(end >= 0, what, " is above ", INT32_MAX, "; int32 offsets hold at most ",
                  INT32_MAX, " (use MAGICUBE_INDEX_64)");
    return round_up(end, multiple);
}

int64_t lengths_to_offsets(const context& ctx, void* offsets, index_type type, int64_t lists,
                           const char* what) {
    if (lists == 0) {
        check(cudaMemsetAsync(offsets, 0, static_cast<size_t>(index_bytes(type)), ctx.stream),
              "cudaMemsetAsync");
        return 0;
    }
    void* ends = static_cast<char*>(offsets) + index_bytes(type);
    return place_lists(ctx, offsets, ends, type, lists, 1, what);
}

}  // namespace magicube::cuda
