// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a Kronecker-sparse factor's values on any GPU.
//
// Computes  gradient[i, j, k, l] = sum over the vectors of
//           dY[(i*b + j)*d + l] * X[(i*c + k)*d + l].
// Layout    all operands as the caller has them, any order, ld and alignment.
// Mapping   a block owns 16 outputs x 16 inputs of one (i, l), a thread one of them; the vectors
//           pass in runs of 32.
// Sums      fp64, rounded once.
// Shared    2 x 32 x 17 floats, static. Any architecture.
// Bound     X is read ceil(b / 16) times and dY ceil(c / 16) times, through L2.
#include "core/ops/kronecker_mm/cuda/gradient.hpp"

#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/ops/cuda/elements.cuh"

namespace magicube::kronecker_mm::cuda {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;
using magicube::cuda::load_element;

constexpr int side = 16, run_length = 32, gradient_threads = side * side;
constexpr int64_t most_blocks = 1 << 20;

struct gradient_arguments {
    dense_view x;
    dense_view dy;
    kronecker_shape k;
    void* values;
    dtype type;
    int64_t j_blocks;
    int64_t k_blocks;
    int64_t tasks;
};

// Vectors [first, first + 32) of 16 features, `d` apart; 0 beyond them.
__device__ void load_run(float (&target)[run_length][side + 1], const dense_view& view,
                         int64_t batch, int64_t feature, int64_t features, int64_t d,
                         int64_t first) {
    const bool by_vectors = view.storage == order::row;
    for (int at = static_cast<int>(threadIdx.x); at < run_length * side; at += gradient_threads) {
        const int n = by_vectors ? at % run_length : at / side;
        const int e = by_vectors ? at / run_length : at % side;
        float value = 0;
        if (e < features && first + n < view.cols) {
            value = load_element<float>(view.values, view.type,
                                        view.index(batch, feature + e * d, first + n));
        }
        target[n][e] = value;
    }
}

__global__ void __launch_bounds__(gradient_threads)
    gradient_kernel(const __grid_constant__ gradient_arguments args) {
    __shared__ float from[run_length][side + 1], to[run_length][side + 1];
    const kronecker_shape& k = args.k;
    const int own_k = static_cast<int>(threadIdx.x) % side;
    const int own_j = static_cast<int>(threadIdx.x) / side;
    for (int64_t task = blockIdx.x; task < args.tasks; task += gridDim.x) {
        const int64_t first_k = task % args.k_blocks * side;
        const int64_t first_j = task / args.k_blocks % args.j_blocks * side;
        const int64_t l = task / args.k_blocks / args.j_blocks % k.d;
        const int64_t i = task / args.k_blocks / args.j_blocks / k.d;
        const int64_t x_feature = (i * k.c + first_k) * k.d + l;
        const int64_t y_feature = (i * k.b + first_j) * k.d + l;
        double sum = 0;
        for (int64_t batch = 0; batch < args.x.batch_count; ++batch) {
            for (int64_t first = 0; first < args.x.cols; first += run_length) {
                load_run(from, args.x, batch, x_feature, k.c - first_k, k.d, first);
                load_run(to, args.dy, batch, y_feature, k.b - first_j, k.d, first);
                __syncthreads();
                for (int n = 0; n < run_length; ++n)
                    sum += static_cast<double>(to[n][own_j]) * static_cast<double>(from[n][own_k]);
                __syncthreads();
            }
        }
        if (first_j + own_j < k.b && first_k + own_k < k.c) {
            const int64_t at = ((i * k.b + first_j + own_j) * k.c + first_k + own_k) * k.d + l;
            magicube::cuda::store_element(args.values, args.type, at, static_cast<float>(sum));
        }
    }
}

}  // namespace

void gradient(const context& ctx, const dense_view& x, const dense_view& dy, dtype target_type,
              const kronecker_factor& target) {
    magicube::cuda::require_on_device(ctx, target.values, "gradient's values");
    if (!x.empty()) magicube::cuda::require_on_device(ctx, x.values, "X");
    if (!dy.empty()) magicube::cuda::require_on_device(ctx, dy.values, "dY");
    gradient_arguments args;
    args.x = x;
    args.dy = dy;
    args.k = target;
    args.values = target.values;
    args.type = target_type;
    args.j_blocks = ceil_div(target.b, int64_t{side});
    args.k_blocks = ceil_div(target.c, int64_t{side});
    args.tasks =
        checked_mul(checked_mul(target.a * target.d, args.j_blocks, "the gradient's tasks"),
                    args.k_blocks, "the gradient's tasks");
    const auto blocks = static_cast<unsigned>(std::min(args.tasks, most_blocks));
    device_scope scope(ctx.ordinal);
    check(magicube::cuda::launch_kernel(gradient_kernel, {blocks, gradient_threads, 0, ctx.stream},
                                        args),
          "gradient_kernel");
}

}  // namespace magicube::kronecker_mm::cuda
