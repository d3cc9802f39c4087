// SPDX-License-Identifier: Apache-2.0
// SDDMM through the C ABI. Numbers in depth: tests/core/ops.
#include "magicube/sddmm.h"

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

// int8 A (20 x 11) and B (11 x 30), fp32 out, V 4, S 8.
struct sddmm_call {
    generator random{7};
    sparse_sample pattern{{kind::int8, 20, 30, 4, 8, 0.4}, random};
    dense_sample a{{kind::int8, 20, 11, false, 2}, random};
    dense_sample b{{kind::int8, 11, 30, true, 2}, random};
    sp_mat matrix{pattern};
    dn_mat a_matrix{a};
    dn_mat b_matrix{b};
    packed_array out{kind::fp32, pattern.value_count(), 0x77};
    std::vector<float> ones = std::vector<float>(64, 1.0f);
    cpu_handle handle;
    magicubeSDDMMProblem_t problem = MAGICUBE_SDDMM_PROBLEM_INIT;
    magicubeSDDMMArgs_t args = MAGICUBE_SDDMM_ARGS_INIT;

    sddmm_call() {
        problem.pattern = matrix;
        problem.b_order = MAGICUBE_ORDER_COL;
        problem.k_max = 11;
        args.a_scale = args.b_scale = args.out_scale = ones.data();
    }
    magicubeSDDMMPlan_t plan() {
        magicubeSDDMMPlan_t made = nullptr;
        REQUIRE_OK(magicubeSDDMM_createPlan(handle, &problem, nullptr, 0, &made));
        return made;
    }
    magicubeStatus_t execute(magicubeSDDMMPlan_t made, magicubeConstDnMatDescr_t A,
                             magicubeConstDnMatDescr_t B, void* values,
                             const float* alpha = nullptr) {
        magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
        REQUIRE_OK(magicubeSDDMM_planInfo(made, &info));
        const aligned_buffer workspace(info.workspace_bytes);
        const auto status = magicubeSDDMM(handle, made, alpha, A, B, values, &args,
                                          workspace.data(), workspace.size());
        CHECK(workspace.guard_intact());
        return status;
    }
    // Whether values are alpha * (A * B) where the pattern has elements, and 0 elsewhere.
    bool right(const packed_array& values, double alpha) const {
        std::vector<double> dense_a;
        for (int64_t i = 0; i < 20; ++i)
            for (int64_t k = 0; k < 11; ++k) dense_a.push_back(a.at(0, i, k));
        auto expected = packed_array(values.type(), values.count(), 0x77);
        for (int64_t i = 0; i < values.count(); ++i) expected.set(i, 0);
        pattern.each_element(0, [&](int64_t i, int64_t j, int64_t slot, int64_t v) {
            expected.set(pattern.position(slot, v),
                         alpha * static_cast<double>(exact_product(dense_a, 11, i, b, 0, j)));
        });
        return expected.bytes() == values.bytes();
    }
};

void refuses(const char* message, magicubeStatus_t status,
             const std::function<void(sddmm_call&)>& change) {
    INFO(std::string(message));
    sddmm_call c;
    change(c);
    const plan_functions<magicubeSDDMMProblem_t, magicubeSDDMMPlan_t> functions = {
        magicubeSDDMM_isSupported, magicubeSDDMM_bufferSize, magicubeSDDMM_createPlan};
    check_refused(c.handle, c.problem, functions, message, status);
}

}  // namespace

