// SPDX-License-Identifier: Apache-2.0
// SDDMM: the elements of a dense product A * B (M x K times K x N) where a sparse pattern (M x N)
// has elements. SpMM's epilogue without beta, bias and activation.
#pragma once

#include <memory>
#include <optional>

#include "core/ops/epilogue.hpp"
#include "core/ops/operands.hpp"
#include "core/ops/plan.hpp"
#include "core/types/pairs.hpp"

namespace magicube::sddmm {

// What a plan is made for; the fields of magicubeSDDMMProblem_t.
struct problem {
    sr_bcrs_view pattern;
    dtype a_type = dtype::int8;
    order a_order = order::row;
    dtype b_type = dtype::int8;
    order b_order = order::row;
    dtype out_type = dtype::fp32;
    int64_t k_min = 1;
    int64_t k_max = 1;
    int64_t batch_count = 1;
    int64_t out_batch_stride = 0;
    scale_shape a_scale;
    scale_shape b_scale;
    scale_shape out_scale;
    const char* implementation = nullptr;

    precision_pair pair() const { return {a_type, b_type}; }
};

// What one execution gets.
struct arguments {
    const float* alpha = nullptr;  // null: 1
    dense_view a;
    dense_view b;
    void* values = nullptr;
    const float* a_scale = nullptr;
    const float* b_scale = nullptr;
    const float* out_scale = nullptr;
    void* workspace = nullptr;
    size_t workspace_size = 0;
};

class plan;

struct operation {
    using problem = sddmm::problem;
    using arguments = sddmm::arguments;
    using plan = sddmm::plan;
    static constexpr const char* name = "SDDMM";
    static constexpr const char* pattern_name = "problem->pattern";

    static implementation_list<operation> implementations();
    static void check(const problem& problem);
    static bool packs_values(const problem&) { return false; }
    static std::optional<dense_product> dense_equivalent(const problem& problem);
    static std::string benchmark(const problem& problem);
};

class plan : public plan_of<operation> {
  public:
    using plan_of::plan_of;
};

// Checks the arguments and computes.
void execute(const context& ctx, const plan& plan, const arguments& arguments);

// The epilogue of one matrix of the batch, read on the CPU.
epilogue read_epilogue(const problem& problem, const arguments& arguments, int64_t batch);

}  // namespace magicube::sddmm
