// SPDX-License-Identifier: Apache-2.0
#include "magicube/spmm.h"

#include "core/ops/spmm/spmm.hpp"
#include "operation.hpp"

using namespace magicube;
using namespace magicube::capi;

static_assert(static_cast<int>(activation::none) == MAGICUBE_ACTIVATION_NONE);
static_assert(static_cast<int>(activation::relu) == MAGICUBE_ACTIVATION_RELU);
static_assert(static_cast<int>(activation::gelu) == MAGICUBE_ACTIVATION_GELU);
static_assert(static_cast<int>(value_mode::fixed) == MAGICUBE_VALUES_FIXED);
static_assert(static_cast<int>(value_mode::updatable) == MAGICUBE_VALUES_UPDATABLE);
static_assert(static_cast<int>(value_mode::per_call) == MAGICUBE_VALUES_PER_CALL);

struct magicubeSpMMPlan {
    std::unique_ptr<spmm::plan> value;
};

namespace {

struct entry {
    using operation = spmm::operation;
    using problem = magicubeSpMMProblem_t;
    using plan = magicubeSpMMPlan;

    static problem read(const problem* given) {
        return read_struct(given, problem MAGICUBE_SPMM_PROBLEM_INIT, "problem");
    }
    static magicubeConstSpMatDescr_t sparse(const problem& given) { return given.A; }

    static spmm::problem to_core(const magicubeSpMMProblem_t& given) {
        spmm::problem p;
        p.pattern = get_pattern(given.A, "problem->A");
        p.b_type = capi::to_core(given.b_type, "problem->b_type");
        p.b_order = capi::to_core(given.b_order, "problem->b_order");
        p.c_type = capi::to_core(given.c_type, "problem->c_type");
        p.c_order = capi::to_core(given.c_order, "problem->c_order");
        p.n_min = given.n_min;
        p.n_max = given.n_max;
        p.batch_count = given.batch_count;
        p.a_scale = to_scale(given.a_scale, given.a_scale_batch_stride, "problem->a_scale");
        p.b_scale = to_scale(given.b_scale, given.b_scale_batch_stride, "problem->b_scale");
        p.bias = to_scale(given.bias, given.bias_batch_stride, "problem->bias");
        p.c_scale = to_scale(given.c_scale, given.c_scale_batch_stride, "problem->c_scale");
        p.function = capi::to_core<activation>(given.activation, 0, 2, "problem->activation",
                                               "magicubeActivation_t");
        p.values = capi::to_core<value_mode>(given.value_mode, 0, 2, "problem->value_mode",
                                             "magicubeValueMode_t");
        p.implementation = given.implementation;
        return p;
    }
};

}  // namespace

magicubeStatus_t magicubeSpMM_isSupported(magicubeHandle_t handle,
                                          const magicubeSpMMProblem_t* problem) noexcept {
    return MAGICUBE_GUARDED(check_supported<entry>(handle, problem););
}

magicubeStatus_t magicubeSpMM_bufferSize(magicubeHandle_t handle,
                                         const magicubeSpMMProblem_t* problem,
                                         magicubeBufferSizes_t* sizes) noexcept {
    return MAGICUBE_GUARDED_RANGE(tell_needs<entry>(handle, problem, sizes););
}

magicubeStatus_t magicubeSpMM_createPlan(magicubeHandle_t handle,
                                         const magicubeSpMMProblem_t* problem, void* plan_buffer,
                                         size_t plan_buffer_size,
                                         magicubeSpMMPlan_t* plan) noexcept {
    return MAGICUBE_GUARDED_RANGE(
        make_plan<entry>(handle, problem, plan_buffer, plan_buffer_size, plan););
}

magicubeStatus_t magicubeSpMM_destroyPlan(magicubeSpMMPlan_t plan) noexcept {
    delete plan;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeSpMM_updateValues(magicubeHandle_t handle, magicubeSpMMPlan_t plan,
                                           const void* values) noexcept {
    return MAGICUBE_GUARDED_RANGE(
        spmm::update_values(get(handle), *deref(plan, "plan").value, values););
}

magicubeStatus_t magicubeSpMM(magicubeHandle_t handle, magicubeSpMMPlan_t plan, const float* alpha,
                              magicubeConstDnMatDescr_t B, const float* beta,
                              magicubeDnMatDescr_t C, const magicubeSpMMArgs_t* args,
                              void* workspace, size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        const spmm::plan& made = *deref(plan, "plan").value;
        magicubeSpMMArgs_t given = MAGICUBE_SPMM_ARGS_INIT;
        if (args) given = read_struct(args, given, "args");
        spmm::arguments a;
        a.alpha = alpha;
        a.beta = beta;
        a.b = get(B, "B");
        a.c = get_output(C, "C");
        a.a_values = given.a_values;
        a.a_scale = given.a_scale;
        a.b_scale = given.b_scale;
        a.bias = given.bias;
        a.c_scale = given.c_scale;
        a.workspace = workspace;
        a.workspace_size = workspace_size;
        spmm::execute(ctx, made, a);
    });
}

magicubeStatus_t magicubeSpMM_planInfo(magicubeSpMMPlan_t plan, magicubePlanInfo_t* info) noexcept {
    return MAGICUBE_GUARDED(tell_plan(plan, info););
}

magicubeStatus_t magicubeSpMM_listImplementations(magicubeDevice_t device, const char** names,
                                                  int32_t capacity, int32_t* count) noexcept {
    return MAGICUBE_GUARDED(tell_implementations<spmm::operation>(device, names, capacity, count););
}
