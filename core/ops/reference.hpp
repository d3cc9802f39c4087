// SPDX-License-Identifier: Apache-2.0
// What the references of the operations share, those of the CPU and the plain kernels of CUDA.
#pragma once

#include <string>
#include <utility>

#include "core/ops/make_plan.hpp"
#include "core/ops/plan.hpp"
#include "core/ops/stored_matrix.hpp"

namespace magicube {

// The last row of a list: takes every problem. Plan is made from (context, problem, resources).
template <class Operation, class Plan>
constexpr implementation<Operation> reference_implementation(
    const char* name, device_kind device,
    double (*cost)(const context&, const typename Operation::problem&),
    buffer_needs (*needs)(const context&, const typename Operation::problem&)) {
    using problem = typename Operation::problem;
    return {name,
            device,
            true,
            [](const context&, const problem&) { return std::string(); },
            cost,
            needs,
            make_plan<Operation, Plan>};
}

// A plan that keeps the problem's pattern, and its values if they are the plan's, as they are.
template <class Operation>
class stored_plan : public Operation::plan {
  public:
    using stored_type = stored_copy<decltype(Operation::problem::pattern)>;

    stored_plan(const context& ctx, const typename Operation::problem& problem,
                plan_resources resources, bool with_values = false)
        : Operation::plan(ctx, problem, std::move(resources)),
          stored_(problem.pattern, with_values) {
        stored_.fill(ctx, this->resources().buffer.data(), problem.pattern);
    }

  protected:
    const stored_type& stored() const { return stored_; }
    stored_type& stored() { return stored_; }

  private:
    stored_type stored_;
};

}  // namespace magicube
