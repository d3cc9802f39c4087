// SPDX-License-Identifier: Apache-2.0
// Softmax over the existing elements of each row of a sparse matrix:
//     x = fma((alpha * row_scale[i]) * col_scale[j], score, bias)      in fp32
//     p = exp(x - largest x of the row) / sum of the row's exp
#pragma once

#include <memory>
#include <optional>

#include "core/ops/epilogue.hpp"
#include "core/ops/operands.hpp"
#include "core/ops/plan.hpp"

namespace magicube::softmax {

// What a plan is made for; the fields of magicubeSparseSoftmaxProblem_t.
struct problem {
    sr_bcrs_view pattern;
    dtype in_type = dtype::fp32;
    dtype out_type = dtype::fp32;
    int64_t batch_count = 1;
    int64_t in_batch_stride = 0;
    int64_t out_batch_stride = 0;
    scale_shape row_scale;
    scale_shape col_scale;
    bool bias = false;
    int64_t bias_batch_stride = 0;
    int64_t out_scale_batch_stride = 0;
    const char* implementation = nullptr;

    // Elements between the row scales that go with an integer output.
    int64_t out_scale_stride() const {
        return out_scale_batch_stride == 0 ? pattern.rows : out_scale_batch_stride;
    }
};

// What one execution gets.
struct arguments {
    const float* alpha = nullptr;  // null: 1
    const void* scores = nullptr;
    void* out = nullptr;
    const float* row_scale = nullptr;
    const float* col_scale = nullptr;
    const float* bias = nullptr;
    float* out_scale = nullptr;
    void* workspace = nullptr;
    size_t workspace_size = 0;
};

class plan;

struct operation {
    using problem = softmax::problem;
    using arguments = softmax::arguments;
    using plan = softmax::plan;
    static constexpr const char* name = "SparseSoftmax";
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

}  // namespace magicube::softmax