TEST_CASE("SDDMM: products in the pattern's layout; alpha from either place; the plan's own copy") {
    sddmm_call c;
    const auto plan = c.plan();
    const auto kept = c.pattern.columns();
    std::fill(c.pattern.columns().begin(), c.pattern.columns().end(), 1 << 30);
    CHECK(c.execute(plan, c.a_matrix, c.b_matrix, c.out.data()) == MAGICUBE_STATUS_SUCCESS);
    c.pattern.columns() = kept;
    CHECK(c.right(c.out, 1));
    const float alpha = -2;
    for (const auto mode : {MAGICUBE_POINTER_MODE_HOST, MAGICUBE_POINTER_MODE_DEVICE}) {
        REQUIRE_OK(magicubeSetPointerMode(c.handle, mode));
        c.out = packed_array(kind::fp32, c.pattern.value_count(), 0x77);
        CHECK(c.execute(plan, c.a_matrix, c.b_matrix, c.out.data(), &alpha) ==
              MAGICUBE_STATUS_SUCCESS);
        // fma(s, sum, +0) makes every zero +0.
        for (int64_t i = 0; i < c.out.count(); ++i) CHECK_FALSE(c.out.raw(i) == 0x80000000);
        CHECK(c.right(c.out, -2));
    }
    magicubeSDDMM_destroyPlan(plan);
    CHECK(magicubeSDDMM_destroyPlan(nullptr) == MAGICUBE_STATUS_SUCCESS);
}

TEST_CASE("SDDMM: buffers of the caller, plan information, implementations") {
    sddmm_call c;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    REQUIRE_OK(magicubeSDDMM_bufferSize(c.handle, &c.problem, &sizes));
    const aligned_buffer memory(sizes.plan_bytes);
    magicubeSDDMMPlan_t plan = nullptr;
    CHECK(magicubeSDDMM_createPlan(c.handle, &c.problem, memory.data(), memory.size() - 1, &plan) ==
          MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE);
    REQUIRE_OK(magicubeSDDMM_createPlan(c.handle, &c.problem, memory.data(), memory.size(), &plan));
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    REQUIRE_OK(magicubeSDDMM_planInfo(plan, &info));
    CHECK(std::string(info.implementation) == "simd");
    CHECK(info.plan_bytes == sizes.plan_bytes);
    CHECK(info.workspace_bytes == sizes.workspace_bytes);
    CHECK(c.execute(plan, c.a_matrix, c.b_matrix, c.out.data()) == MAGICUBE_STATUS_SUCCESS);
    CHECK(c.right(c.out, 1));
    CHECK(memory.guard_intact());
    magicubeSDDMM_destroyPlan(plan);
    const char* name = nullptr;
    int32_t count = 0;
    REQUIRE_OK(magicubeSDDMM_listImplementations(MAGICUBE_DEVICE_CPU, &name, 1, &count));
    CHECK(count >= 1);
    CHECK(name != nullptr);
}

