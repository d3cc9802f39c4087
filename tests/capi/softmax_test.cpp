// SPDX-License-Identifier: Apache-2.0
// Sparse softmax through the C ABI, and the chain SDDMM -> softmax -> SpMM. Numbers in depth:
// tests/core/ops.
#include "magicube/softmax.h"

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

// fp32 in and out, 20 x 30, V 4, S 8.
struct softmax_call {
    generator random{7};
    sparse_sample pattern{{kind::int8, 20, 30, 4, 8, 0.4}, random};
    sp_mat matrix{pattern};
    std::vector<float> scores;
    std::vector<float> out = std::vector<float>(2000, -5.0f);
    std::vector<float> ones = std::vector<float>(2000, 1.0f);
    std::vector<float> scales = std::vector<float>(64, -1.0f);
    cpu_handle handle;
    magicubeSparseSoftmaxProblem_t problem = MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT;
    magicubeSparseSoftmaxArgs_t args = MAGICUBE_SPARSE_SOFTMAX_ARGS_INIT;

    softmax_call() {
        for (int i = 0; i < 2000; ++i)
            scores.push_back(static_cast<float>(uniform(random, -512, 512)) / 128);
        problem.pattern = matrix;
        args.row_scale = args.col_scale = args.bias = ones.data();
        args.out_scale = scales.data();
    }
    magicubeSparseSoftmaxPlan_t plan() {
        magicubeSparseSoftmaxPlan_t made = nullptr;
        REQUIRE_OK(magicubeSparseSoftmax_createPlan(handle, &problem, nullptr, 0, &made));
        return made;
    }
    magicubeStatus_t execute(magicubeSparseSoftmaxPlan_t made, const float* alpha = nullptr) {
        return magicubeSparseSoftmax(handle, made, alpha, scores.data(), out.data(), &args, nullptr,
                                     0);
    }
    // The sum of each row's probabilities is 1 (or 0 without elements), each as exp says.
    bool right(float alpha) const {
        std::vector<double> sums(20, 0);
        pattern.each_element(0, [&](int64_t row, int64_t, int64_t slot, int64_t v) {
            sums[static_cast<size_t>(row)] += std::exp(static_cast<double>(alpha) * score(slot, v));
        });
        std::vector<double> expected(static_cast<size_t>(pattern.value_count()), 0);
        pattern.each_element(0, [&](int64_t row, int64_t, int64_t slot, int64_t v) {
            expected[static_cast<size_t>(pattern.position(slot, v))] =
                std::exp(static_cast<double>(alpha) * score(slot, v)) /
                sums[static_cast<size_t>(row)];
        });
        for (size_t i = 0; i < expected.size(); ++i)
            if (std::fabs(out[i] - expected[i]) > 1e-6) return false;
        return out[expected.size()] == -5;
    }
    double score(int64_t slot, int64_t v) const {
        return static_cast<double>(scores[static_cast<size_t>(pattern.position(slot, v))]);
    }
};

void refuses(const char* message, magicubeStatus_t status,
             const std::function<void(softmax_call&)>& change) {
    INFO(std::string(message));
    softmax_call c;
    change(c);
    const plan_functions<magicubeSparseSoftmaxProblem_t, magicubeSparseSoftmaxPlan_t> functions = {
        magicubeSparseSoftmax_isSupported, magicubeSparseSoftmax_bufferSize,
        magicubeSparseSoftmax_createPlan};
    check_refused(c.handle, c.problem, functions, message, status);
}

void refuses_execution(
    const char* message, magicubeStatus_t status,
    const std::function<magicubeStatus_t(softmax_call&, magicubeSparseSoftmaxPlan_t)>& run) {
    INFO(std::string(message));
    softmax_call c;
    c.problem.row_scale = MAGICUBE_GRANULARITY_ROW;
    c.problem.col_scale = MAGICUBE_GRANULARITY_COL;
    c.problem.bias = 1;
    c.problem.out_type = MAGICUBE_INT16;
    const auto plan = c.plan();
    CHECK(c.execute(plan) == MAGICUBE_STATUS_SUCCESS);
    CHECK(run(c, plan) == status);
    CHECK(message_has(message));
    magicubeSparseSoftmax_destroyPlan(plan);
}

}  // namespace

