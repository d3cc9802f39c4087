// SPDX-License-Identifier: Apache-2.0
// What the cases of all operations share: a plan and its memory on a device, and a run by every
// implementation of every device that is there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ops/plan.hpp"
#include "support/aligned_buffer.hpp"
#include "support/mirror.hpp"

namespace support {

// Sums of floats on a GPU: Tensor Cores add in fp32 and cut off rather than round.
constexpr int gpu_sum_error = -22;
// Sums in fp32, each term rounded at most twice.
constexpr int float_sum_error = -23;

inline const float* put_floats(mirror& device, const std::vector<float>& array) {
    return device.put(array.data(), array.size() * sizeof(float));
}

// A plan in memory of exactly the bytes it asked for, and a workspace of that kind.
template <class Operation>
class operation_memory {
  public:
    operation_memory(mirror& device, const magicube::context& ctx,
                     const typename Operation::problem& p)
        : operation_memory(device, ctx, p, magicube::needs_of<Operation>(ctx, p)) {}

    typename Operation::plan& plan() const { return *plan_; }

    template <class Arguments>
    void lend_workspace(Arguments& args) {
        args.workspace = device_.put(workspace_.data(), workspace_.size_with_guard());
        args.workspace_size = workspace_.size();
    }

    // Empty, or which guard zone was written.
    std::string check() {
        device_.fetch(workspace_.data());
        device_.fetch(plan_memory_.data());
        if (!workspace_.guard_intact()) return "wrote beyond the workspace";
        return plan_memory_.guard_intact() ? "" : "wrote beyond the plan buffer";
    }

  private:
    operation_memory(mirror& device, const magicube::context& ctx,
                     const typename Operation::problem& p, const magicube::buffer_needs& needs)
        : device_(device),
          plan_memory_(static_cast<size_t>(needs.plan_bytes)),
          workspace_(static_cast<size_t>(needs.workspace_bytes)),
          plan_(magicube::create_plan<Operation>(
              ctx, p, device.put(plan_memory_.data(), plan_memory_.size_with_guard()),
              plan_memory_.size())) {}

    mirror& device_;
    aligned_buffer plan_memory_;
    aligned_buffer workspace_;
    std::unique_ptr<typename Operation::plan> plan_;
};

// Empty, or what was wrong first. Run is made from the case anew for each implementation.
template <class Run, class Operation, class Case>
std::string run_everywhere(const Case& test, int threads) {
    for (const auto* row : Operation::implementations()) {
        if (magicube::device_count(row->device) == 0) continue;
        magicube::context ctx;
        ctx.device = row->device;
        ctx.threads = threads;
        Run operands(test);
        {
            mirror device(ctx);
            if (!row->decline(ctx, operands.problem(device, row->name)).empty()) continue;
        }
        const auto wrong = operands.execute(ctx, row->name);
        if (!wrong.empty())
            return magicube::text(name_of(row->device), " ", row->name, ": ", wrong, " (",
                                  describe(test), ")");
    }
    return {};
}

}  // namespace support
