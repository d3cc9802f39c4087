// SPDX-License-Identifier: Apache-2.0
// Attention of one query by one warp, as the definition reads: the whole of the plain kernel, and
// what other kernels fall back on for queries that they cannot compute.
#pragma once

#include "core/ops/attention/cuda/arguments.hpp"
#include "core/ops/attention/quantised.hpp"
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
          keys_(keys_for(args.shape, args.causal_offsets, args.key_lengths, batch)),
          highest_(highest_probability(args.shape.probability_bits)) {
        const auto& p = args.shape;
        const int64_t kv = batch * p.kv_heads + args.kv_head_of(head);
        q_scale_ = scales_of_head(p.q_scale, args.q_scale, batch * p.q_heads + head,
                                  args.pattern.rows)[query];
        k_scale_ = scales_of_head(p.k_scale, args.k_scale, kv, args.pattern.cols);
        v_scale_ = scales_of_head(p.v_scale, args.v_scale, kv, p.head_dim);
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
            total = args_.shape.quantised() ? sum_integers(d, largest) : sum_values(d, largest);
        if (args_.log_sum_exp && threadIdx.x % 32 == 0) {
            const double unit = args_.shape.quantised() ? highest_ : 1;
            const double statistic =
                static_cast<double>(largest) + std::log(static_cast<double>(total) / unit);
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

    __device__ int32_t load_integer(const tensor& from, int64_t at) const {
        return magicube::cuda::load_element<int32_t>(from.values, args_.shape.in_type, at);
    }

    __device__ float integer_score(int64_t key, int64_t q, int64_t k) const {
        int32_t sum = 0;
        for (int64_t d = threadIdx.x % 32; d < args_.shape.head_dim; d += 32)
            sum += load_integer(args_.q, q + d) * load_integer(args_.k, k + d);
        for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        return quantised_score(scale_, q_scale_, k_scale_[key], sum);
    }

    __device__ float score(int64_t key) const {
        const int64_t q = args_.q.row(batch_, head_, query_);
        const int64_t k = args_.k.row(batch_, args_.kv_head_of(head_), key);
        if (args_.shape.quantised()) return integer_score(key, q, k);
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
#pragma unroll
        for (int i = 0; i < lane_sums; ++i)
            if (d0 + 32 * i < dim) write(d0 + 32 * i, largest, sums[i] / total);
        return total;
    }

    // The same of integers: exact sums.
    __device__ float sum_integers(int64_t first, float largest) const {
        const int64_t d0 = first + threadIdx.x % 32, dim = args_.shape.head_dim;
        int64_t sums[lane_sums] = {};
        int64_t total = 0;
        if (largest > -INFINITY) {
            each_score([&](int64_t key, float score) {
                const int32_t p = quantised_probability(score, largest, highest_);
                total += p;
                const int64_t at = args_.v.row(batch_, args_.kv_head_of(head_), key);
#pragma unroll
                for (int i = 0; i < lane_sums; ++i)
                    if (d0 + 32 * i < dim)
                        sums[i] += int64_t{p} * load_integer(args_.v, at + d0 + 32 * i);
            });
        }
#pragma unroll
        for (int i = 0; i < lane_sums; ++i) {
            const int64_t d = d0 + 32 * i;
            if (d < dim)
                write(d, largest,
                      quantised_output(v_scale_[d], static_cast<float>(sums[i]),
                                       static_cast<float>(total)));
        }
        return static_cast<float>(total);
    }

    __device__ void write(int64_t d, float largest, float regular) const {
        const float y = largest == -INFINITY ? 0.0f : largest != largest ? largest : regular;
        magicube::cuda::store_element(args_.out.values, args_.shape.out_type,
                                      args_.out.row(batch_, head_, query_) + d, y);
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
    int32_t highest_;  // probability of integers
    float q_scale_ = 1;
    scale_reader k_scale_;  // of integers; so for the next
    scale_reader v_scale_;
};

}  // namespace magicube::attention::cuda
