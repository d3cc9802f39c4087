// SPDX-License-Identifier: Apache-2.0
// What the entry points of the operations share. An Entry is a struct with
//     operation           the core's
//     plan                the opaque struct behind the ABI's plan type; its `value` is the core's
//     sparse(given)       the sparse operand of a problem struct
//     read(given)         the problem struct, complete with what an older caller's does not have
//     to_core(given)      the core's problem
#pragma once

#include <memory>

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

inline vnm_view get_vnm_pattern(magicubeConstSpMatDescr_t matrix, const char* argument) {
    auto view = std::get<vnm_view>(get(matrix, argument));
    if (view.batch_count == 1) view.values_stride = 0;
    return view;
}

template <class Entry, class Problem>
void check_supported(magicubeHandle_t handle, const Problem* problem) {
    choose_for<typename Entry::operation>(get(handle), Entry::to_core(Entry::read(problem)));
}

template <class Entry, class Problem>
void tell_needs(magicubeHandle_t handle, const Problem* problem, magicubeBufferSizes_t* sizes) {
    deref(sizes, "sizes");
    const auto needs =
        needs_of<typename Entry::operation>(get(handle), Entry::to_core(Entry::read(problem)));
    magicubeBufferSizes_t result = MAGICUBE_BUFFER_SIZES_INIT;
    result.plan_bytes = static_cast<size_t>(needs.plan_bytes);
    result.plan_alignment = buffer_alignment;
    result.workspace_bytes = static_cast<size_t>(needs.workspace_bytes);
    result.workspace_alignment = buffer_alignment;
    write_struct(sizes, result, "sizes");
}

template <class Entry, class Problem>
void make_plan(magicubeHandle_t handle, const Problem* problem, void* buffer, size_t buffer_size,
               typename Entry::plan** plan) {
    using operation = typename Entry::operation;
    auto& result = deref(plan, "plan");
    result = nullptr;
    auto created = std::make_unique<typename Entry::plan>();
    const context& ctx = get(handle);
    const auto given = Entry::read(problem);
    created->value = create_plan<operation>(ctx, Entry::to_core(given), buffer, buffer_size,
                                            &get(Entry::sparse(given), operation::pattern_name));
    result = created.release();
}

inline void tell_resources(const plan_resources& resources, magicubePlanInfo_t* info) {
    magicubePlanInfo_t result = MAGICUBE_PLAN_INFO_INIT;
    result.implementation = resources.implementation;
    result.reasons = resources.reasons.c_str();
    result.plan_bytes = static_cast<size_t>(resources.needs.plan_bytes);
    result.workspace_bytes = static_cast<size_t>(resources.needs.workspace_bytes);
    result.owns_buffer = resources.buffer.owned();
    write_struct(info, result, "info");
}

template <class Plan>
void tell_plan(const Plan* plan, magicubePlanInfo_t* info) {
    tell_resources(deref(plan, "plan").value->resources(), info);
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
