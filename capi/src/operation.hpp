// SPDX-License-Identifier: Apache-2.0
// What the entry points of the operations share.
#pragma once

#include <memory>

#include "core/formats/validate.hpp"
#include "core/ops/operands.hpp"
#include "core/ops/plan.hpp"
#include "descriptors.hpp"

namespace magicube::capi {

inline scale_shape to_scale(magicubeGranularity_t per, int64_t batch_stride, const char* argument) {
    return {to_core(per, argument), batch_stride};
}

// A sparse operand. A batch of one is no batch: one matrix that may serve many.
inline sr_bcrs_view get_pattern(magicubeConstSpMatDescr_t matrix, const char* argument) {
    auto view = get_sr_bcrs(matrix, argument);
    if (view.batch_count == 1) {
        view.different_patterns = false;
        view.values_stride = 0;
    }
    return view;
}

template <class Operation>
void tell_needs(const context& ctx, const typename Operation::problem& problem,
                magicubeBufferSizes_t* sizes) {
    deref(sizes, "sizes");
    const auto needs = needs_of<Operation>(ctx, problem);
    magicubeBufferSizes_t result = MAGICUBE_BUFFER_SIZES_INIT;
    result.plan_bytes = static_cast<size_t>(needs.plan_bytes);
    result.plan_alignment = buffer_alignment;
    result.workspace_bytes = static_cast<size_t>(needs.workspace_bytes);
    result.workspace_alignment = buffer_alignment;
    write_struct(sizes, result, "sizes");
}

// Full validation of a sparse operand, with errors in the caller's terms.
inline void validate_sparse(const context& ctx, magicubeConstSpMatDescr_t matrix, bool values,
                            const char* argument) {
    if (!ctx.validates()) return;
    const auto& view = get(matrix, argument);
    validate_pattern(ctx, view, argument);
    if (values) validate_values(ctx, view, argument);
}

// `make` returns the core's plan.
template <class Plan, class Make>
void make_plan(Plan** plan, const Make& make) {
    auto& result = deref(plan, "plan");
    result = nullptr;
    auto created = std::make_unique<Plan>();
    created->value = make();
    result = created.release();
}

template <class Plan>
void tell_plan(const Plan* plan, magicubePlanInfo_t* info) {
    const plan_resources& resources = deref(plan, "plan").value->resources();
    magicubePlanInfo_t result = MAGICUBE_PLAN_INFO_INIT;
    result.implementation = resources.implementation;
    result.reasons = resources.reasons.c_str();
    result.plan_bytes = static_cast<size_t>(resources.needs.plan_bytes);
    result.workspace_bytes = static_cast<size_t>(resources.needs.workspace_bytes);
    result.owns_buffer = resources.buffer.owned();
    write_struct(info, result, "info");
}

template <class Operation>
void tell_implementations(magicubeDevice_t device, const char** names, int32_t capacity,
                          int32_t* count) {
    const auto wanted = to_core(device, "device");
    require_value(capacity >= 0, "capacity is ", capacity, "; it must be at least 0");
    require_value(names != nullptr || capacity == 0, "names is null; it must hold ", capacity,
                  " pointers");
    int32_t found = 0;
    for (const auto* row : Operation::implementations()) {
        if (row->device != wanted) continue;
        if (found < capacity) names[found] = row->name;
        ++found;
    }
    deref(count, "count") = found;
}

}  // namespace magicube::capi
