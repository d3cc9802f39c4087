// SPDX-License-Identifier: Apache-2.0
//
// KroneckerMM on any GPU, for every problem: the last resort of CUDA, slow and right.
//
// Computes  one factor a launch: y[(i*b + j)*d + l] = sum over k of W(i, j, k, l) * x[(i*c + k)*d +
//           l] for every vector; the last launch applies the epilogue.
// Layout    K, X and Y as the caller has them; what passes between factors is fp32 in the
//           workspace, [matrix][feature][vector].
// Mapping   a thread owns an element of Y; neighbouring threads own neighbours in memory.
// Sums      64-bit for integers, exact; fp32 by fma for floating types.
// Shared    none. Any architecture, any alignment of elements.
// Bound     c reads of X and W an element, through L1 and L2.
#include <algorithm>
#include <utility>

#include "core/common/checked.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/ops/cuda/elements.cuh"
#include "core/ops/kronecker_mm/cuda/arguments.hpp"
#include "core/ops/kronecker_mm/stored_factors.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/spmm/cuda/store.cuh"

namespace magicube::kronecker_mm {
namespace {

using magicube::cuda::accumulate;
using magicube::cuda::check;
using magicube::cuda::device_scope;
using magicube::cuda::load_element;

constexpr int block_threads = 256;
constexpr int64_t most_blocks = 1 << 20;

struct plain_arguments {
    step k;
    const void* values;
    dtype value_type;
    const void* x;
    dtype x_type;
    int64_t x_feature_stride;
    int64_t x_vector_stride;
    int64_t x_batch_stride;
    float* between;  // null: Y
    int64_t vectors;
    int64_t batch_count;
    spmm::cuda::store_arguments store;
};

template <class Value, class Sum>
__device__ Sum sum_of(const plain_arguments& args, int64_t batch, int64_t feature, int64_t n) {
    const step& s = args.k;
    const int64_t l = feature % s.d, j = feature / s.d % s.b, i = feature / s.d / s.b;
    const int64_t x = batch * args.x_batch_stride + n * args.x_vector_stride +
                      (i * s.c * s.d + l) * args.x_feature_stride;
    Sum sum = 0;
    for (int64_t k = 0; k < s.c; ++k) {
        accumulate(sum, load_element<Value>(args.values, args.value_type, s.index(i, j, k, l)),
                   load_element<Value>(args.x, args.x_type, x + k * s.d * args.x_feature_stride));
    }
    return sum;
}

template <class Value, class Sum>
__global__ void __launch_bounds__(block_threads)
    plain_kernel(const __grid_constant__ plain_arguments args) {
    const int64_t features = args.k.rows(), vectors = args.vectors;
    const int64_t all = features * vectors * args.batch_count;
    const bool by_vectors = args.between || args.store.col_stride == 1;
    for (int64_t at = int64_t{blockIdx.x} * block_threads + threadIdx.x; at < all;
         at += int64_t{gridDim.x} * block_threads) {
        const int64_t batch = at / (features * vectors), place = at % (features * vectors);
        const int64_t feature = by_vectors ? place / vectors : place % features;
        const int64_t n = by_vectors ? place % vectors : place / features;
        const Sum sum = sum_of<Value, Sum>(args, batch, feature, n);
        if (args.between) {
            args.between[at] = static_cast<float>(sum);
        } else {
            spmm::cuda::store_one(args.store, batch, feature, n, sum);
        }
    }
}

// Elements of each of the two arrays that pass results on.
int64_t between_length(const problem& p) {
    int64_t features = 0;
    for (size_t i = 1; i < p.pattern.factors.size(); ++i)
        features = std::max(features, p.pattern.factors[i].rows());
    return checked_mul(checked_mul(features, p.n_max, "workspace"), p.batch_count, "workspace");
}

// Bytes from one array to the next.
int64_t between_bytes(const problem& p) {
    buffer_layout layout;
    layout.reserve(between_length(p), sizeof(float), "workspace");
    return layout.bytes();
}

class plain_plan final : public plan {
  public:
    plain_plan(const context& ctx, const kronecker_mm::problem& p, plan_resources resources)
        : plan(ctx, p, std::move(resources)), steps_(steps_of(p.pattern, p.transpose)), stored_(p) {
        if (p.values != value_mode::per_call) plain_plan::pack_values(ctx, value_arrays(p).data());
        const device_scope scope(ctx.ordinal);
        check(magicube::cuda::load_kernel(kernel_for(p.pattern.type)), "plain_kernel");
    }

    void pack_values(const context& ctx, const void* const* values) override {
        stored_.copy(ctx, problem(), values, resources().buffer.data());
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const bool per_call = p.values == value_mode::per_call;
        if (per_call) cuda::require_values_on_device(ctx, p, args.k_values);
        const auto x = as_columns(args.x, p.layout);
        plain_arguments k{};
        k.value_type = k.x_type = p.pattern.type;
        k.x = x.values;
        k.x_feature_stride = x.storage == order::row ? x.ld : 1;
        k.x_vector_stride = x.storage == order::row ? 1 : x.ld;
        k.x_batch_stride = x.batch_stride;
        k.vectors = x.cols;
        k.batch_count = p.batch_count;
        k.store = cuda::make_store(ctx, p, args);
        for (size_t i = 0; i < steps_.size(); ++i) {
            const auto factor = static_cast<size_t>(steps_[i].first);
            k.k = steps_[i];
            k.values = per_call ? args.k_values[factor]
                                : resources().buffer.data() + stored_.offsets[factor];
            k.between = nullptr;
            if (i + 1 < steps_.size()) {
                k.between =
                    reinterpret_cast<float*>(static_cast<char*>(args.workspace) +
                                             static_cast<int64_t>(i % 2) * between_bytes(p));
            }
            launch(ctx, k);
            k.x = k.between;
            k.x_type = dtype::fp32;
            k.x_feature_stride = x.cols;
            k.x_vector_stride = 1;
            k.x_batch_stride = steps_[i].rows() * x.cols;
        }
    }

  private:
    static auto kernel_for(dtype values) -> decltype(&plain_kernel<float, float>) {
        return is_integer(values) ? plain_kernel<int32_t, int64_t> : plain_kernel<float, float>;
    }

    static void launch(const context& ctx, const plain_arguments& k) {
        const int64_t all = k.k.rows() * k.vectors * k.batch_count;
        const auto blocks =
            static_cast<unsigned>(std::min(ceil_div(all, int64_t{block_threads}), most_blocks));
        device_scope scope(ctx.ordinal);
        check(magicube::cuda::launch_kernel(kernel_for(k.value_type),
                                            {blocks, block_threads, 0, ctx.stream}, k),
              "plain_kernel");
    }

    std::vector<step> steps_;
    stored_factors stored_;
};

double plain_cost(const context&, const problem& p) {
    constexpr double products_per_us = 1e6, launch_us = 3;
    double products = 0;
    for (const auto& factor : p.pattern.factors)
        products += static_cast<double>(factor.value_count());
    return launch_us * static_cast<double>(p.pattern.count()) +
           products * static_cast<double>(p.n_max) * static_cast<double>(p.batch_count) /
               products_per_us;
}

buffer_needs plain_needs(const context&, const problem& p) {
    return {stored_factors(p).bytes, checked_mul(between_bytes(p), 2, "workspace")};
}

}  // namespace

extern const implementation<operation> cuda_plain;
const implementation<operation> cuda_plain = reference_implementation<operation, plain_plan>(
    "plain", device_kind::cuda, plain_cost, plain_needs);

}  // namespace magicube::kronecker_mm