TEST_CASE("issue_03_sddmm_eight_threads_on_one_plan_each_with_its_own_handle") {
    sddmm_call c;
    const auto plan = c.plan();
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    REQUIRE_OK(magicubeSDDMM_planInfo(plan, &info));
    std::vector<int> right(8, 0);
    std::vector<std::thread> threads;
    for (int& mine : right) {
        threads.emplace_back([&] {
            magicubeHandle_t handle = nullptr;
            magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0);
            const aligned_buffer workspace(info.workspace_bytes);
            for (int repeat = 0; repeat < 20; ++repeat) {
                packed_array out(kind::fp32, c.pattern.value_count(), 0x77);
                magicubeSDDMM(handle, plan, nullptr, c.a_matrix, c.b_matrix, out.data(), nullptr,
                              workspace.data(), workspace.size());
                mine += c.right(out, 1);
            }
            magicubeDestroy(handle);
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(right == std::vector<int>(8, 20));
    magicubeSDDMM_destroyPlan(plan);
}

TEST_CASE("SDDMM refuses problems that break a rule") {
    refuses("problem->pattern is null", invalid, [](auto& c) { c.problem.pattern = nullptr; });
    refuses("problem->a_type is 77", invalid,
            [](auto& c) { c.problem.a_type = no_enumerator<magicubeDataType_t>(); });
    refuses("int8/int16; supported pairs: int16/int16", unsupported,
            [](auto& c) { c.problem.b_type = MAGICUBE_INT16; });
    refuses("problem->out_type is uint8; the output of int8/int8 is int32", unsupported,
            [](auto& c) { c.problem.out_type = MAGICUBE_UINT8; });
    refuses("problem->out_type is int32, which takes no scale", unsupported, [](auto& c) {
        c.problem.out_type = MAGICUBE_INT32;
        c.problem.a_scale = MAGICUBE_GRANULARITY_ROW;
    });
    refuses("problem->k_min is -1", invalid, [](auto& c) { c.problem.k_min = -1; });
    refuses("problem->k_max is 0", invalid, [](auto& c) { c.problem.k_max = 0; });
    refuses("problem->batch_count is -1", invalid, [](auto& c) { c.problem.batch_count = -1; });
    refuses("problem->a_scale is COL", invalid,
            [](auto& c) { c.problem.a_scale = MAGICUBE_GRANULARITY_COL; });
    refuses("problem->b_scale is ROW", invalid,
            [](auto& c) { c.problem.b_scale = MAGICUBE_GRANULARITY_ROW; });
    refuses("problem->out_scale is TENSOR; only an output of int16 or int8", invalid,
            [](auto& c) { c.problem.out_scale = MAGICUBE_GRANULARITY_TENSOR; });
    refuses("problem->out_batch_stride is -1", invalid,
            [](auto& c) { c.problem.out_batch_stride = -1; });
    refuses("problem->out_batch_stride is 7; it must be 0 or at least", invalid, [](auto& c) {
        c.problem.batch_count = 2;
        c.problem.out_batch_stride = 7;
    });
    refuses("'fast'", invalid, [](auto& c) { c.problem.implementation = "fast"; });
}

TEST_CASE("issue_05_sddmm_a_workspace_beyond_64_bits_is_refused") {
    sddmm_call c;
    c.problem.k_max = INT64_MAX;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSDDMM_bufferSize(c.handle, &c.problem, &sizes) == invalid);
    CHECK(message_has("workspace overflows 64 bits"));
}

TEST_CASE("SDDMM checks the pattern when the plan is made") {
    sddmm_call c;
    c.pattern.columns()[0] = 30;
    magicubeSDDMMPlan_t plan = nullptr;
    CHECK(magicubeSDDMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan) == invalid);
    CHECK(message_has("problem->pattern: col_indices[0] is 30"));
}

TEST_CASE("SDDMM refuses executions that break a rule") {
    sddmm_call c;
    c.problem.a_scale = MAGICUBE_GRANULARITY_ROW;
    const auto plan = c.plan();
    const auto good = c.out.bytes();
    const auto run = [&](magicubeConstDnMatDescr_t A, magicubeConstDnMatDescr_t B, void* values) {
        return c.execute(plan, A, B, values);
    };
    CHECK(run(nullptr, c.b_matrix, c.out.data()) == invalid);
    CHECK(message_has("A is null"));
    CHECK(run(c.a_matrix, nullptr, c.out.data()) == invalid);
    CHECK(run(c.a_matrix, c.b_matrix, nullptr) == invalid);
    CHECK(message_has("values is null"));
    CHECK(run(c.a_matrix, c.b_matrix, static_cast<char*>(c.out.data()) + 2) ==
          MAGICUBE_STATUS_MISALIGNED);
    CHECK(run(c.b_matrix, c.a_matrix, c.out.data()) == invalid);
    CHECK(message_has("A's number of columns is 30; the plan was made for 1 to 11"));
    const dn_mat b16(11, 30, 12, c.b.array().data(), MAGICUBE_UINT8, MAGICUBE_ORDER_COL);
    CHECK(run(c.a_matrix, b16, c.out.data()) == invalid);
    CHECK(message_has("B is uint8; the plan was made for int8"));
    const dn_mat shorter(10, 30, 12, c.b.array().data(), MAGICUBE_INT8, MAGICUBE_ORDER_COL);
    CHECK(run(c.a_matrix, shorter, c.out.data()) == invalid);
    CHECK(message_has("B is 10 x 30; it must be 11 x 30"));
    const dn_mat over(20, 11, 11, c.out.data(), MAGICUBE_INT8, MAGICUBE_ORDER_ROW);
    CHECK(run(over, c.b_matrix, c.out.data()) == invalid);
    CHECK(message_has("values overlaps A"));
    CHECK(magicubeSDDMM(c.handle, nullptr, nullptr, c.a_matrix, c.b_matrix, c.out.data(), &c.args,
                        nullptr, 0) == invalid);
    CHECK(magicubeSDDMM(c.handle, plan, nullptr, c.a_matrix, c.b_matrix, c.out.data(), &c.args,
                        nullptr, 1) == MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE);
    c.ones[19] = std::numeric_limits<float>::infinity();
    CHECK(run(c.a_matrix, c.b_matrix, c.out.data()) == invalid);
    CHECK(message_has("args->a_scale[19] is inf"));
    c.args.a_scale = nullptr;
    CHECK(run(c.a_matrix, c.b_matrix, c.out.data()) == invalid);
    CHECK(message_has("args->a_scale is null"));
    CHECK(good == c.out.bytes());
    magicubeSDDMM_destroyPlan(plan);
}

