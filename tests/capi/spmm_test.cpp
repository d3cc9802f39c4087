// SPDX-License-Identifier: Apache-2.0
// SpMM through the C ABI: results, value modes, plans, threads. Numbers in depth: tests/core/ops.
#include "magicube/spmm.h"

#include <doctest/doctest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "support/aligned_buffer.hpp"
#include "support/capi.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

// int8 A and B, int32 C: 20 x 30 x 11 (times `times`), V 4, S 8.
struct product {
    int64_t m, k, n;
    generator random{7};
    sparse_sample a;
    dense_sample b;
    dense_sample c;
    sp_mat a_matrix;
    dn_mat b_matrix;
    dn_mat c_matrix;
    cpu_handle handle;

    explicit product(int64_t batch = 1, batch_kind batching = batch_kind::one_pattern,
                     int64_t times = 1)
        : m(20 * times),
          k(30 * times),
          n(11 * times),
          a({kind::int8, m, k, 4, 8, 0.4, false, false, batch, batching, 4, 0, 0}, random),
          b({kind::int8, k, n, false, 2, batch, false}, random),
          c({kind::int32, m, n, false, 2, batch, false}, random, 0x77),
          a_matrix(a),
          b_matrix(b),
          c_matrix(c) {}

    magicubeSpMMProblem_t problem() const {
        magicubeSpMMProblem_t p = MAGICUBE_SPMM_PROBLEM_INIT;
        p.A = a_matrix;
        p.c_type = MAGICUBE_INT32;
        p.n_max = 2 * n;
        p.batch_count = b.shape().batch;
        return p;
    }

    magicubeSpMMPlan_t plan(const magicubeSpMMProblem_t& p) const {
        magicubeSpMMPlan_t plan = nullptr;
        REQUIRE_OK(magicubeSpMM_createPlan(handle, &p, nullptr, 0, &plan));
        return plan;
    }

    size_t workspace_bytes(magicubeSpMMPlan_t plan) const {
        magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
        REQUIRE_OK(magicubeSpMM_planInfo(plan, &info));
        return info.workspace_bytes;
    }

    void execute(magicubeSpMMPlan_t plan, const magicubeSpMMArgs_t* args = nullptr) const {
        const aligned_buffer workspace(workspace_bytes(plan));
        REQUIRE_OK(magicubeSpMM(handle, plan, nullptr, b_matrix, nullptr, c_matrix, args,
                                workspace.data(), workspace.size()));
        CHECK(workspace.guard_intact());
    }

    // Whether C is A times B.
    bool right(const std::vector<std::vector<double>>& dense, const dense_sample& result) const {
        for (int64_t batch = 0; batch < b.shape().batch; ++batch) {
            const auto& matrix = dense[static_cast<size_t>(batch)];
            for (int64_t i = 0; i < m; ++i) {
                for (int64_t j = 0; j < n; ++j) {
                    const int64_t sum = exact_product(matrix, k, i, b, batch, j);
                    if (static_cast<double>(sum) != result.at(batch, i, j)) return false;
                }
            }
        }
        return true;
    }
    std::vector<std::vector<double>> dense_a() const {
        std::vector<std::vector<double>> dense;
        for (int64_t batch = 0; batch < b.shape().batch; ++batch) dense.push_back(a.dense(batch));
        return dense;
    }
};

}  // namespace

TEST_CASE("SpMM: a plan keeps a copy of the pattern and, if fixed, of the values") {
    product p;
    const auto expected = p.dense_a();
    const auto plan = p.plan(p.problem());
    std::fill(p.a.columns().begin(), p.a.columns().end(), 1 << 30);
    std::fill(p.a.begins().begin(), p.a.begins().end(), -1);
    std::fill(p.a.ends().begin(), p.a.ends().end(), int64_t{1} << 60);
    for (int64_t i = 0; i < p.a.value_count(); ++i) p.a.values().set(i, 99);
    p.execute(plan);
    CHECK(p.right(expected, p.c));
    CHECK(magicubeSpMM_destroyPlan(plan) == MAGICUBE_STATUS_SUCCESS);
}

TEST_CASE("SpMM: values are updated, or come with each call, in batches too") {
    for (const auto batching : {batch_kind::one_pattern, batch_kind::different_patterns}) {
        for (const auto mode : {MAGICUBE_VALUES_UPDATABLE, MAGICUBE_VALUES_PER_CALL}) {
            product p(3, batching);
            auto problem = p.problem();
            problem.value_mode = mode;
            const auto plan = p.plan(problem);
            for (int repeat = 0; repeat < 3; ++repeat) {
                magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
                args.a_values = p.a.values().data();
                if (mode == MAGICUBE_VALUES_UPDATABLE) {
                    args.a_values = nullptr;
                    REQUIRE_OK(magicubeSpMM_updateValues(p.handle, plan, p.a.values().data()));
                }
                const auto expected = p.dense_a();
                if (mode == MAGICUBE_VALUES_UPDATABLE) p.a.fill_values(p.random);
                p.execute(plan, &args);
                CHECK(p.right(expected, p.c));
                p.a.fill_values(p.random);
            }
            magicubeSpMM_destroyPlan(plan);
        }
    }
}

