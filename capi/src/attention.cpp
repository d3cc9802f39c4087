// SPDX-License-Identifier: Apache-2.0
#include "magicube/attention.h"

#include "core/ops/attention/attention.hpp"
#include "operation.hpp"

using namespace magicube;
using namespace magicube::capi;

struct magicubeAttentionPlan {
    std::unique_ptr<attention::plan> value;
};

static_assert(static_cast<int>(attention::pattern_sharing::shared) == MAGICUBE_PATTERNS_SHARED);
static_assert(static_cast<int>(attention::pattern_sharing::head) == MAGICUBE_PATTERNS_HEAD);
static_assert(static_cast<int>(attention::pattern_sharing::batch) == MAGICUBE_PATTERNS_BATCH);
static_assert(static_cast<int>(attention::pattern_sharing::batch_head) ==
              MAGICUBE_PATTERNS_BATCH_HEAD);

namespace {

bool to_flag(int32_t value, const char* argument) {
    require_value(value == 0 || value == 1, argument, " is ", value, "; it must be 0 or 1");
    return value == 1;
}

struct entry {
    using operation = attention::operation;
    using problem = magicubeAttentionProblem_t;
    using plan = magicubeAttentionPlan;

    static problem read(const problem* given) {
        return read_struct(given, problem MAGICUBE_ATTENTION_PROBLEM_INIT, "problem");
    }
    static magicubeConstSpMatDescr_t sparse(const problem& given) { return given.pattern; }

    static attention::problem to_core(const magicubeAttentionProblem_t& given) {
        attention::problem p;
        p.pattern = get_pattern(given.pattern, "problem->pattern");
        p.patterns = capi::to_core<attention::pattern_sharing>(
            given.patterns, 0, 3, "problem->patterns", "magicubeAttentionPatterns_t");
        p.in_type = capi::to_core(given.in_type, "problem->in_type");
        p.out_type = capi::to_core(given.out_type, "problem->out_type");
        p.batch_count = given.batch_count;
        p.q_heads = given.q_heads;
        p.kv_heads = given.kv_heads;
        p.head_dim = given.head_dim;
        p.causal = to_flag(given.causal, "problem->causal");
        p.causal_offset = given.causal_offset;
        p.causal_offsets = to_flag(given.causal_offsets, "problem->causal_offsets");
        p.key_lengths = to_flag(given.key_lengths, "problem->key_lengths");
        p.log_sum_exp = to_flag(given.log_sum_exp, "problem->log_sum_exp");
        p.implementation = given.implementation;
        p.probability_bits = given.probability_bits;
        p.q_scale = capi::to_core(given.q_scale, "problem->q_scale");
        p.k_scale = capi::to_core(given.k_scale, "problem->k_scale");
        p.v_scale = capi::to_core(given.v_scale, "problem->v_scale");
        return p;
    }
};

attention::tensor to_tensor(const void* values, const magicubeAttentionStrides_t* strides,
                            dtype type, int64_t heads, int64_t length, int64_t head_dim) {
    // Rows of int4 start on bytes.
    const int64_t odd = type == dtype::int4 ? head_dim % 2 : 0;
    if (!strides) return attention::packed_tensor(values, heads, length, head_dim + odd);
    return {const_cast<void*>(values), strides->batch, strides->head, strides->row};
}

}  // namespace

magicubeStatus_t magicubeAttention_isSupported(magicubeHandle_t handle,
                                               const magicubeAttentionProblem_t* problem) noexcept {
    return MAGICUBE_GUARDED(check_supported<entry>(handle, problem););
}

magicubeStatus_t magicubeAttention_bufferSize(magicubeHandle_t handle,
                                              const magicubeAttentionProblem_t* problem,
                                              magicubeBufferSizes_t* sizes) noexcept {
    return MAGICUBE_GUARDED_RANGE(tell_needs<entry>(handle, problem, sizes););
}

magicubeStatus_t magicubeAttention_createPlan(magicubeHandle_t handle,
                                              const magicubeAttentionProblem_t* problem,
                                              void* plan_buffer, size_t plan_buffer_size,
                                              magicubeAttentionPlan_t* plan) noexcept {
    return MAGICUBE_GUARDED_RANGE(
        make_plan<entry>(handle, problem, plan_buffer, plan_buffer_size, plan););
}

magicubeStatus_t magicubeAttention_destroyPlan(magicubeAttentionPlan_t plan) noexcept {
    delete plan;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeAttention_planInfo(magicubeAttentionPlan_t plan,
                                            magicubePlanInfo_t* info) noexcept {
    return MAGICUBE_GUARDED(tell_plan(plan, info););
}

magicubeStatus_t magicubeAttention_listImplementations(magicubeDevice_t device, const char** names,
                                                       int32_t capacity, int32_t* count) noexcept {
    return MAGICUBE_GUARDED(
        tell_implementations<attention::operation>(device, names, capacity, count););
}

magicubeStatus_t magicubeAttention(magicubeHandle_t handle, magicubeAttentionPlan_t plan,
                                   const float* scale, const void* q, const void* k, const void* v,
                                   void* out, const magicubeAttentionArgs_t* args, void* workspace,
                                   size_t workspace_size) noexcept {
    return MAGICUBE_GUARDED({
        const context& ctx = get(handle);
        const attention::plan& made = *deref(plan, "plan").value;
        magicubeAttentionArgs_t given = MAGICUBE_ATTENTION_ARGS_INIT;
        if (args) given = read_struct(args, given, "args");
        const auto& p = made.problem();
        const int64_t lq = p.pattern.rows;
        const int64_t lk = p.pattern.cols;
        attention::arguments a;
        a.scale = scale;
        a.q = to_tensor(q, given.q_strides, p.in_type, p.q_heads, lq, p.head_dim);
        a.k = to_tensor(k, given.k_strides, p.in_type, p.kv_heads, lk, p.head_dim);
        a.v = to_tensor(v, given.v_strides, p.in_type, p.kv_heads, lk, p.head_dim);
        a.out = to_tensor(out, given.out_strides, p.out_type, p.q_heads, lq, p.head_dim);
        a.causal_offsets = given.causal_offsets;
        a.key_lengths = given.key_lengths;
        a.log_sum_exp = given.log_sum_exp;
        a.q_scale = given.q_scale;
        a.k_scale = given.k_scale;
        a.v_scale = given.v_scale;
        a.workspace = workspace;
        a.workspace_size = workspace_size;
        attention::execute(ctx, made, a);
    });
}
