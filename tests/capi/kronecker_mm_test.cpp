// SPDX-License-Identifier: Apache-2.0
// Products with Kronecker-sparse matrices through the C ABI. Numbers in depth: tests/core/ops.
#include "magicube/kronecker_mm.h"

#include <doctest/doctest.h>

#include <functional>
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

constexpr plan_functions<magicubeKroneckerMMProblem_t, magicubeKroneckerMMPlan_t> functions = {
    magicubeKroneckerMM_isSupported, magicubeKroneckerMM_bufferSize,
    magicubeKroneckerMM_createPlan};

// K = (2, 3, 4, 1) of fp32 with values 1 to 24, five vectors, batch first.
struct call {
    std::vector<float> w = std::vector<float>(24);
    std::vector<float> x = std::vector<float>(5 * 8, 1.0f);
    std::vector<float> y = std::vector<float>(5 * 6, 77.0f);
    std::vector<float> ones = std::vector<float>(64, 1.0f);
    const void* arrays[1] = {nullptr};
    magicubeKroneckerDescr_t k = nullptr;
    dn_mat x_matrix{5, 8, 8, x.data(), MAGICUBE_FP32, MAGICUBE_ORDER_ROW};
    dn_mat y_matrix{5, 6, 6, y.data(), MAGICUBE_FP32, MAGICUBE_ORDER_ROW};
    cpu_handle handle;
    magicubeKroneckerMMProblem_t problem = MAGICUBE_KRONECKER_MM_PROBLEM_INIT;
    magicubeKroneckerMMArgs_t args = MAGICUBE_KRONECKER_MM_ARGS_INIT;

    call() {
        for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i + 1);
        arrays[0] = w.data();
        REQUIRE_OK(magicubeCreateKronecker(&k, 2, 3, 4, 1, w.data(), MAGICUBE_FP32));
        problem.K = k;
        problem.n_max = 5;
        args.k_scale = args.x_scale = args.bias = args.y_scale = ones.data();
    }
    ~call() { magicubeDestroyKronecker(k); }
    call(const call&) = delete;
    call& operator=(const call&) = delete;

    void set_k(int64_t a, int64_t b, int64_t c, int64_t d, magicubeDataType_t type,
               void* values = nullptr) {
        magicubeDestroyKronecker(k);
        k = nullptr;
        REQUIRE_OK(magicubeCreateKronecker(&k, a, b, c, d, values, type));
        problem.K = k;
    }
    magicubeKroneckerMMPlan_t plan() {
        magicubeKroneckerMMPlan_t made = nullptr;
        REQUIRE_OK(magicubeKroneckerMM_createPlan(handle, &problem, nullptr, 0, &made));
        return made;
    }
    magicubeStatus_t execute(magicubeKroneckerMMPlan_t made, magicubeConstDnMatDescr_t X,
                             magicubeDnMatDescr_t Y, const float* beta = nullptr) {
        magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
        REQUIRE_OK(magicubeKroneckerMM_planInfo(made, &info));
        const aligned_buffer workspace(info.workspace_bytes);
        const auto status = magicubeKroneckerMM(handle, made, nullptr, X, beta, Y, &args,
                                                workspace.data(), workspace.size());
        CHECK(workspace.guard_intact());
        return status;
    }
};

void refuses(const char* message, magicubeStatus_t status,
             const std::function<void(call&)>& change) {
    INFO(std::string(message));
    call c;
    change(c);
    check_refused(c.handle, c.problem, functions, message, status);
}

// An execution of a good plan, after the change.
void refuses_execution(
    const char* message, const std::function<void(call&)>& before,
    const std::function<magicubeStatus_t(call&, magicubeKroneckerMMPlan_t)>& run) {
    INFO(std::string(message));
    call c;
    before(c);
    auto* plan = c.plan();
    CHECK(run(c, plan) == invalid);
    CHECK(message_has(message));
    CHECK(c.y == std::vector<float>(30, 77.0f));
    magicubeKroneckerMM_destroyPlan(plan);
}