TEST_CASE("SpMM: a batch of one in A serves every B, whatever its stride") {
    for (const auto mode : {MAGICUBE_VALUES_FIXED, MAGICUBE_VALUES_PER_CALL}) {
        for (const bool pattern_batch : {false, true}) {
            product p(3, batch_kind::shared_values);
            REQUIRE_OK(pattern_batch ? magicubeSrBcrsSetPatternBatch(p.a_matrix, 1)
                                     : magicubeSpMatSetStridedBatch(p.a_matrix, 1, 1000));
            auto problem = p.problem();
            problem.value_mode = mode;
            const auto plan = p.plan(problem);
            magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
            args.a_values = p.a.values().data();
            p.execute(plan, &args);
            CHECK(p.right(p.dense_a(), p.c));
            magicubeSpMM_destroyPlan(plan);
        }
    }
}

TEST_CASE("SpMM: a pattern without values is enough for values per call, and for nothing else") {
    product p;
    auto problem = p.problem();
    REQUIRE_OK(magicubeSpMatSetValues(p.a_matrix, nullptr));
    CHECK(magicubeSpMM_isSupported(p.handle, &problem) == MAGICUBE_STATUS_SUCCESS);
    magicubeSpMMPlan_t plan = nullptr;
    CHECK(magicubeSpMM_createPlan(p.handle, &problem, nullptr, 0, &plan) ==
          MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("problem->A has null values"));
    problem.value_mode = MAGICUBE_VALUES_PER_CALL;
    plan = p.plan(problem);
    magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
    args.a_values = p.a.values().data();
    p.execute(plan, &args);
    CHECK(p.right(p.dense_a(), p.c));
    magicubeSpMM_destroyPlan(plan);
}

TEST_CASE("SpMM: CSR is taken as it is, with offsets of either width") {
    for (const bool wide : {false, true}) {
        generator random(3);
        sparse_sample a({kind::int16, 15, 40, 1, 1, 0.3, false, true}, random);
        dense_sample b({kind::int8, 40, 9, true, 1}, random);
        dense_sample c({kind::fp32, 15, 9, true, 1}, random);
        std::vector<int64_t> offsets64 = a.begins();
        offsets64.push_back(a.slots());
        const std::vector<int32_t> offsets32(offsets64.begin(), offsets64.end());
        magicubeSpMatDescr_t csr = nullptr;
        REQUIRE_OK(magicubeCreateCsr(
            &csr, 15, 40, a.slots(),
            wide ? static_cast<const void*>(offsets64.data()) : offsets32.data(), a.cols(),
            a.values().data(), wide ? MAGICUBE_INDEX_64 : MAGICUBE_INDEX_32, MAGICUBE_INT16));
        const sp_mat a_matrix(csr);
        const dn_mat b_matrix(b);
        const dn_mat c_matrix(c);
        const cpu_handle handle;
        magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
        problem.A = csr;
        problem.b_order = problem.c_order = MAGICUBE_ORDER_COL;
        problem.n_max = 9;
        magicubeSpMMPlan_t plan = nullptr;
        REQUIRE_OK(magicubeSpMM_createPlan(handle, &problem, nullptr, 0, &plan));
        magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
        REQUIRE_OK(magicubeSpMM_bufferSize(handle, &problem, &sizes));
        const aligned_buffer workspace(sizes.workspace_bytes);
        const float alpha = 0.5f;
        REQUIRE_OK(magicubeSpMM(handle, plan, &alpha, b_matrix, nullptr, c_matrix, nullptr,
                                workspace.data(), workspace.size()));
        const auto dense = a.dense(0);
        bool right = true;
        for (int64_t i = 0; i < 15; ++i)
            for (int64_t j = 0; j < 9; ++j)
                right = right && c.at(0, i, j) == 0.5 * static_cast<double>(
                                                            exact_product(dense, 40, i, b, 0, j));
        CHECK(right);
        magicubeSpMM_destroyPlan(plan);
    }
}

