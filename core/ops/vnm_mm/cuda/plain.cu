// SPDX-License-Identifier: Apache-2.0
//
// SpMM with A in V:N:M on any GPU, for every problem: the last resort of CUDA, slow and right.
//
// Computes  C = epilogue(A * B), A in the public layout, so that values may come with each call.
// Layout    all operands as the caller has them, any order, ld and alignment.
// Mapping   a thread owns an element of C; neighbouring threads own neighbouring columns.
//           blockIdx.x walks over columns, y over rows, z over the batch.
// Sums      64-bit for integers, exact; fp32 by fma for floating types.
// Shared    none. Any architecture, any alignment of elements.
// Bound     the bytes of B's rows, two a group, through L2.
#include <algorithm>
#include <utility>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/ops/cuda/elements.cuh"
#include "core/ops/reference.hpp"
#include "core/ops/spmm/cuda/store.cuh"
#include "core/ops/vnm_mm/vnm_mm.hpp"

namespace magicube::vnm_mm {
namespace {

using magicube::cuda::accumulate;
using magicube::cuda::check;
using magicube::cuda::device_scope;
using magicube::cuda::load_element;

constexpr int block_threads = 128;
constexpr int64_t most_in_grid = 65535;  // along y and z

struct plain_arguments {
    vnm_view a;
    const void* b;
    dtype b_type;
    int64_t b_row_stride;
    int64_t b_col_stride;
    int64_t b_batch_stride;
    int64_t batch_count;
    spmm::cuda::store_arguments store;
};

template <class Value, class Sum>
__device__ Sum sum_of(const plain_arguments& args, int64_t batch, int64_t i, int64_t j) {
    const vnm_view& a = args.a;
    const int64_t block_row = i / a.vector_length, groups = a.groups();
    const int64_t column = batch * args.b_batch_stride + j * args.b_col_stride;
    Sum sum = 0;
    for (int64_t group = 0; group < groups; ++group) {
        for (int32_t which = 0; which < a.n; ++which) {
            const int32_t place = a.place(i, group, which);
            if (place >= a.group_width(group)) continue;  // a repeated column
            const int64_t k = group * a.m + a.loc(a.loc_index(block_row, group, place));
            const int64_t index = a.value_index(a.matrix_for(batch), i, group, which);
            accumulate(sum, load_element<Value>(a.values, a.type, index),
                       load_element<Value>(args.b, args.b_type, column + k * args.b_row_stride));
        }
    }
    return sum;
}

template <class Value, class Sum>
__global__ void __launch_bounds__(block_threads)
    plain_kernel(const __grid_constant__ plain_arguments args) {
    const int64_t j = int64_t{blockIdx.x} * block_threads + threadIdx.x;
    if (j >= args.store.cols) return;
    for (int64_t batch = blockIdx.z; batch < args.batch_count; batch += gridDim.z)
        for (int64_t i = blockIdx.y; i < args.store.rows; i += gridDim.y)
            spmm::cuda::store_one(args.store, batch, i, j, sum_of<Value, Sum>(args, batch, i, j));
}

class plain_plan final : public stored_plan<operation> {
  public:
    plain_plan(const context& ctx, const vnm_mm::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources), p.values != value_mode::per_call) {}

    void pack_values(const context& ctx, const void* values) override {
        stored().copy_values(ctx, values);
    }

    vnm_view matrix_with(const void* values) const override { return stored().view_with(values); }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const dense_view& b = args.b;
        const bool per_call = p.values == value_mode::per_call;
        plain_arguments k;
        k.a = per_call ? stored().view_with(args.a_values) : stored().view();
        k.b = b.values;
        k.b_type = b.type;
        k.b_row_stride = b.storage == order::row ? b.ld : 1;
        k.b_col_stride = b.storage == order::row ? 1 : b.ld;
        k.b_batch_stride = b.batch_stride;
        k.batch_count = p.batch_count;
        k.store = spmm::cuda::make_store_arguments(ctx, p, args);
        const auto in_grid = [](int64_t count) {
            return static_cast<unsigned>(std::min(count, most_in_grid));
        };
        const dim3 grid(static_cast<unsigned>(ceil_div(k.store.cols, int64_t{block_threads})),
                        in_grid(k.store.rows), in_grid(p.batch_count));
        const auto kernel =
            is_integer(k.a.type) ? plain_kernel<int32_t, int64_t> : plain_kernel<float, float>;
        device_scope scope(ctx.ordinal);
        check(magicube::cuda::launch_kernel(kernel, {grid, block_threads, 0, ctx.stream}, k),
              "plain_kernel");
    }
};

double plain_cost(const context&, const problem& p) {
    constexpr double products_per_us = 2e6, launch_us = 3;
    return launch_us + static_cast<double>(p.pattern.value_count()) * static_cast<double>(p.n_max) *
                           static_cast<double>(p.batch_count) / products_per_us;
}

buffer_needs plain_needs(const context&, const problem& p) {
    return {stored_copy<vnm_view>(p.pattern, p.values != value_mode::per_call).bytes(), 0};
}

}  // namespace

extern const implementation<operation> cuda_plain;
const implementation<operation> cuda_plain = reference_implementation<operation, plain_plan>(
    "plain", device_kind::cuda, plain_cost, plain_needs);

}  // namespace magicube::vnm_mm
