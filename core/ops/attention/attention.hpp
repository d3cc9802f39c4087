// SPDX-License-Identifier: Apache-2.0
// Attention over a sparse pattern: out = softmax(scale * Q K^T) V over the allowed keys of each
// query. Semantics and the reference's order of operations: capi/include/magicube/attention.h.
#pragma once

#include <memory>
#include <optional>

#include "core/ops/operands.hpp"
#include "core/ops/plan.hpp"
#include "core/types/granularity.hpp"

namespace magicube::attention {

// Which heads share a pattern. Same numbers as magicubeAttentionPatterns_t; capi asserts it.
enum class pattern_sharing : int { shared = 0, head = 1, batch = 2, batch_head = 3 };

// What a plan is made for; the fields of magicubeAttentionProblem_t.
struct problem {
    sr_bcrs_view pattern;
    pattern_sharing patterns = pattern_sharing::shared;
    dtype in_type = dtype::fp16;
    dtype out_type = dtype::fp16;
    int64_t batch_count = 1;
    int64_t q_heads = 1;
    int64_t kv_heads = 1;
    int64_t head_dim = 64;
    bool causal = false;
    int64_t causal_offset = 0;
    bool causal_offsets = false;
    bool key_lengths = false;
    bool log_sum_exp = false;
    const char* implementation = nullptr;
    int probability_bits = 0;  // of the softmax of integers: 16, 8 or 4
    granularity q_scale = granularity::none;
    granularity k_scale = granularity::none;
    granularity v_scale = granularity::none;

    // Whether Q, K and V are integers.
    MAGICUBE_HOST_DEVICE bool quantised() const { return probability_bits != 0; }

    // Of a batch of patterns, the one of a query head.
    MAGICUBE_HOST_DEVICE int64_t pattern_of(int64_t batch, int64_t head) const {
        switch (patterns) {
            case pattern_sharing::head:
                return head;
            case pattern_sharing::batch:
                return batch;
            case pattern_sharing::batch_head:
                return batch * q_heads + head;
            default:
                return 0;
        }
    }
};

// A (batch, heads, length, head_dim) tensor whose rows are contiguous; strides in elements.
struct tensor {
    void* values = nullptr;  // not written where it is an input
    int64_t batch_stride = 0;
    int64_t head_stride = 0;
    int64_t row_stride = 0;

    MAGICUBE_HOST_DEVICE int64_t row(int64_t batch, int64_t head, int64_t i) const {
        return batch * batch_stride + head * head_stride + i * row_stride;
    }
};

// The strides of a tensor without gaps.
inline tensor packed_tensor(const void* values, int64_t heads, int64_t length, int64_t head_dim) {
    const int64_t matrix = checked_mul(length, head_dim, "a tensor's head stride");
    return {const_cast<void*>(values), checked_mul(heads, matrix, "a tensor's batch stride"),
            matrix, head_dim};
}

// What one execution gets.
struct arguments {
    const float* scale = nullptr;  // null: 1 / sqrt(head_dim)
    tensor q;
    tensor k;
    tensor v;
    tensor out;
    const int64_t* causal_offsets = nullptr;
    const int64_t* key_lengths = nullptr;
    float* log_sum_exp = nullptr;
    const float* q_scale = nullptr;
    const float* k_scale = nullptr;
    const float* v_scale = nullptr;
    void* workspace = nullptr;
    size_t workspace_size = 0;
};

class plan;

struct operation {
    using problem = attention::problem;
    using arguments = attention::arguments;
    using plan = attention::plan;
    static constexpr const char* name = "Attention";
    static constexpr const char* pattern_name = "problem->pattern";

    static implementation_list<operation> implementations();
    static void check(const problem& problem);
    static bool packs_values(const problem&) { return false; }
    static std::optional<dense_product> dense_equivalent(const problem&) { return {}; }
    static std::string benchmark(const problem& problem);
};

class plan : public plan_of<operation> {
  public:
    using plan_of::plan_of;
};

// Checks the arguments and computes.
void execute(const context& ctx, const plan& plan, const arguments& arguments);

}  // namespace magicube::attention
