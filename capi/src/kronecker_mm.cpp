// SPDX-License-Identifier: Apache-2.0
#include "magicube/kronecker_mm.h"

#include "core/ops/kronecker_mm/kronecker_mm.hpp"
#include "operation.hpp"

using namespace magicube;
using namespace magicube::capi;

using kronecker_mm::batch_layout;
static_assert(static_cast<int>(batch_layout::first) == MAGICUBE_BATCH_FIRST);
static_assert(static_cast<int>(batch_layout::last) == MAGICUBE_BATCH_LAST);

struct magicubeKroneckerMMPlan {
    std::unique_ptr<kronecker_mm::plan> value;
};

namespace {

batch_layout to_layout(magicubeBatchLayout_t value, const char* argument) {
    return capi::to_core<batch_layout>(value, 1, 2, argument, "magicubeBatchLayout_t");
}

struct entry {
    using operation = kronecker_mm::operation;
    using problem = magicubeKroneckerMMProblem_t;
    using plan = magicubeKroneckerMMPlan;

    static problem read(const problem* given) {
        return read_struct(given, problem MAGICUBE_KRONECKER_MM_PROBLEM_INIT, "problem");
    }
    static magicubeConstKroneckerDescr_t sparse(const problem& given) { return given.K; }

    static kronecker_mm::problem to_core(const magicubeKroneckerMMProblem_t& given) {
        kronecker_mm::problem p;
        p.pattern = get(given.K, "problem->K");
        require_value(given.transpose == 0 || given.transpose == 1, "problem->transpose is ",
                      given.transpose, "; it must be 0 or 1");
        p.transpose = given.transpose == 1;
        p.layout = to_layout(given.layout, "problem->layout");
        p.x_order = capi::to_core(given.x_order, "problem->x_order");
        p.y_type = capi::to_core(given.y_type, "problem->y_type");
        p.y_order = capi::to_core(given.y_order, "problem->y_order");
        p.n_min = given.n_min;
        p.n_max = given.n_max;
        p.batch_count = given.batch_count;
        p.k_scale = to_scale(given.k_scale, given.k_scale_batch_stride, "problem->k_scale");
        p.x_scale = to_scale(given.x_scale, given.x_scale_batch_stride, "problem->x_scale");
        p.bias = to_scale(given.bias, given.bias_batch_stride, "problem->bias");
        p.y_scale = to_scale(given.y_scale, given.y_scale_batch_stride, "problem->y_scale");
        p.function = capi::to_core<activation>(given.activation, 0, 2, "problem->activation",
                                               "magicubeActivation_t");
        p.values = capi::to_core<value_mode>(given.value_mode, 0, 2, "problem->value_mode",
                                             "magicubeValueMode_t");
        p.implementation = given.implementation;
        return p;
    }
};

}  // namespace

magicubeStatus_t magicubeKroneckerMM_isSupported(
    magicubeHandle_t handle, const magicubeKroneckerMMProblem_t* problem) noexcept {
    return MAGICUBE_GUARDED(check_supported<entry>(handle, problem););
}

magicubeStatus_t magicubeKroneckerMM_bufferSize(magicubeHandle_t handle,
                                                const magicubeKroneckerMMProblem_t* problem,
                                                magicubeBufferSizes_t* sizes) noexcept {
    return MAGICUBE_GUARDED_RANGE(tell_needs<entry>(handle, problem, sizes););
}

magicubeStatus_t magicubeKroneckerMM_createPlan(magicubeHandle_t handle,
                                                const magicubeKroneckerMMProblem_t* problem,
                                                void* plan_buffer, size_t plan_buffer_size,
                                                magicubeKroneckerMMPlan_t* plan) noexcept {
    return MAGICUBE_GUARDED_RANGE(
        make_plan<entry>(handle, problem, plan_buffer, plan_buffer_size, plan););
}

magicubeStatus_t magicubeKroneckerMM_destroyPlan(magicubeKroneckerMMPlan_t plan) noexcept {
    delete plan;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeKroneckerMM_updateValues(magicubeHandle_t handle,
                                                  magicubeKroneckerMMPlan_t plan,
                                                  const void* const* values) noexcept {
    return MAGICUBE_GUARDED_RANGE(
        kronecker_mm::update_values(get(handle), *deref(plan, "plan").value, values););
}

magicubeStatus_t magicubeKroneckerMM(magicubeHandle_t handle, magicubeKroneckerMMPlan_t plan,
                                     const float* alpha, magicubeConstDnMatDescr_t X,
                                     const float* beta, magicubeDnMatDescr_t Y,
                                     const magicubeKroneckerMMArgs_t* args, void* workspace,
                                     size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        const kronecker_mm::plan& made = *deref(plan, "plan").value;
        magicubeKroneckerMMArgs_t given = MAGICUBE_KRONECKER_MM_ARGS_INIT;
        if (args) given = read_struct(args, given, "args");
        kronecker_mm::arguments a;
        a.alpha = alpha;
        a.beta = beta;
        a.x = get(X, "X");
        a.y = get_output(Y, "Y");
        a.k_values = given.k_values;
        a.k_scale = given.k_scale;
        a.x_scale = given.x_scale;
        a.bias = given.bias;
        a.y_scale = given.y_scale;
        a.workspace = workspace;
        a.workspace_size = workspace_size;
        kronecker_mm::execute(ctx, made, a);
    });
}

magicubeStatus_t magicubeKroneckerMM_planInfo(magicubeKroneckerMMPlan_t plan,
                                              magicubePlanInfo_t* info) noexcept {
    return MAGICUBE_GUARDED(tell_plan(plan, info););
}

magicubeStatus_t magicubeKroneckerMM_listImplementations(magicubeDevice_t device,
                                                         const char** names, int32_t capacity,
                                                         int32_t* count) noexcept {
    return MAGICUBE_GUARDED(
        tell_implementations<kronecker_mm::operation>(device, names, capacity, count););
}

magicubeStatus_t magicubeKroneckerGradient(magicubeHandle_t handle, magicubeConstDnMatDescr_t X,
                                           magicubeConstDnMatDescr_t dY,
                                           magicubeBatchLayout_t layout,
                                           magicubeKroneckerDescr_t gradient) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        kronecker_mm::gradient(ctx, get(X, "X"), get(dY, "dY"), to_layout(layout, "layout"),
                               get_output(gradient, "gradient"));
    });
}