const std::vector<float> sums = {10, 26, 42, 58, 74, 90};  // of four neighbouring values

}  // namespace

TEST_SUITE_BEGIN("kronecker");

TEST_CASE("KroneckerMM: a product, new values, and values of a call") {
    for (const auto mode :
         {MAGICUBE_VALUES_FIXED, MAGICUBE_VALUES_UPDATABLE, MAGICUBE_VALUES_PER_CALL}) {
        for (const char* implementation : {"simd", "reference"}) {
            call c;
            c.problem.value_mode = mode;
            c.problem.implementation = implementation;
            c.args.k_values = c.arrays;
            auto* plan = c.plan();
            CHECK(c.execute(plan, c.x_matrix, c.y_matrix) == MAGICUBE_STATUS_SUCCESS);
            for (size_t i = 0; i < c.y.size(); ++i) CHECK(c.y[i] == sums[i % 6]);
            std::vector<float> twice = c.w;
            for (float& value : twice) value *= 2;
            const void* const arrays[] = {twice.data()};
            const auto status = magicubeKroneckerMM_updateValues(c.handle, plan, arrays);
            CHECK(status ==
                  (mode == MAGICUBE_VALUES_UPDATABLE ? MAGICUBE_STATUS_SUCCESS : unsupported));
            if (status == unsupported) CHECK(message_has("MAGICUBE_VALUES_UPDATABLE"));
            if (status == MAGICUBE_STATUS_SUCCESS) {
                const float beta = 1;
                CHECK(c.execute(plan, c.x_matrix, c.y_matrix, &beta) == MAGICUBE_STATUS_SUCCESS);
                CHECK(c.y[1] == 3 * sums[1]);
            }
            magicubeKroneckerMM_destroyPlan(plan);
        }
    }
}

TEST_CASE("KroneckerMM: problems that are refused") {
    refuses("problem->K is null", invalid, [](call& c) { c.problem.K = nullptr; });
    refuses("problem->transpose is 2; it must be 0 or 1", invalid,
            [](call& c) { c.problem.transpose = 2; });
    refuses("problem->layout is 77", invalid,
            [](call& c) { c.problem.layout = no_enumerator<magicubeBatchLayout_t>(); });
    refuses("problem->n_min is -1", invalid, [](call& c) { c.problem.n_min = -1; });
    refuses("problem->n_max is 0; it must be at least problem->n_min = 1", invalid,
            [](call& c) { c.problem.n_max = 0; });
    refuses("problem->batch_count is -1", invalid, [](call& c) { c.problem.batch_count = -1; });
    refuses("the type of problem->K is e4m3; it must be fp32, fp16, bf16 or int8", unsupported,
            [](call& c) { c.set_k(1, 1, 1, 1, MAGICUBE_E4M3); });
    refuses("problem->y_type is int32; Y of fp32 is fp32, fp16, bf16 or int8", unsupported,
            [](call& c) { c.problem.y_type = MAGICUBE_INT32; });
    refuses("problem->y_type is int32, which takes no scale", unsupported, [](call& c) {
        c.set_k(1, 2, 2, 1, MAGICUBE_INT8);
        c.problem.y_type = MAGICUBE_INT32;
        c.problem.bias = MAGICUBE_GRANULARITY_ROW;
    });
    refuses("problem->k_scale is COL; it must be NONE or TENSOR or ROW", invalid,
            [](call& c) { c.problem.k_scale = MAGICUBE_GRANULARITY_COL; });
    refuses("problem->x_scale is ROW", invalid,
            [](call& c) { c.problem.x_scale = MAGICUBE_GRANULARITY_ROW; });
    refuses("problem->bias is TENSOR", invalid,
            [](call& c) { c.problem.bias = MAGICUBE_GRANULARITY_TENSOR; });
    refuses("only Y of int8 has a scale, and problem->y_type is fp32", invalid,
            [](call& c) { c.problem.y_scale = MAGICUBE_GRANULARITY_TENSOR; });
    refuses("those of KroneckerMM on CPU are: simd, reference", invalid,
            [](call& c) { c.problem.implementation = "fast"; });
    refuses("computes in floating point; K is int8", unsupported, [](call& c) {
        c.set_k(1, 2, 2, 1, MAGICUBE_INT8, c.w.data());
        c.problem.implementation = "simd";
    });
    call c;
    c.set_k(2, 3, 4, 1, MAGICUBE_FP32);
    magicubeKroneckerMMPlan_t plan = nullptr;
    CHECK(magicubeKroneckerMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan) == invalid);
    CHECK(message_has("problem->K: the factor has null values"));
}

