// SPDX-License-Identifier: Apache-2.0
#include "magicube/sddmm.h"

#include "core/ops/sddmm/sddmm.hpp"
#include "operation.hpp"

using namespace magicube;
using namespace magicube::capi;

struct magicubeSDDMMPlan {
    std::unique_ptr<sddmm::plan> value;
};

namespace {

struct entry {
    using operation = sddmm::operation;
    using problem = magicubeSDDMMProblem_t;
    using plan = magicubeSDDMMPlan;

    static problem read(const problem* given) {
        return read_struct(given, problem MAGICUBE_SDDMM_PROBLEM_INIT, "problem");
    }
    static magicubeConstSpMatDescr_t sparse(const problem& given) { return given.pattern; }

    static sddmm::problem to_core(const magicubeSDDMMProblem_t& given) {
        sddmm::problem p;
        p.pattern = get_pattern(given.pattern, "problem->pattern");
        p.a_type = capi::to_core(given.a_type, "problem->a_type");
        p.a_order = capi::to_core(given.a_order, "problem->a_order");
        p.b_type = capi::to_core(given.b_type, "problem->b_type");
        p.b_order = capi::to_core(given.b_order, "problem->b_order");
        p.out_type = capi::to_core(given.out_type, "problem->out_type");
        p.k_min = given.k_min;
        p.k_max = given.k_max;
        p.batch_count = given.batch_count;
        p.out_batch_stride = given.out_batch_stride;
        p.a_scale = to_scale(given.a_scale, given.a_scale_batch_stride, "problem->a_scale");
        p.b_scale = to_scale(given.b_scale, given.b_scale_batch_stride, "problem->b_scale");
        p.out_scale = to_scale(given.out_scale, given.out_scale_batch_stride, "problem->out_scale");
        p.implementation = given.implementation;
        return p;
    }
};

}  // namespace

magicubeStatus_t magicubeSDDMM_isSupported(magicubeHandle_t handle,
                                           const magicubeSDDMMProblem_t* problem) noexcept {
    return MAGICUBE_GUARDED(check_supported<entry>(handle, problem););
}

magicubeStatus_t magicubeSDDMM_bufferSize(magicubeHandle_t handle,
                                          const magicubeSDDMMProblem_t* problem,
                                          magicubeBufferSizes_t* sizes) noexcept {
    return MAGICUBE_GUARDED_RANGE(tell_needs<entry>(handle, problem, sizes););
}

magicubeStatus_t magicubeSDDMM_createPlan(magicubeHandle_t handle,
                                          const magicubeSDDMMProblem_t* problem, void* plan_buffer,
                                          size_t plan_buffer_size,
                                          magicubeSDDMMPlan_t* plan) noexcept {
    return MAGICUBE_GUARDED_RANGE(
        make_plan<entry>(handle, problem, plan_buffer, plan_buffer_size, plan););
}

magicubeStatus_t magicubeSDDMM_destroyPlan(magicubeSDDMMPlan_t plan) noexcept {
    delete plan;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeSDDMM_planInfo(magicubeSDDMMPlan_t plan,
                                        magicubePlanInfo_t* info) noexcept {
    return MAGICUBE_GUARDED(tell_plan(plan, info););
}

magicubeStatus_t magicubeSDDMM_listImplementations(magicubeDevice_t device, const char** names,
                                                   int32_t capacity, int32_t* count) noexcept {
    return MAGICUBE_GUARDED(
        tell_implementations<sddmm::operation>(device, names, capacity, count););
}

magicubeStatus_t magicubeSDDMM(magicubeHandle_t handle, magicubeSDDMMPlan_t plan,
                               const float* alpha, magicubeConstDnMatDescr_t A,
                               magicubeConstDnMatDescr_t B, void* values,
                               const magicubeSDDMMArgs_t* args, void* workspace,
                               size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        const sddmm::plan& made = *deref(plan, "plan").value;
        magicubeSDDMMArgs_t given = MAGICUBE_SDDMM_ARGS_INIT;
        if (args) given = read_struct(args, given, "args");
        sddmm::arguments a;
        a.alpha = alpha;
        a.a = get(A, "A");
        a.b = get(B, "B");
        a.values = values;
        a.a_scale = given.a_scale;
        a.b_scale = given.b_scale;
        a.out_scale = given.out_scale;
        a.workspace = workspace;
        a.workspace_size = workspace_size;
        sddmm::execute(ctx, made, a);
    });
}