TEST_CASE("SparseSoftmax: probabilities in the pattern's layout, alpha from either place") {
    softmax_call c;
    const auto plan = c.plan();
    CHECK(c.execute(plan) == MAGICUBE_STATUS_SUCCESS);
    CHECK(c.right(1));
    const float alpha = 0.5f;
    for (const auto mode : {MAGICUBE_POINTER_MODE_HOST, MAGICUBE_POINTER_MODE_DEVICE}) {
        REQUIRE_OK(magicubeSetPointerMode(c.handle, mode));
        CHECK(c.execute(plan, &alpha) == MAGICUBE_STATUS_SUCCESS);
        CHECK(c.right(0.5f));
    }
    CHECK(c.scales == std::vector<float>(64, -1.0f));  // not written for floats
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    REQUIRE_OK(magicubeSparseSoftmax_planInfo(plan, &info));
    CHECK(std::string(info.implementation) == "simd");
    magicubeSparseSoftmax_destroyPlan(plan);
    CHECK(magicubeSparseSoftmax_destroyPlan(nullptr) == MAGICUBE_STATUS_SUCCESS);
    int32_t count = 0;
    REQUIRE_OK(magicubeSparseSoftmax_listImplementations(MAGICUBE_DEVICE_CPU, nullptr, 0, &count));
    CHECK(count >= 1);
}

