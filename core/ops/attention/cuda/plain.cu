// SPDX-License-Identifier: Apache-2.0
//
// Attention on any GPU, for every problem: the last resort of CUDA, slow and right.
//
// Computes  out = softmax(scale * Q K^T) V over the allowed keys of each query.
// Layout    all tensors as the caller has them, any strides; pattern in the public layout.
// Mapping   a warp takes one query of one head; its lanes share a key's elements. Scores are
//           computed once for the largest and again for every 256 elements of the output, so that
//           nothing is kept but one query's sums.
// Sums      fp32 by fma, of integers exact; exponentials in double.
// Shared    none. Any architecture, any alignment of elements.
// Bound     latency: a shuffle chain and a row of K a key.
#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/ops/attention/cuda/one_query.cuh"
#include "core/ops/attention/cuda/plain.hpp"
#include "core/ops/reference.hpp"

namespace magicube::attention {
namespace cuda {
namespace {

constexpr int block_warps = 4;

__global__ void __launch_bounds__(block_warps * 32)
    plain_kernel(const __grid_constant__ kernel_arguments args) {
    const int64_t queries = args.pattern.rows, heads = args.shape.q_heads;
    for (int64_t task = int64_t{blockIdx.x} * block_warps + threadIdx.x / 32; task < args.tasks;
         task += int64_t{gridDim.x} * block_warps) {
        one_query(args, task / queries / heads, task / queries % heads, task % queries).compute();
    }
}

}  // namespace

void run_plain(const context& ctx, const kernel_arguments& args) {
    kernel_arguments k = args;
    k.tasks = k.shape.batch_count * k.shape.q_heads * k.pattern.rows;
    const int64_t blocks = std::min<int64_t>(ceil_div(k.tasks, block_warps), INT32_MAX);
    magicube::cuda::device_scope scope(ctx.ordinal);
    magicube::cuda::check(
        magicube::cuda::launch_kernel(
            plain_kernel, {static_cast<unsigned>(blocks), block_warps * 32, 0, ctx.stream}, k),
        "plain_kernel");
}

void load_plain(const context& ctx) {
    const magicube::cuda::device_scope scope(ctx.ordinal);
    magicube::cuda::check(magicube::cuda::load_kernel(plain_kernel), "plain_kernel");
}

namespace {

class plain_plan final : public stored_plan<operation> {
  public:
    plain_plan(const context& ctx, const attention::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)) {
        load_plain(ctx);
    }

    void run(const context& ctx, const arguments& args) const override {
        run_plain(ctx, make_arguments(ctx, problem(), stored().view(), args));
    }
};

double plain_cost(const context&, const problem& p) {
    constexpr double products_per_us = 2e5, launch_us = 3;
    const auto matrices =
        static_cast<double>(p.pattern.different_patterns ? p.pattern.batch_count : 1);
    const double each = static_cast<double>(p.pattern.value_count()) / std::max(matrices, 1.0);
    const double heads = static_cast<double>(p.batch_count) * static_cast<double>(p.q_heads);
    return launch_us + each * heads * 3 * static_cast<double>(p.head_dim) / products_per_us;
}

buffer_needs plain_needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, false).bytes(), 0};
}

}  // namespace
}  // namespace cuda

extern const implementation<operation> cuda_plain;
const implementation<operation> cuda_plain = reference_implementation<operation, cuda::plain_plan>(
    "plain", device_kind::cuda, cuda::plain_cost, cuda::plain_needs);

}  // namespace magicube::attention
