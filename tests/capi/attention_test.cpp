// SPDX-License-Identifier: Apache-2.0
// Attention through the C ABI. Numbers in depth: tests/core/ops.
#include "magicube/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "support/aligned_buffer.hpp"
#include "support/capi.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;
constexpr auto unsupported = MAGICUBE_STATUS_NOT_SUPPORTED;
constexpr auto success = MAGICUBE_STATUS_SUCCESS;

// fp32, 2 matrices, 4 heads on 2 of keys, 20 queries, 30 keys, 8 wide, V 4, S 8.
struct attention_call {
    static constexpr int64_t batch = 2, heads = 4, kv_heads = 2, lq = 20, lk = 30, dim = 8;
    generator random{7};
    sparse_sample pattern{{kind::int8, lq, lk, 4, 8, 0.4}, random};
    sp_mat matrix{pattern};
    std::vector<float> q, k, v;
    std::vector<float> out = std::vector<float>(2000, -5.0f);
    std::vector<float> statistics = std::vector<float>(200, -5.0f);
    std::vector<int64_t> offsets = {0, -4};
    std::vector<int64_t> lengths = {30, 11};
    magicubeAttentionStrides_t strides = {heads * lq * dim, lq* dim, dim};
    cpu_handle handle;
    magicubeAttentionProblem_t problem = MAGICUBE_ATTENTION_PROBLEM_INIT;
    magicubeAttentionArgs_t args = MAGICUBE_ATTENTION_ARGS_INIT;

    attention_call() {
        for (auto* array : {&q, &k, &v})
            for (int i = 0; i < 2000; ++i)
                array->push_back(static_cast<float>(uniform(random, -512, 512)) / 256);
        problem.pattern = matrix;
        problem.in_type = problem.out_type = MAGICUBE_FP32;
        problem.batch_count = batch;
        problem.q_heads = heads;
        problem.kv_heads = kv_heads;
        problem.head_dim = dim;
        args.causal_offsets = offsets.data();
        args.key_lengths = lengths.data();
        args.log_sum_exp = statistics.data();
    }
    magicubeAttentionPlan_t plan() {
        magicubeAttentionPlan_t made = nullptr;
        REQUIRE_OK(magicubeAttention_createPlan(handle, &problem, nullptr, 0, &made));
        return made;
    }
    magicubeStatus_t execute(magicubeAttentionPlan_t made, const float* scale = nullptr,
                             const void* given_q = nullptr) {
        return execute_into(made, out.data(), scale, given_q);
    }
    magicubeStatus_t execute_into(magicubeAttentionPlan_t made, float* target,
                                  const float* scale = nullptr, const void* given_q = nullptr) {
        const auto memory = workspace(made);
        return magicubeAttention(handle, made, scale, given_q ? given_q : q.data(), k.data(),
                                 v.data(), target, &args, memory.data(), memory.size());
    }
    static aligned_buffer workspace(magicubeAttentionPlan_t made) {
        magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
        REQUIRE_OK(magicubeAttention_planInfo(made, &info));
        return aligned_buffer(info.workspace_bytes);
    }
    // Every element as the definition reads, and none beyond the output.
    bool right(double scale) const {
        const auto item = [](const std::vector<float>& array, int64_t i) {
            return static_cast<double>(array[static_cast<size_t>(i)]);
        };
        constexpr int64_t count = batch * heads * lq;
        std::vector<double> sums(static_cast<size_t>(count * dim), 0), totals(count, 0);
        for (int64_t head = 0; head < batch * heads; ++head) {
            pattern.each_element(0, [&](int64_t i, int64_t j, int64_t, int64_t) {
                const int64_t kv = head / 2 * lk + j;
                double score = 0;
                for (int64_t d = 0; d < dim; ++d)
                    score += item(q, (head * lq + i) * dim + d) * item(k, kv * dim + d);
                const double e = std::exp(scale * score);
                totals[static_cast<size_t>(head * lq + i)] += e;
                for (int64_t d = 0; d < dim; ++d)
                    sums[static_cast<size_t>((head * lq + i) * dim + d)] +=
                        e * item(v, kv * dim + d);
            });
        }
        for (int64_t row = 0; row < count; ++row) {
            const double total = totals[static_cast<size_t>(row)];
            for (int64_t d = 0; d < dim; ++d) {
                const double p = total > 0 ? sums[static_cast<size_t>(row * dim + d)] / total : 0.0;
                if (!(std::fabs(item(out, row * dim + d) - p) <= 1e-5)) return false;
            }
        }
        return out[static_cast<size_t>(count * dim)] == -5;
    }
};

