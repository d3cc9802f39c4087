// SPDX-License-Identifier: Apache-2.0
// Attention of one query by one warp, as the definition reads: the whole of the plain kernel, and
// what other kernels fall back on for queries that they cannot compute.
#pragma once

#include "core/ops/attention/cuda/arguments.hpp"
#include "core/ops/cuda/elements.cuh"

namespace magicube::attention::cuda {

class one_query {
  public:
    __device__ one_query(const kernel_arguments& args, int64_t batch, int64_t head, int64_t query)
        : args_(args),
          batch_(batch),
          head_(head),
          query_(query),
          v_(query % args.pattern.vector_length),
          scale_(args.scale.get()),
          keys_(keys_for(args.shape, args.causal_offsets, args.key_lengths, batch)) {
        const int64_t index = args.pattern.block_row_index(args.shape.pattern_of(batch, head),
                                                           query / args.pattern.vector_length);
        begin_ = args.pattern.row_begin[index];
        end_ = args.pattern.row_end[index];
    }

    // All lanes of a warp.
    __device__ void compute() const {
        float largest = -INFINITY;
        bool invalid = false;
        each_score([&](int64_t, float score) {
            invalid = invalid || !(score < INFINITY);
            if (score > largest) largest = score;
        });
        if (invalid) largest = NAN;
        float total = 0;
        for (int64_t d = 0; d < args_.shape.head_dim; d += sums_at_once)
            total = sum_values(d, largest);
        if (args_.log_sum_exp && threadIdx.x % 32 == 0) {
            const double statistic =
                static_cast<double>(largest) + std::log(static_cast<double>(total));
            args_.log_sum_exp[args_.statistic_index(batch_, head_, query_)] =
                largest > -INFINITY ? static_cast<float>(statistic) : largest;
        }
    }

  private:
    static constexpr int lane_sums = 8;
    static constexpr int sums_at_once = 32 * lane_sums;

    __device__ float load(const tensor& from, int64_t at) const {
        return magicube::cuda::load_element<float>(from.values, args_.shape.in_type, at);
    }

    __device__ float score(int64_t key) const {
        const int64_t q = args_.q.row(batch_, head_, query_);
        const int64_t k = args_.k.row(batch_, args_.kv_head_of(head_), key);
        float sum = 0;
        for (int64_t d = threadIdx.x % 32; d < args_.shape.head_dim; d += 32)
            sum = fma_rn(load(args_.q, q + d), load(args_.k, k + d), sum);
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        return mul_rn(scale_, sum);
    }

    // Calls visit(key, score) for each allowed key; all lanes get the same.
    template <class Visit>
    __device__ void each_score(const Visit& visit) const {
        for (int64_t slot = begin_; slot < end_; ++slot) {
            const int64_t key = args_.pattern.col_indices[slot];
            if (keys_(query_, key) && args_.pattern.exists(slot, v_)) visit(key, score(key));
        }
    }

    // Writes elements d to d + sums_at_once of the output; returns the sum of exponentials.
    __device__ float sum_values(int64_t first, float largest) const {
        const int64_t d0 = first + threadIdx.x % 32, dim = args_.shape.head_dim;
        float sums[lane_sums] = {};
        float total = 0;
        if (largest > -INFINITY) {
            each_score([&](int64_t key, float score) {
                const auto e = static_cast<float>(
                    std::exp(static_cast<double>(score) - static_cast<double>(largest)));
                total += e;
                const int64_t at = args_.v.row(batch_, args_.kv_head_of(head_), key);
#pragma unroll
                for (int i = 0; i < lane_sums; ++i)
                    if (d0 + 32 * i < dim)
                        sums[i] = fma_rn(e, load(args_.v, at + d0 + 32 * i), sums[i]);
            });
        }
        const int64_t out = args_.out.row(batch_, head_, query_);
#pragma unroll
        for (int i = 0; i < lane_sums; ++i) {
            if (d0 + 32 * i >= dim) continue;
            const float y = largest == -INFINITY ? 0.0f
                            : largest != largest ? largest
                                                 : sums[i] / total;
            magicube::cuda::store_element(args_.out.values, args_.shape.out_type, out + d0 + 32 * i,
                                          y);
        }
        return total;
    }

    const kernel_arguments& args_;
    int64_t batch_;
    int64_t head_;
    int64_t query_;
    int64_t v_;
    int64_t begin_;  // slots
    int64_t end_;
    float scale_;
    allowed_keys keys_;
};

}  // namespace magicube::attention::cuda
