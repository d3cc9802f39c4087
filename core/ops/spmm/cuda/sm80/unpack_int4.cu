// SPDX-License-Identifier: Apache-2.0
// Values of 4 bits as int8, for kernels that multiply bytes: a thread unpacks one byte.
#include <algorithm>

#include "core/device/cuda/check.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/ops/spmm/cuda/sm80/gather_launch.hpp"

namespace magicube::spmm::sm80 {
namespace {

constexpr int block_threads = 256;

__global__ void __launch_bounds__(block_threads)
    unpack_kernel(const uint8_t* source, int64_t source_bytes, int64_t count, int8_t* target) {
    const int64_t array = blockIdx.y;
    const int64_t pairs = (count + 1) / 2;
    for (int64_t i = int64_t{blockIdx.x} * block_threads + threadIdx.x; i < pairs;
         i += int64_t{gridDim.x} * block_threads) {
        const uint8_t* bytes = source + array * source_bytes;
        int8_t* to = target + array * count + 2 * i;
        to[0] = static_cast<int8_t>(load_int4(bytes, 2 * i));
        if (2 * i + 1 < count) to[1] = static_cast<int8_t>(load_int4(bytes, 2 * i + 1));
    }
}

}  // namespace

void load_unpack_int4(const context& ctx) {
    const magicube::cuda::device_scope scope(ctx.ordinal);
    magicube::cuda::check(magicube::cuda::load_kernel(unpack_kernel), "unpack_kernel");
}

void unpack_int4(const context& ctx, const void* source, int64_t source_stride, int64_t count,
                 int64_t arrays, void* target) {
    if (count == 0 || arrays == 0) return;
    constexpr int64_t most_arrays = 65535;  // of a launch
    magicube::cuda::device_scope scope(ctx.ordinal);
    for (int64_t first = 0; first < arrays; first += most_arrays) {
        const dim3 grid(
            static_cast<unsigned>(std::min<int64_t>(ceil_div(count, 2 * block_threads), 4096)),
            static_cast<unsigned>(std::min(arrays - first, most_arrays)));
        magicube::cuda::launch_kernel(
            unpack_kernel, {grid, block_threads, 0, ctx.stream},
            static_cast<const uint8_t*>(source) + first * source_stride / 2, source_stride / 2,
            count, static_cast<int8_t*>(target) + first * count);
        magicube::cuda::check(cudaGetLastError(), "unpack_kernel");
    }
}

}  // namespace magicube::spmm::sm80