TEST_CASE("KroneckerMM: a chain of integers is refused") {
    call c;
    const magicubeKroneckerShape_t shapes[] = {{1, 2, 2, 1}, {1, 2, 2, 1}};
    magicubeConstKroneckerDescr_t chain = nullptr;
    REQUIRE_OK(magicubeCreateConstKroneckerChain(&chain, 2, shapes, nullptr, MAGICUBE_INT8));
    c.problem.K = chain;
    check_refused(c.handle, c.problem, functions, "problem->K is a chain of 2 factors of int8",
                  unsupported);
    magicubeDestroyKronecker(chain);
}

TEST_CASE("KroneckerMM: huge sizes are refused or estimated, never wrapped") {
    // One size of K is huge, or the number of vectors or of matrices; values take fewer than 2^63
    // bytes of either type.
    for (const int64_t size : {int64_t{1} << 31, int64_t{1} << 40, int64_t{1} << 58}) {
        for (int way = 0; way < 32; ++way) {
            call c;
            const int huge = way % 4;
            c.set_k(huge == 0 ? size : 1, huge == 1 ? size : 2, huge == 2 ? size : 2,
                    huge == 3 ? size : 1, way & 4 ? MAGICUBE_INT8 : MAGICUBE_FP16);
            c.problem.n_max = way & 8 ? INT64_MAX : 1;
            c.problem.batch_count = way & 16 ? INT64_MAX : 1;
            for (const auto layout : {MAGICUBE_BATCH_FIRST, MAGICUBE_BATCH_LAST}) {
                for (const auto mode : {MAGICUBE_VALUES_FIXED, MAGICUBE_VALUES_PER_CALL}) {
                    c.problem.layout = layout;
                    c.problem.value_mode = mode;
                    c.problem.transpose = way & 1;
                    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
                    const auto status =
                        magicubeKroneckerMM_bufferSize(c.handle, &c.problem, &sizes);
                    const bool known = status == MAGICUBE_STATUS_SUCCESS || status == invalid;
                    CHECK(known);
                }
            }
        }
    }
}