void refuses(const char* message, magicubeStatus_t status,
             const std::function<void(attention_call&)>& change) {
    INFO(std::string(message));
    attention_call c;
    change(c);
    const plan_functions<magicubeAttentionProblem_t, magicubeAttentionPlan_t> functions = {
        magicubeAttention_isSupported, magicubeAttention_bufferSize, magicubeAttention_createPlan};
    check_refused(c.handle, c.problem, functions, message, status);
}

void refuses_execution(
    const char* message, magicubeStatus_t status,
    const std::function<magicubeStatus_t(attention_call&, magicubeAttentionPlan_t)>& run) {
    INFO(std::string(message));
    attention_call c;
    c.problem.causal = c.problem.causal_offsets = c.problem.key_lengths = 1;
    c.problem.log_sum_exp = 1;
    const auto plan = c.plan();
    CHECK(c.execute(plan) == success);
    CHECK(run(c, plan) == status);
    CHECK(message_has(message));
    magicubeAttention_destroyPlan(plan);
}

// Output with changed strides of one operand.
std::function<magicubeStatus_t(attention_call&, magicubeAttentionPlan_t)> with_strides(
    const magicubeAttentionStrides_t* magicubeAttentionArgs_t::*field,
    magicubeAttentionStrides_t strides) {
    return [field, strides](attention_call& c, magicubeAttentionPlan_t plan) {
        c.strides = strides;
        c.args.*field = &c.strides;
        return c.execute(plan);
    };
}

}  // namespace

TEST_CASE("Attention: as its definition, scale from either place") {
    attention_call c;
    const auto plan = c.plan();
    CHECK(c.execute(plan) == success);
    CHECK(c.right(1 / std::sqrt(8.0)));
    const float scale = 0.5f;
    for (const auto mode : {MAGICUBE_POINTER_MODE_HOST, MAGICUBE_POINTER_MODE_DEVICE}) {
        REQUIRE_OK(magicubeSetPointerMode(c.handle, mode));
        CHECK(c.execute(plan, &scale) == success);
        CHECK(c.right(0.5));
    }
    CHECK(c.statistics == std::vector<float>(200, -5.0f));  // not asked for
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    REQUIRE_OK(magicubeAttention_planInfo(plan, &info));
    CHECK(std::string(info.implementation) == "simd");
    magicubeAttention_destroyPlan(plan);
    CHECK(magicubeAttention_destroyPlan(nullptr) == success);
    int32_t count = 0;
    REQUIRE_OK(magicubeAttention_listImplementations(MAGICUBE_DEVICE_CPU, nullptr, 0, &count));
    CHECK(count >= 1);
}