TEST_CASE("SDDMM: an operand may lie between the outputs of a batch") {
    sddmm_call c;
    c.problem.batch_count = 2;
    const int64_t count = c.pattern.value_count();
    REQUIRE(count * 4 > 220);
    c.problem.out_batch_stride = 2 * count;
    packed_array both(kind::fp32, 4 * count, 0);
    auto* const bytes = static_cast<char*>(both.data());
    const dn_mat b(11, 30, 12, c.b.array().data(), MAGICUBE_INT8, MAGICUBE_ORDER_COL);
    REQUIRE_OK(magicubeDnMatSetStridedBatch(b, 2, 0));
    const auto plan = c.plan();
    const auto run = [&](char* between) {
        const dn_mat a(20, 11, 11, between, MAGICUBE_INT8, MAGICUBE_ORDER_ROW);
        REQUIRE_OK(magicubeDnMatSetStridedBatch(a, 2, 0));
        return c.execute(plan, a, b, bytes);
    };
    CHECK(run(bytes + count * 4) == MAGICUBE_STATUS_SUCCESS);
    CHECK(run(bytes + count * 8 - 220) == MAGICUBE_STATUS_SUCCESS);
    CHECK(run(bytes + count * 4 - 1) == invalid);
    CHECK(message_has("values overlaps A"));
    CHECK(run(bytes + count * 8 - 219) == invalid);
    magicubeSDDMM_destroyPlan(plan);
}

TEST_CASE("SDDMM: an output of int32 takes alpha 1 in host memory") {
    sddmm_call c;
    c.problem.out_type = MAGICUBE_INT32;
    const auto plan = c.plan();
    c.out = packed_array(kind::int32, c.pattern.value_count(), 0x77);
    const float one = 1;
    const float two = 2;
    CHECK(c.execute(plan, c.a_matrix, c.b_matrix, c.out.data(), &two) == unsupported);
    CHECK(message_has("alpha is 2"));
    CHECK(c.execute(plan, c.a_matrix, c.b_matrix, c.out.data(), &one) == MAGICUBE_STATUS_SUCCESS);
    CHECK(c.right(c.out, 1));
    REQUIRE_OK(magicubeSetPointerMode(c.handle, MAGICUBE_POINTER_MODE_DEVICE));
    CHECK(c.execute(plan, c.a_matrix, c.b_matrix, c.out.data(), &one) == unsupported);
    CHECK(message_has("alpha lies on the device"));
    magicubeSDDMM_destroyPlan(plan);
}