TEST_CASE("KroneckerMM: executions that are refused") {
    const auto good = [](call&) {};
    const auto with = [](magicubeConstDnMatDescr_t x, magicubeDnMatDescr_t y) {
        return [=](call& c, magicubeKroneckerMMPlan_t plan) {
            return c.execute(plan, x ? x : c.x_matrix, y ? y : c.y_matrix);
        };
    };
    std::vector<float> memory(64, 1.0f);
    const auto x = [&](int64_t rows, int64_t cols, magicubeOrder_t order = MAGICUBE_ORDER_ROW) {
        return dn_mat(rows, cols, 8, memory.data(), MAGICUBE_FP32, order);
    };
    const auto many = x(6, 8), narrow = x(5, 7), by_col = x(5, 8, MAGICUBE_ORDER_COL);
    refuses_execution("X's number of rows is 6; the plan was made for 1 to 5", good,
                      with(many, nullptr));
    refuses_execution("X is 5 x 7; it must be 5 x 8", good, with(narrow, nullptr));
    refuses_execution("X has order COL; the plan was made for ROW", good, with(by_col, nullptr));
    refuses_execution("Y is 5 x 8; it must be 5 x 6", good, with(nullptr, x(5, 8)));
    refuses_execution(
        "X's number of columns is 8; the plan was made for 1 to 5",
        [](call& c) { c.problem.layout = MAGICUBE_BATCH_LAST; }, with(nullptr, nullptr));
    refuses_execution(
        "args->bias is null",
        [](call& c) {
            c.problem.bias = MAGICUBE_GRANULARITY_ROW;
            c.args.bias = nullptr;
        },
        with(nullptr, nullptr));
    refuses_execution(
        "args->k_values is null; it must hold 1 pointers",
        [](call& c) { c.problem.value_mode = MAGICUBE_VALUES_PER_CALL; }, with(nullptr, nullptr));
    call c;
    auto* plan = c.plan();
    const dn_mat same(5, 6, 8, c.x.data(), MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    CHECK(c.execute(plan, c.x_matrix, same) == invalid);
    CHECK(message_has("Y"));
    CHECK(c.x == std::vector<float>(40, 1.0f));
    magicubeKroneckerMM_destroyPlan(plan);
}

TEST_CASE("issue_03_kronecker_mm_eight_threads_on_one_plan") {
    call c;
    auto* plan = c.plan();
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> results(8, std::vector<float>(30));
    std::vector<int> failed(8, 1);
    for (size_t t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            magicubeHandle_t handle = nullptr;
            magicubeDnMatDescr_t y = nullptr;
            magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0);
            magicubeCreateDnMat(&y, 5, 6, 6, results[t].data(), MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
            magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
            magicubeKroneckerMM_planInfo(plan, &info);
            const aligned_buffer workspace(info.workspace_bytes);
            failed[t] = 0;
            for (int i = 0; i < 50; ++i)
                failed[t] += magicubeKroneckerMM(handle, plan, nullptr, c.x_matrix, nullptr, y,
                                                 nullptr, workspace.data(), workspace.size());
            magicubeDestroyDnMat(y);
            magicubeDestroy(handle);
        });
    }
    for (auto& thread : threads) thread.join();
    for (size_t t = 0; t < 8; ++t) {
        CHECK(failed[t] == 0);
        for (size_t i = 0; i < 30; ++i) CHECK(results[t][i] == sums[i % 6]);
    }
    magicubeKroneckerMM_destroyPlan(plan);
}

TEST_CASE("Kronecker gradients and their refusals") {
    call c;
    std::vector<float> dy(30, 2.0f), g(24, 77.0f);
    const dn_mat dy_matrix(5, 6, 6, dy.data(), MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    magicubeKroneckerDescr_t gradient = nullptr;
    REQUIRE_OK(magicubeCreateKronecker(&gradient, 2, 3, 4, 1, g.data(), MAGICUBE_FP32));
    CHECK(magicubeKroneckerGradient(c.handle, c.x_matrix, dy_matrix, MAGICUBE_BATCH_FIRST,
                                    gradient) == MAGICUBE_STATUS_SUCCESS);
    CHECK(g == std::vector<float>(24, 10.0f));
    CHECK(magicubeKroneckerGradient(c.handle, c.x_matrix, dy_matrix, MAGICUBE_BATCH_LAST,
                                    gradient) == invalid);
    CHECK(message_has("X has 5 features; it must have 8, the columns of gradient"));
    CHECK(magicubeKroneckerGradient(c.handle, c.x_matrix, c.x_matrix, MAGICUBE_BATCH_FIRST,
                                    gradient) == invalid);
    CHECK(message_has("dY has 8 features; it must have 6"));
    CHECK(magicubeKroneckerGradient(c.handle, c.x_matrix, dy_matrix,
                                    no_enumerator<magicubeBatchLayout_t>(), gradient) == invalid);
    CHECK(message_has("layout is 77"));
    magicubeDestroyKronecker(gradient);
}

TEST_SUITE_END();
