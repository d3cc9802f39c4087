// SPDX-License-Identifier: Apache-2.0
//
// Dequantisation: real[i, j] = scale[...] * (float)quantized[i, j], rounded once to the real type.
//
// Layout   both matrices in their own order and ld, batches apart by their strides.
// Mapping  threadIdx.x runs along the stored rows (or columns) of `real`, so that writes coalesce
//          and, when both orders agree, reads do too; blockIdx.y strides over stored rows and
//          batches.
// Types    chosen at run time outside the loop over elements: the kernel moves bytes, nothing else.
// Shared   none; any architecture; any alignment of elements.
// Bound    bytes of both matrices over the device's memory bandwidth.
#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/quantize/cuda/dequantize.hpp"

namespace magicube::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int64_t max_grid_y = 65535;

__device__ float load_integer(const dense_view& m, int64_t i) {
    switch (m.type) {
        case dtype::int4:
            return static_cast<float>(load_int4(static_cast<const uint8_t*>(m.values), i));
        case dtype::int8:
            return static_cast<const int8_t*>(m.values)[i];
        case dtype::uint8:
            return static_cast<const uint8_t*>(m.values)[i];
        case dtype::int12:
        case dtype::int16:
            return static_cast<const int16_t*>(m.values)[i];
        default:
            return static_cast<float>(static_cast<const int32_t*>(m.values)[i]);
    }
}

__device__ void store_real(const dense_view& m, int64_t i, float value) {
    switch (m.type) {
        case dtype::fp16:
            static_cast<half*>(m.values)[i] = half(value);
            break;
        case dtype::bf16:
            static_cast<bfloat16*>(m.values)[i] = bfloat16(value);
            break;
        default:
            static_cast<float*>(m.values)[i] = value;
            break;
    }
}

__global__ void __launch_bounds__(block_threads)
    dequantize_kernel(dense_view quantized, dense_view real, scale_array scales, int64_t inner,
                      int64_t outer, int64_t batch_count) {
    const bool by_rows = real.storage == order::row;
    const int64_t along = int64_t{blockIdx.x} * block_threads + threadIdx.x;
    if (along >= inner) return;
    for (int64_t line = blockIdx.y; line < outer * batch_count; line += gridDim.y) {
        const int64_t batch = line / outer;
        const int64_t across = line - batch * outer;
        const int64_t row = by_rows ? across : along;
        const int64_t col = by_rows ? along : across;
        const float s =
            scales
                .data[batch * scales.batch_stride + row * scales.row_step + col * scales.col_step];
        const float q = load_integer(quantized, quantized.index(batch, row, col));
        store_real(real, real.index(batch, row, col), mul_rn(s, q));
    }
}

}  // namespace

void dequantize(const context& ctx, const dense_view& quantized, const scale_array& scales,
                const dense_view& real) {
    if (real.empty()) return;
    device_scope scope(ctx.ordinal);
    require_on_device(ctx, quantized.values, "quantized");
    require_on_device(ctx, scales.data, "scales");
    require_on_device(ctx, real.values, "real");
    const int64_t blocks = ceil_div(real.inner(), block_threads);
    require_value(blocks <= INT32_MAX, "real has ", real.inner(),
                  " elements a stored row; a CUDA launch covers at most ",
                  int64_t{INT32_MAX} * block_threads);
    const dim3 grid(static_cast<unsigned>(blocks),
                    static_cast<unsigned>(std::min(real.outer() * real.batch_count, max_grid_y)));
    launch_kernel(dequantize_kernel, {grid, block_threads, 0, ctx.stream}, quantized, real, scales,
                  real.inner(), real.outer(), real.batch_count);
    check(cudaGetLastError(), "dequantize_kernel");
}

}  // namespace magicube::cuda