TEST_CASE("issue_03_attention_eight_threads_on_one_plan_each_with_its_own_handle") {
    attention_call c;
    const auto plan = c.plan();
    CHECK(c.execute(plan) == success);
    std::vector<int> same(8, 0);
    std::vector<std::thread> threads;
    for (int& mine : same) {
        threads.emplace_back([&] {
            magicubeHandle_t handle = nullptr;
            magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0);
            const auto memory = attention_call::workspace(plan);
            for (int repeat = 0; repeat < 10; ++repeat) {
                std::vector<float> out(2000, -5.0f);
                magicubeAttention(handle, plan, nullptr, c.q.data(), c.k.data(), c.v.data(),
                                  out.data(), nullptr, memory.data(), memory.size());
                mine += out == c.out;
            }
            magicubeDestroy(handle);
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(same == std::vector<int>(8, 10));
    magicubeAttention_destroyPlan(plan);
}

TEST_CASE("Attention: the number of threads changes no bit") {
    attention_call c;
    const auto plan = c.plan();
    CHECK(c.execute(plan) == success);
    const auto all = c.out;
    REQUIRE_OK(magicubeSetNumThreads(c.handle, 1));
    CHECK(c.execute(plan) == success);
    CHECK(c.out == all);
    magicubeAttention_destroyPlan(plan);
}

TEST_CASE("Attention: causal offsets that overflow allow all keys or none") {
    attention_call c;
    const auto open = c.plan();
    CHECK(c.execute(open) == success);
    magicubeAttention_destroyPlan(open);
    const auto all = c.out;
    c.problem.causal = c.problem.causal_offsets = 1;
    for (const int64_t offset : {INT64_MAX, INT64_MIN}) {
        c.problem.causal_offset = offset;
        c.offsets = {offset, 0};
        const auto plan = c.plan();
        CHECK(c.execute(plan) == success);
        std::vector<float> expected = all;
        if (offset < 0) std::fill(expected.begin(), expected.begin() + 2 * 4 * 20 * 8, 0.0f);
        CHECK(c.out == expected);
        magicubeAttention_destroyPlan(plan);
    }
}

TEST_CASE("Attention refuses problems that break a rule") {
    refuses("problem->pattern is null", invalid, [](auto& c) { c.problem.pattern = nullptr; });
    refuses("problem->in_type is int16; Q, K and V are", unsupported,
            [](auto& c) { c.problem.in_type = MAGICUBE_INT16; });
    refuses("problem->out_type is e4m3; the output is", unsupported,
            [](auto& c) { c.problem.out_type = MAGICUBE_E4M3; });
    refuses("problem->out_type is 77", invalid,
            [](auto& c) { c.problem.out_type = no_enumerator<magicubeDataType_t>(); });
    refuses("problem->patterns is 77", invalid,
            [](auto& c) { c.problem.patterns = no_enumerator<magicubeAttentionPatterns_t>(); });
    refuses("problem->pattern has a batch of 1; it must be 4 (problem->q_heads)", invalid,
            [](auto& c) { c.problem.patterns = MAGICUBE_PATTERNS_HEAD; });
    refuses("problem->pattern has a batch of 1; it must be 2 (problem->batch_count)", invalid,
            [](auto& c) { c.problem.patterns = MAGICUBE_PATTERNS_BATCH; });
    refuses("problem->pattern has a batch of 1; it must be 8", invalid,
            [](auto& c) { c.problem.patterns = MAGICUBE_PATTERNS_BATCH_HEAD; });
    refuses("problem->batch_count is -1", invalid, [](auto& c) { c.problem.batch_count = -1; });
    refuses("problem->q_heads is 3; it must be a positive multiple of problem->kv_heads = 2",
            invalid, [](auto& c) { c.problem.q_heads = 3; });
    refuses("problem->q_heads is 0", invalid, [](auto& c) { c.problem.q_heads = 0; });
    refuses("problem->kv_heads is 0", invalid, [](auto& c) { c.problem.kv_heads = 0; });
    refuses("problem->head_dim is 0", invalid, [](auto& c) { c.problem.head_dim = 0; });
    refuses("problem->causal is 2", invalid, [](auto& c) { c.problem.causal = 2; });
    refuses("problem->causal is 0; problem->causal_offset", invalid,
            [](auto& c) { c.problem.causal_offset = 5; });
    refuses("problem->causal is 0; problem->causal_offset", invalid,
            [](auto& c) { c.problem.causal_offsets = 1; });
    refuses("problem->causal_offsets is 3", invalid, [](auto& c) { c.problem.causal_offsets = 3; });
    refuses("problem->key_lengths is -1", invalid, [](auto& c) { c.problem.key_lengths = -1; });
    refuses("problem->log_sum_exp is 2", invalid, [](auto& c) { c.problem.log_sum_exp = 2; });
    refuses("overflows 64 bits", invalid, [](auto& c) { c.problem.batch_count = INT64_MAX / 3; });
    refuses("nothing", invalid, [](auto& c) { c.problem.implementation = "nothing"; });
}

TEST_CASE("Attention refuses schemes that break a rule") {
    const auto integers = [](magicubeDataType_t type, int32_t bits) {
        return [type, bits](auto& c) {
            c.problem.in_type = type;
            c.problem.probability_bits = bits;
        };
    };
    refuses("problem->probability_bits is 8; it must be 0 for Q, K and V of fp16", invalid,
            integers(MAGICUBE_FP16, 8));
    refuses("problem->probability_bits is 0; it must be 16 or 8 for Q, K and V of int8", invalid,
            integers(MAGICUBE_INT8, 0));
    refuses("problem->probability_bits is 4; it must be 16 or 8 for Q, K and V of int8", invalid,
            integers(MAGICUBE_INT8, 4));
    refuses("problem->probability_bits is 16; it must be 8 or 4 for Q, K and V of int4", invalid,
            integers(MAGICUBE_INT4, 16));
    refuses("problem->q_scale is TENSOR; it must be NONE for Q, K and V of fp32", invalid,
            [](auto& c) { c.problem.q_scale = MAGICUBE_GRANULARITY_TENSOR; });
    const auto int8 = integers(MAGICUBE_INT8, 8);
    refuses("problem->q_scale is COL; it must be NONE or TENSOR or ROW", invalid, [=](auto& c) {
        int8(c);
        c.problem.q_scale = MAGICUBE_GRANULARITY_COL;
    });
    refuses("problem->k_scale is 77", invalid, [=](auto& c) {
        int8(c);
        c.problem.k_scale = no_enumerator<magicubeGranularity_t>();
    });
    refuses("problem->v_scale is ROW; it must be NONE or TENSOR or COL", invalid, [=](auto& c) {
        int8(c);
        c.problem.v_scale = MAGICUBE_GRANULARITY_ROW;
    });
    refuses("problem->head_dim is 65537; it must be at most 65536", invalid, [=](auto& c) {
        int8(c);
        c.problem.head_dim = 65537;
    });
}

TEST_CASE("Attention of integers refuses arrays that break a rule") {
    attention_call c;
    c.problem.in_type = MAGICUBE_INT4;
    c.problem.probability_bits = 8;
    c.problem.q_scale = c.problem.k_scale = MAGICUBE_GRANULARITY_ROW;
    c.problem.v_scale = MAGICUBE_GRANULARITY_COL;
    const auto plan = c.plan();
    std::vector<float> q_scale(2 * 4 * 20, 0.5f), k_scale(2 * 2 * 30, 0.5f), v_scale(2 * 2 * 8, 1);
    c.args.q_scale = q_scale.data();
    c.args.k_scale = k_scale.data();
    c.args.v_scale = v_scale.data();
    const auto refused = [&](const char* message) {
        INFO(std::string(message));
        CHECK(c.execute(plan) == invalid);
        CHECK(message_has(message));
    };
    CHECK(c.execute(plan) == success);
    c.args.k_scale = nullptr;
    refused("args->k_scale is null; it must hold 120 elements");
    c.args.k_scale = k_scale.data();
    q_scale.back() = std::numeric_limits<float>::infinity();
    refused("args->q_scale");
    q_scale.back() = 1;
    c.args.v_scale = c.out.data() + 1;
    refused("out overlaps args->v_scale");
    c.args.v_scale = v_scale.data();
    c.strides = {640, 160, 9};
    c.args.k_strides = &c.strides;
    refused("args->k_strides are 640, 160, 9; they must be even for int4");
    c.args.k_strides = nullptr;
    CHECK(c.execute(plan) == success);
    magicubeAttention_destroyPlan(plan);
}

TEST_CASE("Attention refuses workspaces that cannot be counted") {
    attention_call c;
    c.problem.head_dim = INT64_MAX - 3;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeAttention_bufferSize(c.handle, &c.problem, &sizes) == invalid);
    CHECK(message_has("overflows 64 bits"));
}

TEST_CASE("Attention refuses executions that break a rule") {
    const auto pass = [](const void* q, const void* out) {
        return [q, out](auto& c, auto plan) {
            const auto memory = c.workspace(plan);
            return magicubeAttention(c.handle, plan, nullptr, q, c.k.data(), c.v.data(),
                                     const_cast<void*>(out), &c.args, memory.data(), memory.size());
        };
    };
    static float elsewhere[2000];
    refuses_execution("q is null; it must hold 2 x 4 x 20 x 8", invalid, pass(nullptr, elsewhere));
    refuses_execution("out is null", invalid, pass(elsewhere, nullptr));
    refuses_execution("out overlaps q", invalid, pass(elsewhere, elsewhere));
    refuses_execution("q is ", MAGICUBE_STATUS_MISALIGNED, [](auto& c, auto plan) {
        return c.execute(plan, nullptr, reinterpret_cast<const char*>(c.q.data()) + 1);
    });
    refuses_execution("plan is null", invalid, [](auto& c, auto plan) {
        const auto memory = c.workspace(plan);
        return magicubeAttention(c.handle, nullptr, nullptr, c.q.data(), c.k.data(), c.v.data(),
                                 c.out.data(), &c.args, memory.data(), memory.size());
    });
    refuses_execution("workspace_size is 0", MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE,
                      [](auto& c, auto plan) {
                          return magicubeAttention(c.handle, plan, nullptr, c.q.data(), c.k.data(),
                                                   c.v.data(), c.out.data(), &c.args, nullptr, 0);
                      });
    refuses_execution("args->causal_offsets is null", invalid, [](auto& c, auto plan) {
        c.args.causal_offsets = nullptr;
        return c.execute(plan);
    });
    refuses_execution("args->key_lengths is null", invalid, [](auto& c, auto plan) {
        c.args.key_lengths = nullptr;
        return c.execute(plan);
    });
    refuses_execution("args->key_lengths[1] is 31; it must lie in [0, 30]", invalid,
                      [](auto& c, auto plan) {
                          c.lengths[1] = 31;
                          return c.execute(plan);
                      });
    refuses_execution("args->key_lengths[0] is -1", invalid, [](auto& c, auto plan) {
        c.lengths[0] = -1;
        return c.execute(plan);
    });
    refuses_execution("args->log_sum_exp is null; it must hold 160", invalid,
                      [](auto& c, auto plan) {
                          c.args.log_sum_exp = nullptr;
                          return c.execute(plan);
                      });
    refuses_execution("args->log_sum_exp overlaps k", invalid, [](auto& c, auto plan) {
        c.args.log_sum_exp = c.k.data();
        return c.execute(plan);
    });
    refuses_execution("args->log_sum_exp overlaps out", invalid, [](auto& c, auto plan) {
        c.args.log_sum_exp = c.out.data() + 100;
        return c.execute(plan);
    });
}

TEST_CASE("Attention refuses strides that break a rule") {
    refuses_execution("args->q_strides->row is 7; it must be at least 8", invalid,
                      with_strides(&magicubeAttentionArgs_t::q_strides, {640, 160, 7}));
    refuses_execution("args->k_strides->head is -1", invalid,
                      with_strides(&magicubeAttentionArgs_t::k_strides, {640, -1, 8}));
    refuses_execution("args->v_strides->batch is -2", invalid,
                      with_strides(&magicubeAttentionArgs_t::v_strides, {-2, 160, 8}));
    refuses_execution("args->k_strides overflows 64 bits", invalid,
                      with_strides(&magicubeAttentionArgs_t::k_strides, {640, INT64_MAX, 8}));
    refuses_execution("args->out_strides are 0, 160, 8; elements of an output", invalid,
                      with_strides(&magicubeAttentionArgs_t::out_strides, {0, 160, 8}));
    refuses_execution("args->out_strides are 640, 152, 8", invalid,
                      with_strides(&magicubeAttentionArgs_t::out_strides, {640, 152, 8}));
}

TEST_CASE("Attention: output side by side with Q, head by head") {
    attention_call c;
    const auto plan = c.plan();
    CHECK(c.execute(plan) == success);
    // Lines of 2 x 4 x 8: the heads of q, then those of out.
    std::vector<float> both(static_cast<size_t>(2 * 20 * 64), -1.0f);
    const auto place = [](int64_t b, int64_t h, int64_t i, int64_t d) {
        return static_cast<size_t>(b * 20 * 64 + i * 64 + h * 8 + d);
    };
    for (int64_t at = 0; at < 2 * 4 * 20 * 8; ++at)
        both[place(at / 640, at / 160 % 4, at / 8 % 20, at % 8)] = c.q[static_cast<size_t>(at)];
    c.strides = {20 * 64, 8, 64};
    c.args.q_strides = c.args.out_strides = &c.strides;
    CHECK(c.execute_into(plan, both.data() + 32, nullptr, both.data()) == success);
    bool same = true;
    for (int64_t at = 0; at < 2 * 4 * 20 * 8; ++at)
        same = same && both[32 + place(at / 640, at / 160 % 4, at / 8 % 20, at % 8)] ==
                           c.out[static_cast<size_t>(at)];
    CHECK(same);
    CHECK(c.execute_into(plan, both.data() + 31, nullptr, both.data()) == invalid);
    CHECK(message_has("out overlaps q"));
    magicubeAttention_destroyPlan(plan);
}
