// SPDX-License-Identifier: Apache-2.0
// The fused kernels as an implementation of attention. It keeps the pattern as it is and needs no
// workspace.
#include <algorithm>
#include <utility>

#include "core/common/checked.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/ops/attention/cuda/sm80/fused_launch.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"

namespace magicube::attention {
namespace sm80 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;

#define MAGICUBE_FUSED(TYPE, DIM, SETS) &fused_##TYPE##_##DIM##_##SETS,
const fused_instance* const instances[] = {MAGICUBE_FUSED_ALL(MAGICUBE_FUSED)};
#undef MAGICUBE_FUSED

constexpr int64_t most_dim = 256;

// The narrowest that the head fits in, and of those the one with most queries a gather.
const fused_instance& instance_for(const problem& p) {
    const fused_instance* best = nullptr;
    const int wanted = std::max(1, p.pattern.vector_length / 8);
    for (const auto* i : instances) {
        if (i->bf16 != (p.in_type == dtype::bf16) || i->dim < p.head_dim || i->sets > wanted)
            continue;
        if (!best || i->dim < best->dim || (i->dim == best->dim && i->sets > best->sets)) best = i;
    }
    require(best != nullptr, status::internal_error, "no fused instance for ", p.head_dim);
    return *best;
}

class fused_plan final : public stored_plan<operation> {
  public:
    fused_plan(const context& ctx, const attention::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)), instance_(instance_for(p)) {
        device_scope scope(ctx.ordinal);
        check(instance_.prepare(), "fused_kernel");
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const auto& pattern = stored().view();
        fused_arguments k{};
        k.call = cuda::make_arguments(ctx, p, pattern, args);
        k.parts = std::max(1, pattern.vector_length / (8 * instance_.sets));
        k.kv_aligned =
            cuda::is_aligned(args.k, p.in_type, 16) && cuda::is_aligned(args.v, p.in_type, 16);
        k.q_paired = cuda::is_aligned(args.q, p.in_type, 4);
        const int64_t heads = checked_mul(p.batch_count, p.q_heads, "problem->batch_count");
        k.call.tasks = checked_mul(checked_mul(heads, pattern.block_rows(), "problem's queries"),
                                   k.parts, "problem's queries");
        const int64_t blocks =
            std::min<int64_t>(ceil_div(k.call.tasks, instance_.warps), INT32_MAX);
        device_scope scope(ctx.ordinal);
        check(instance_.launch(k, blocks, ctx.stream), "fused_kernel");
    }

  private:
    const fused_instance& instance_;
};

std::string decline(const context& ctx, const problem& p) {
    if (p.in_type != dtype::fp16 && p.in_type != dtype::bf16)
        return text("Q, K and V are ", name_of(p.in_type), "; it takes fp16 or bf16");
    if (p.head_dim > most_dim)
        return text("head_dim is ", p.head_dim, "; it takes at most ", most_dim);
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (capability < 80) return text("it needs an sm_80 GPU; this is sm_", capability);
    return "";
}

buffer_needs needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, false).bytes(), 0};
}

// Rows of K and V gathered from L2, from the bound in fused_kernel.cuh; not fitted. A causal rule
// or key lengths halve it at most, for every implementation.
double cost(const context& ctx, const problem& p) {
    constexpr double launch_us = 4;
    // Bytes, of a multiprocessor. Where more queries share a gather, what they do with it takes as
    // long as before.
    const int sets = instance_for(p).sets;
    const double gathered_per_us = sets == 1 ? 45e3 : 58e3 / sets;
    const auto matrices =
        static_cast<double>(p.pattern.different_patterns ? p.pattern.batch_count : 1);
    const double slots = static_cast<double>(p.pattern.slots) / std::max(matrices, 1.0);
    const double heads = static_cast<double>(p.batch_count) * static_cast<double>(p.q_heads);
    const double parts = std::max(1, p.pattern.vector_length / (8 * sets));
    const double bytes = slots * heads * parts * 4 * static_cast<double>(p.head_dim);
    return launch_us + bytes / gathered_per_us / magicube::cuda::multiprocessors(ctx.ordinal);
}

}  // namespace
}  // namespace sm80

extern const implementation<operation> cuda_sm80_fused;
const implementation<operation> cuda_sm80_fused = {"sm80_fused",
                                                   device_kind::cuda,
                                                   false,
                                                   sm80::decline,
                                                   sm80::cost,
                                                   sm80::needs,
                                                   make_plan<operation, sm80::fused_plan>};

}  // namespace magicube::attention
