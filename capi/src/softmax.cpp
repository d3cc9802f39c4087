// SPDX-License-Identifier: Apache-2.0
#include "magicube/softmax.h"

#include "core/ops/softmax/softmax.hpp"
#include "operation.hpp"

using namespace magicube;
using namespace magicube::capi;

struct magicubeSparseSoftmaxPlan {
    std::unique_ptr<softmax::plan> value;
};

namespace {

struct entry {
    using operation = softmax::operation;
    using problem = magicubeSparseSoftmaxProblem_t;
    using plan = magicubeSparseSoftmaxPlan;

    static problem read(const problem* given) {
        return read_struct(given, problem MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT, "problem");
    }
    static magicubeConstSpMatDescr_t sparse(const problem& given) { return given.pattern; }

    static softmax::problem to_core(const magicubeSparseSoftmaxProblem_t& given) {
        softmax::problem p;
        p.pattern = get_pattern(given.pattern, "problem->pattern");
        p.in_type = capi::to_core(given.in_type, "problem->in_type");
        p.out_type = capi::to_core(given.out_type, "problem->out_type");
        p.batch_count = given.batch_count;
        p.in_batch_stride = given.in_batch_stride;
        p.out_batch_stride = given.out_batch_stride;
        p.row_scale = to_scale(given.row_scale, given.row_scale_batch_stride, "problem->row_scale");
        p.col_scale = to_scale(given.col_scale, given.col_scale_batch_stride, "problem->col_scale");
        require_value(given.bias == 0 || given.bias == 1, "problem->bias is ", given.bias,
                      "; it must be 0 or 1");
        p.bias = given.bias == 1;
        p.bias_batch_stride = given.bias_batch_stride;
        p.out_scale_batch_stride = given.out_scale_batch_stride;
        p.implementation = given.implementation;
        return p;
    }
};

}  // namespace

magicubeStatus_t magicubeSparseSoftmax_isSupported(
    magicubeHandle_t handle, const magicubeSparseSoftmaxProblem_t* problem) noexcept {
    return MAGICUBE_GUARDED(check_supported<entry>(handle, problem););
}

magicubeStatus_t magicubeSparseSoftmax_bufferSize(magicubeHandle_t handle,
                                                  const magicubeSparseSoftmaxProblem_t* problem,
                                                  magicubeBufferSizes_t* sizes) noexcept {
    return MAGICUBE_GUARDED_RANGE(tell_needs<entry>(handle, problem, sizes););
}

magicubeStatus_t magicubeSparseSoftmax_createPlan(magicubeHandle_t handle,
                                                  const magicubeSparseSoftmaxProblem_t* problem,
                                                  void* plan_buffer, size_t plan_buffer_size,
                                                  magicubeSparseSoftmaxPlan_t* plan) noexcept {
    return MAGICUBE_GUARDED_RANGE(
        make_plan<entry>(handle, problem, plan_buffer, plan_buffer_size, plan););
}

magicubeStatus_t magicubeSparseSoftmax_destroyPlan(magicubeSparseSoftmaxPlan_t plan) noexcept {
    delete plan;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeSparseSoftmax_planInfo(magicubeSparseSoftmaxPlan_t plan,
                                                magicubePlanInfo_t* info) noexcept {
    return MAGICUBE_GUARDED(tell_plan(plan, info););
}

magicubeStatus_t magicubeSparseSoftmax_listImplementations(magicubeDevice_t device,
                                                           const char** names, int32_t capacity,
                                                           int32_t* count) noexcept {
    return MAGICUBE_GUARDED(
        tell_implementations<softmax::operation>(device, names, capacity, count););
}

magicubeStatus_t magicubeSparseSoftmax(magicubeHandle_t handle, magicubeSparseSoftmaxPlan_t plan,
                                       const float* alpha, const void* scores, void* out,
                                       const magicubeSparseSoftmaxArgs_t* args, void* workspace,
                                       size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        const softmax::plan& made = *deref(plan, "plan").value;
        magicubeSparseSoftmaxArgs_t given = MAGICUBE_SPARSE_SOFTMAX_ARGS_INIT;
        if (args) given = read_struct(args, given, "args");
        softmax::arguments a;
        a.alpha = alpha;
        a.scores = scores;
        a.out = out;
        a.row_scale = given.row_scale;
        a.col_scale = given.col_scale;
        a.bias = given.bias;
        a.out_scale = given.out_scale;
        a.workspace = workspace;
        a.workspace_size = workspace_size;
        softmax::execute(ctx, made, a);
    });
}
