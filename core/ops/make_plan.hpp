// SPDX-License-Identifier: Apache-2.0
// How the rows of implementation lists make their plans.
#pragma once

#include <memory>
#include <utility>

#include "core/ops/choice.hpp"

namespace magicube {

// A Plan from (context, problem, resources).
template <class Operation, class Plan>
std::unique_ptr<typename Operation::plan> make_plan(const context& ctx,
                                                    const typename Operation::problem& problem,
                                                    plan_resources resources) {
    return std::make_unique<Plan>(ctx, problem, std::move(resources));
}

}  // namespace magicube
