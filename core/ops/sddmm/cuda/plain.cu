// SPDX-License-Identifier: Apache-2.0
//
// SDDMM on any GPU, for every problem: the last resort of CUDA, slow and right.
//
// Computes  values[i, j] = epilogue(A[i, :] * B[:, j]) wherever the pattern has an element; padding
//           and absent elements become 0.
// Layout    all operands as the caller has them, any order, ld and alignment.
// Mapping   a block takes a block row of a matrix of the batch, its threads the elements in the
//           order of memory; each sums one product of a row and a column.
// Sums      64-bit for integers, exact; fp32 by fma for floating types.
// Shared    none. Any architecture, any alignment of elements.
// Bound     loads of single elements, two a multiply-add.
#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/ops/cuda/elements.cuh"
#include "core/ops/reference.hpp"
#include "core/ops/sddmm/cuda/output.hpp"

namespace magicube::sddmm {
namespace cuda {
namespace {

using magicube::cuda::accumulate;
using magicube::cuda::load_element;

constexpr int block_threads = 128;

struct plain_arguments {
    dense_view a;
    dense_view b;
    int64_t tasks;
    output_arguments out;
};

template <class Value, class Sum>
__device__ Sum dot(const plain_arguments& args, int64_t batch, int64_t row, int64_t col) {
    Sum sum = 0;
    for (int64_t k = 0; k < args.a.cols; ++k) {
        accumulate(sum,
                   load_element<Value>(args.a.values, args.a.type, args.a.index(batch, row, k)),
                   load_element<Value>(args.b.values, args.b.type, args.b.index(batch, k, col)));
    }
    return sum;
}

template <class Value, class Sum>
__global__ void __launch_bounds__(block_threads)
    plain_kernel(const __grid_constant__ plain_arguments args) {
    const auto& pattern = args.out.pattern;
    const int64_t v_count = pattern.vector_length, stride = pattern.stride;
    const int64_t block_rows = pattern.block_rows();
    for (int64_t task = blockIdx.x; task < args.tasks; task += gridDim.x) {
        const int64_t batch = task / block_rows, block_row = task % block_rows;
        const int64_t index = pattern.block_row_index(pattern.matrix_for(batch), block_row);
        const int64_t begin = pattern.row_begin[index], end = pattern.row_end[index];
        const epilogue finish = args.out.epilogue_of(batch);
        const int64_t count = (round_up(end, stride) - begin) * v_count;
        for (int64_t e = threadIdx.x; e < count; e += block_threads) {
            const int64_t slot = begin + e / (v_count * stride) * stride + e % stride;
            const int64_t v = e / stride % v_count, row = block_row * v_count + v;
            const int64_t at = pattern.value_index(batch, slot, v);
            const bool exists = slot < end && row < pattern.rows && pattern.exists(slot, v);
            const int64_t col = exists ? pattern.col_indices[slot] : 0;
            const Sum sum = exists ? dot<Value, Sum>(args, batch, row, col) : Sum{0};
            if (args.out.type == dtype::int32) {
                static_cast<int32_t*>(pattern.values)[at] = static_cast<int32_t>(sum);
            } else {
                const float y = exists ? finish(row, col, static_cast<float>(sum), 0) : 0;
                magicube::cuda::store_element(pattern.values, args.out.type, at, y);
            }
        }
    }
}

class plain_plan final : public stored_plan<operation> {
  public:
    plain_plan(const context& ctx, const sddmm::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)) {
        const magicube::cuda::device_scope scope(ctx.ordinal);
        magicube::cuda::check(magicube::cuda::load_kernel(kernel()), "plain_kernel");
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const auto& pattern = stored().view();
        const int64_t tasks =
            checked_mul(p.batch_count, pattern.block_rows(), "problem->batch_count");
        const plain_arguments k{args.a, args.b, tasks, make_output(ctx, p, pattern, args)};
        const auto grid = static_cast<unsigned>(std::min<int64_t>(tasks, INT32_MAX));
        magicube::cuda::device_scope scope(ctx.ordinal);
        magicube::cuda::launch_kernel(kernel(), {grid, block_threads, 0, ctx.stream}, k);
        magicube::cuda::check(cudaGetLastError(), "plain_kernel");
    }

  private:
    auto kernel() const -> decltype(&plain_kernel<float, float>) {
        return is_integer(problem().a_type) ? plain_kernel<int32_t, int64_t>
                                            : plain_kernel<float, float>;
    }
};

double plain_cost(const context&, const problem& p) {
    constexpr double products_per_us = 2e5, launch_us = 3;
    return launch_us + static_cast<double>(p.pattern.value_count()) * static_cast<double>(p.k_max) *
                           static_cast<double>(p.batch_count) / products_per_us;
}

buffer_needs plain_needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, false).bytes(), 0};
}

}  // namespace
}  // namespace cuda

extern const implementation<operation> cuda_plain;
const implementation<operation> cuda_plain = reference_implementation<operation, cuda::plain_plan>(
    "plain", device_kind::cuda, cuda::plain_cost, cuda::plain_needs);

}  // namespace magicube::sddmm