TEST_CASE("issue_03_softmax_eight_threads_on_one_plan_each_with_its_own_handle") {
    softmax_call c;
    const auto plan = c.plan();
    CHECK(c.execute(plan) == MAGICUBE_STATUS_SUCCESS);
    std::vector<int> same(8, 0);
    std::vector<std::thread> threads;
    for (int& mine : same) {
        threads.emplace_back([&] {
            magicubeHandle_t handle = nullptr;
            magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0);
            for (int repeat = 0; repeat < 20; ++repeat) {
                std::vector<float> out(2000, -5.0f);
                magicubeSparseSoftmax(handle, plan, nullptr, c.scores.data(), out.data(), nullptr,
                                      nullptr, 0);
                mine += out == c.out;
            }
            magicubeDestroy(handle);
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(same == std::vector<int>(8, 20));
    magicubeSparseSoftmax_destroyPlan(plan);
}

TEST_CASE("SparseSoftmax refuses problems that break a rule") {
    refuses("problem->pattern is null", invalid, [](auto& c) { c.problem.pattern = nullptr; });
    refuses("problem->in_type is bf16; scores are", unsupported,
            [](auto& c) { c.problem.in_type = MAGICUBE_BF16; });
    refuses("problem->out_type is int32; the output is", unsupported,
            [](auto& c) { c.problem.out_type = MAGICUBE_INT32; });
    refuses("problem->out_type is 77", invalid,
            [](auto& c) { c.problem.out_type = no_enumerator<magicubeDataType_t>(); });
    refuses("problem->row_scale is COL", invalid,
            [](auto& c) { c.problem.row_scale = MAGICUBE_GRANULARITY_COL; });
    refuses("problem->col_scale is ROW", invalid,
            [](auto& c) { c.problem.col_scale = MAGICUBE_GRANULARITY_ROW; });
    refuses("problem->bias is 2", invalid, [](auto& c) { c.problem.bias = 2; });
    refuses("problem->batch_count is -1", invalid, [](auto& c) { c.problem.batch_count = -1; });
    refuses("problem->out_batch_stride is 5; it must be 0 or at least", invalid, [](auto& c) {
        c.problem.batch_count = 2;
        c.problem.out_batch_stride = 5;
    });
    refuses("problem->in_batch_stride is -5", invalid,
            [](auto& c) { c.problem.in_batch_stride = -5; });
    refuses("problem->bias_batch_stride is -5", invalid,
            [](auto& c) { c.problem.bias_batch_stride = -5; });
    refuses("problem->out_scale_batch_stride is 19; it must be 0 or at least 20", invalid,
            [](auto& c) { c.problem.out_scale_batch_stride = 19; });
    refuses("overflows 64 bits", invalid, [](auto& c) {
        c.problem.in_batch_stride = INT64_MAX / 2;
        c.problem.batch_count = 3;
    });
}

TEST_CASE("SparseSoftmax: int4 needs an even vector length or a stride of 8") {
    softmax_call c;
    sparse_sample odd({kind::int8, 5, 9, 1, 1, 0.4}, c.random);
    const sp_mat matrix(odd);
    c.problem.pattern = matrix;
    c.problem.out_type = MAGICUBE_INT4;
    CHECK(magicubeSparseSoftmax_isSupported(c.handle, &c.problem) == invalid);
    CHECK(message_has("problem->out_type is int4"));
}

TEST_CASE("SparseSoftmax refuses executions that break a rule") {
    refuses_execution("handle is null", invalid, [](auto& c, auto plan) {
        return magicubeSparseSoftmax(nullptr, plan, nullptr, c.scores.data(), c.out.data(), &c.args,
                                     nullptr, 0);
    });
    refuses_execution("plan is null", invalid, [](auto& c, auto) {
        return magicubeSparseSoftmax(c.handle, nullptr, nullptr, c.scores.data(), c.out.data(),
                                     &c.args, nullptr, 0);
    });
    refuses_execution("scores is null", invalid, [](auto& c, auto plan) {
        return magicubeSparseSoftmax(c.handle, plan, nullptr, nullptr, c.out.data(), &c.args,
                                     nullptr, 0);
    });
    refuses_execution("out is null", invalid, [](auto& c, auto plan) {
        return magicubeSparseSoftmax(c.handle, plan, nullptr, c.scores.data(), nullptr, &c.args,
                                     nullptr, 0);
    });
    refuses_execution("args->row_scale is null", invalid, [](auto& c, auto plan) {
        return magicubeSparseSoftmax(c.handle, plan, nullptr, c.scores.data(), c.out.data(),
                                     nullptr, nullptr, 0);
    });
    refuses_execution("out overlaps scores", invalid, [](auto& c, auto plan) {
        return magicubeSparseSoftmax(c.handle, plan, nullptr, c.scores.data(), c.scores.data(),
                                     &c.args, nullptr, 0);
    });
    refuses_execution("out overlaps args->bias", invalid, [](auto& c, auto plan) {
        return magicubeSparseSoftmax(c.handle, plan, nullptr, c.scores.data(), c.ones.data(),
                                     &c.args, nullptr, 0);
    });
    refuses_execution("args->out_scale is null; it must hold 20", invalid, [](auto& c, auto plan) {
        c.args.out_scale = nullptr;
        return c.execute(plan);
    });
    refuses_execution("args->bias is null", invalid, [](auto& c, auto plan) {
        c.args.bias = nullptr;
        return c.execute(plan);
    });
    refuses_execution("args->col_scale[29] is nan", invalid, [](auto& c, auto plan) {
        c.ones[29] = std::nanf("");
        return c.execute(plan);
    });
    refuses_execution("scores is ", MAGICUBE_STATUS_MISALIGNED, [](auto& c, auto plan) {
        return magicubeSparseSoftmax(c.handle, plan, nullptr,
                                     reinterpret_cast<const char*>(c.scores.data()) + 1,
                                     c.out.data(), &c.args, nullptr, 0);
    });
}

TEST_CASE("SparseSoftmax: scores and output may interleave matrix by matrix") {
    softmax_call c;
    c.problem.batch_count = 2;
    const int64_t count = c.pattern.value_count();
    c.problem.in_batch_stride = c.problem.out_batch_stride = 2 * count;
    packed_array both(kind::fp32, 4 * count);
    auto* const scores = static_cast<float*>(both.data());
    const auto plan = c.plan();
    const auto run = [&](float* out) {
        return magicubeSparseSoftmax(c.handle, plan, nullptr, scores, out, &c.args, nullptr, 0);
    };
    CHECK(run(scores + count) == MAGICUBE_STATUS_SUCCESS);
    CHECK(run(scores + count - 1) == invalid);
    CHECK(message_has("out overlaps scores"));
    magicubeSparseSoftmax_destroyPlan(plan);
}

TEST_CASE("SparseSoftmax: one array for scores and output needs equal batch strides") {
    softmax_call c;
    c.problem.batch_count = 2;
    for (const int64_t more : {0, 8}) {
        c.problem.out_batch_stride = c.pattern.value_count() + more;
        const auto plan = c.plan();
        CHECK(magicubeSparseSoftmax(c.handle, plan, nullptr, c.out.data(), c.out.data(), &c.args,
                                    nullptr, 0) == (more == 0 ? MAGICUBE_STATUS_SUCCESS : invalid));
        magicubeSparseSoftmax_destroyPlan(plan);
    }
}