TEST_CASE("SpMM: alpha and beta are read where the pointer mode says; beta 0 never reads C") {
    product p;
    auto problem = p.problem();
    problem.c_type = MAGICUBE_FP32;
    dense_sample c({kind::fp32, 20, 11, false, 0}, p.random);
    const dn_mat c_matrix(c);
    const auto plan = p.plan(problem);
    const aligned_buffer workspace(p.workspace_bytes(plan));
    const auto dense = p.a.dense(0);
    const float alpha = 2;
    for (const auto mode : {MAGICUBE_POINTER_MODE_HOST, MAGICUBE_POINTER_MODE_DEVICE}) {
        REQUIRE_OK(magicubeSetPointerMode(p.handle, mode));
        for (const float beta : {0.0f, 1.0f}) {
            for (int64_t i = 0; i < 20; ++i)
                for (int64_t j = 0; j < 11; ++j) c.set(0, i, j, beta == 0 ? std::nan("") : 3);
            REQUIRE_OK(magicubeSpMM(p.handle, plan, &alpha, p.b_matrix, &beta, c_matrix, nullptr,
                                    workspace.data(), workspace.size()));
            const auto sum = static_cast<double>(exact_product(dense, 30, 4, p.b, 0, 5));
            CHECK(c.at(0, 4, 5) == 2 * sum + (beta == 0 ? 0 : 3));
        }
    }
    magicubeSpMM_destroyPlan(plan);
}

TEST_CASE("SpMM: buffers of the caller, what bufferSize and planInfo tell") {
    product p;
    const auto problem = p.problem();
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    REQUIRE_OK(magicubeSpMM_bufferSize(p.handle, &problem, &sizes));
    CHECK(sizes.plan_bytes > 0);
    CHECK(sizes.workspace_bytes > 0);
    CHECK(sizes.plan_alignment == 256);
    CHECK(sizes.workspace_alignment == 256);
    const aligned_buffer memory(sizes.plan_bytes);
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(p.handle, &problem, memory.data(), memory.size(), &plan));
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    REQUIRE_OK(magicubeSpMM_planInfo(plan, &info));
    CHECK(std::string(info.implementation) == "simd");
    CHECK(std::string(info.reasons).find("chosen: simd") != std::string::npos);
    CHECK(info.plan_bytes == sizes.plan_bytes);
    CHECK(info.workspace_bytes == sizes.workspace_bytes);
    CHECK(info.owns_buffer == 0);
    p.execute(plan);
    CHECK(p.right(p.dense_a(), p.c));
    CHECK(memory.guard_intact());
    magicubeSpMM_destroyPlan(plan);

    plan = p.plan(problem);
    REQUIRE_OK(magicubeSpMM_planInfo(plan, &info));
    CHECK(info.owns_buffer == 1);
    magicubeSpMM_destroyPlan(plan);
    CHECK(magicubeSpMM_destroyPlan(nullptr) == MAGICUBE_STATUS_SUCCESS);
}

TEST_CASE("SpMM: implementations are listed, the reference last, and one may be named") {
    int32_t count = 0;
    REQUIRE_OK(magicubeSpMM_listImplementations(MAGICUBE_DEVICE_CPU, nullptr, 0, &count));
    REQUIRE(count >= 1);
    std::vector<const char*> names(static_cast<size_t>(count) + 1, nullptr);
    int32_t again = 0;
    REQUIRE_OK(magicubeSpMM_listImplementations(MAGICUBE_DEVICE_CPU, names.data(), count, &again));
    CHECK(again == count);
    CHECK(names.back() == nullptr);
    CHECK(std::string(names[static_cast<size_t>(count) - 1]) == "reference");
    product p;
    auto problem = p.problem();
    problem.implementation = "reference";
    const auto plan = p.plan(problem);
    p.execute(plan);
    CHECK(p.right(p.dense_a(), p.c));
    magicubeSpMM_destroyPlan(plan);
    problem.implementation = "fastest";
    CHECK(magicubeSpMM_isSupported(p.handle, &problem) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("'fastest'"));
    CHECK(message_has("reference"));
}

TEST_CASE("issue_03_spmm_eight_threads_on_one_plan_each_with_its_own_handle") {
    product p(1, batch_kind::one_pattern, 8);  // large enough for the thread pool
    const auto plan = p.plan(p.problem());
    const auto bytes = p.workspace_bytes(plan);
    const auto poisoned = p.c;
    p.execute(plan);
    REQUIRE(p.right(p.dense_a(), p.c));
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
            magicubeHandle_t handle = nullptr;
            if (magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0) != MAGICUBE_STATUS_SUCCESS) return;
            auto c = poisoned;
            magicubeDnMatDescr_t c_matrix = nullptr;
            magicubeCreateDnMat(&c_matrix, p.m, p.n, c.ld(), c.array().data(), MAGICUBE_INT32,
                                MAGICUBE_ORDER_ROW);
            const aligned_buffer workspace(bytes);
            for (int repeat = 0; repeat < 10; ++repeat) {
                for (int64_t i = 0; i < p.m; ++i) c.set(0, i, repeat, -1);
                const auto status = magicubeSpMM(handle, plan, nullptr, p.b_matrix, nullptr,
                                                 c_matrix, nullptr, workspace.data(), bytes);
                right +=
                    status == MAGICUBE_STATUS_SUCCESS && c.array().bytes() == p.c.array().bytes();
            }
            magicubeDestroyDnMat(c_matrix);
            magicubeDestroy(handle);
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(right == 80);
    magicubeSpMM_destroyPlan(plan);
}
