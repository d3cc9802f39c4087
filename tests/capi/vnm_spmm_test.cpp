// SPDX-License-Identifier: Apache-2.0
// SpMM through the C ABI with an A in V:N:M.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "magicube/magicube.h"
#include "support/aligned_buffer.hpp"
#include "support/capi.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;
constexpr auto unsupported = MAGICUBE_STATUS_NOT_SUPPORTED;
constexpr plan_functions<magicubeSpMMProblem_t, magicubeSpMMPlan_t> functions = {
    magicubeSpMM_isSupported, magicubeSpMM_bufferSize, magicubeSpMM_createPlan};

// 150 x 77 of 64:2:8, int8, by 77 x 9.
struct vnm_call {
    generator random{130};
    vnm_sample a{{kind::int8, 150, 77, 64, 8}, random};
    dense_sample b{{kind::int8, 77, 9, true, 2}, random};
    dense_sample c{{kind::int32, 150, 9, false, 2}, random};
    sp_mat a_matrix{a};
    dn_mat b_matrix{b};
    dn_mat c_matrix{c};
    cpu_handle handle;
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;

    vnm_call() {
        problem.A = a_matrix;
        problem.b_order = MAGICUBE_ORDER_COL;
        problem.c_type = MAGICUBE_INT32;
        problem.n_max = 9;
    }
    void refused(magicubeStatus_t status, const char* message) {
        check_refused(handle, problem, functions, message, status);
    }
    void check_product() {
        const auto dense = a.dense(0);
        for (int64_t i = 0; i < 150; ++i)
            for (int64_t j = 0; j < 9; ++j)
                REQUIRE(c.at(0, i, j) == static_cast<double>(exact_product(dense, 77, i, b, 0, j)));
    }
};

}  // namespace

TEST_CASE("SpMM of V:N:M: every implementation in every value mode, the arrays gone meanwhile") {
    int32_t count = 0;
    REQUIRE_OK(magicubeSpMM_listFormatImplementations(MAGICUBE_DEVICE_CPU, MAGICUBE_FORMAT_VNM,
                                                      nullptr, 0, &count));
    REQUIRE(count >= 2);
    std::vector<const char*> names(static_cast<size_t>(count));
    REQUIRE_OK(magicubeSpMM_listFormatImplementations(MAGICUBE_DEVICE_CPU, MAGICUBE_FORMAT_VNM,
                                                      names.data(), count, &count));
    CHECK(names.back() == std::string("reference"));
    for (const char* name : names)
        for (const auto mode :
             {MAGICUBE_VALUES_FIXED, MAGICUBE_VALUES_UPDATABLE, MAGICUBE_VALUES_PER_CALL}) {
            CAPTURE(std::string(name));
            vnm_call call;
            call.problem.implementation = name;
            call.problem.value_mode = mode;
            REQUIRE_OK(magicubeSpMM_isSupported(call.handle, &call.problem));
            magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
            REQUIRE_OK(magicubeSpMM_bufferSize(call.handle, &call.problem, &sizes));
            aligned_buffer plan_memory(sizes.plan_bytes), workspace(sizes.workspace_bytes);
            magicubeSpMMPlan_t plan = nullptr;
            REQUIRE_OK(magicubeSpMM_createPlan(call.handle, &call.problem, plan_memory.data(),
                                               plan_memory.size(), &plan));
            // The plan has what it needs.
            for (auto& byte : call.a.metadata()) byte = 0;
            std::vector<uint8_t> loc(
                static_cast<uint8_t*>(call.a.column_loc()),
                static_cast<uint8_t*>(call.a.column_loc()) + call.a.column_loc_bytes());
            for (size_t i = 0; i < loc.size(); ++i)
                static_cast<uint8_t*>(call.a.column_loc())[i] = 0;
            magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
            if (mode != MAGICUBE_VALUES_FIXED) call.a.fill_values(call.random);
            if (mode == MAGICUBE_VALUES_UPDATABLE)
                REQUIRE_OK(magicubeSpMM_updateValues(call.handle, plan, call.a.values().data()));
            args.a_values = call.a.values().data();
            REQUIRE_OK(magicubeSpMM(call.handle, plan, nullptr, call.b_matrix, nullptr,
                                    call.c_matrix, &args, workspace.data(), workspace.size()));
            call.check_product();
            CHECK((plan_memory.guard_intact() && workspace.guard_intact()));
            magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
            REQUIRE_OK(magicubeSpMM_planInfo(plan, &info));
            CHECK(info.implementation == std::string(name));
            CHECK(info.plan_bytes == sizes.plan_bytes);
            CHECK(info.owns_buffer == 0);
            if (mode == MAGICUBE_VALUES_FIXED) {
                CHECK(magicubeSpMM_updateValues(call.handle, plan, call.a.values().data()) ==
                      unsupported);
                CHECK(message_has("plan was not made with problem->value_mode"));
            }
            magicubeSpMM_destroyPlan(plan);
        }
}

TEST_CASE("SpMM of V:N:M: what a plan is refused, and why") {
    {
        vnm_call call;
        call.problem.b_type = MAGICUBE_INT4;
        call.refused(unsupported,
                     "the types of problem->A and problem->b_type are int8/int4; supported pairs "
                     "with a V:N:M matrix: int8/int8, fp32/fp32, fp16/fp16, bf16/bf16, e4m3/e4m3");
        call.problem.b_type = MAGICUBE_INT8;
        call.problem.c_type = MAGICUBE_INT16;
        call.refused(unsupported, "problem->c_type is int16; C of int8/int8 is int32, fp32");
        call.problem.c_type = MAGICUBE_INT32;
        call.problem.bias = MAGICUBE_GRANULARITY_ROW;
        call.refused(unsupported, "problem->c_type is int32, which takes no scale, bias");
        call.problem.bias = MAGICUBE_GRANULARITY_NONE;
        call.problem.n_min = 10;
        call.refused(invalid, "problem->n_max is 9; it must be at least problem->n_min = 10");
        call.problem.n_min = 0;
        call.problem.batch_count = -1;
        call.refused(invalid, "problem->batch_count is -1");
        call.problem.batch_count = 3;
        REQUIRE_OK(magicubeSpMatSetStridedBatch(call.a_matrix, 2, 0));
        call.refused(invalid, "problem->A has a batch of 2; it must be problem->batch_count = 3");
        REQUIRE_OK(magicubeSpMatSetStridedBatch(call.a_matrix, 1, 0));
        call.problem.batch_count = 1;
        call.problem.implementation = "stream";
        call.refused(invalid,
                     "problem->implementation is 'stream'; those of SpMM of V:N:M on CPU are: "
                     "simd, reference");
    }
    {
        generator random(131);
        vnm_sample wide({kind::int8, 20, 40, 16, 8, 4}, random);
        const sp_mat a(wide);
        vnm_call call;
        call.problem.A = a;
        call.refused(unsupported,
                     "problem->A is 16:4:8; products take n = 2, other n are storage only");
    }
    vnm_call call;
    magicubeSpMMPlan_t plan = nullptr;
    call.a.metadata()[0] = 0;
    CHECK(magicubeSpMM_createPlan(call.handle, &call.problem, nullptr, 0, &plan) == invalid);
    CHECK(message_has("problem->A: metadata gives row 0 place 0 after 0 in group 0"));
    REQUIRE_OK(magicubeSpMatSetValues(call.a_matrix, nullptr));
    call.a.metadata()[0] = 0x44;
    CHECK(magicubeSpMM_createPlan(call.handle, &call.problem, nullptr, 0, &plan) == invalid);
    CHECK(message_has("problem->A has null values"));
    CHECK(plan == nullptr);
}

TEST_CASE("SpMM of V:N:M: what an execution is refused, and values of each call") {
    vnm_call call;
    call.problem.value_mode = MAGICUBE_VALUES_PER_CALL;
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(call.handle, &call.problem, nullptr, 0, &plan));
    const aligned_buffer workspace(1 << 20);
    const auto execute = [&](magicubeDnMatDescr_t b, const magicubeSpMMArgs_t* args, size_t bytes) {
        return magicubeSpMM(call.handle, plan, nullptr, b, nullptr, call.c_matrix, args,
                            workspace.data(), bytes);
    };
    magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
    CHECK(execute(call.b_matrix, &args, workspace.size()) == invalid);
    CHECK(message_has("args->a_values is null; it must hold 3000 elements"));
    args.a_values = call.a.values().data();
    CHECK(execute(call.b_matrix, &args, 1) == MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE);
    REQUIRE_OK(magicubeDnMatSetCols(call.b_matrix, 10, 79));
    CHECK(execute(call.b_matrix, &args, workspace.size()) == invalid);
    CHECK(message_has("B's number of columns is 10; the plan was made for 1 to 9"));
    REQUIRE_OK(magicubeDnMatSetCols(call.b_matrix, 9, 79));
    REQUIRE_OK(magicubeSpMM(call.handle, plan, nullptr, call.b_matrix, nullptr, call.c_matrix,
                            &args, workspace.data(), workspace.size()));
    call.check_product();
    magicubeSpMM_destroyPlan(plan);
}

TEST_CASE("SpMM lists the implementations of a format") {
    int32_t count = 0, of_csr = 0;
    REQUIRE_OK(magicubeSpMM_listImplementations(MAGICUBE_DEVICE_CPU, nullptr, 0, &count));
    REQUIRE_OK(magicubeSpMM_listFormatImplementations(MAGICUBE_DEVICE_CPU, MAGICUBE_FORMAT_CSR,
                                                      nullptr, 0, &of_csr));
    CHECK(count == of_csr);
    CHECK(magicubeSpMM_listFormatImplementations(MAGICUBE_DEVICE_CPU, MAGICUBE_FORMAT_BSR, nullptr,
                                                 0, &count) == unsupported);
    CHECK(message_has("format is BSR; SpMM takes SR-BCRS, CSR or V:N:M"));
    CHECK(magicubeSpMM_listFormatImplementations(MAGICUBE_DEVICE_CPU,
                                                 no_enumerator<magicubeSparseFormat_t>(), nullptr,
                                                 0, &count) == invalid);
    CHECK(message_has("format is 77; it must be a magicubeSparseFormat_t"));
}

TEST_CASE("other operations refuse V:N:M and say what they take") {
    vnm_call call;
    magicubeSDDMMProblem_t problem = MAGICUBE_SDDMM_PROBLEM_INIT;
    problem.pattern = call.a_matrix;
    CHECK(magicubeSDDMM_isSupported(call.handle, &problem) == unsupported);
    CHECK(message_has("problem->pattern is V:N:M; this operation takes SR-BCRS or CSR"));
}

TEST_CASE("SpMM of V:N:M: sizes near 2^63 are refused or counted, never wrapped") {
    cpu_handle handle;
    const uint8_t byte[2] = {0, 0};
    magicubeSpMatDescr_t matrix = nullptr;
    REQUIRE_OK(magicubeCreateVnm(&matrix, INT32_MAX, INT32_MAX, 16, 2, 4, byte, byte, nullptr,
                                 MAGICUBE_FP32));
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    problem.A = matrix;
    problem.b_type = MAGICUBE_FP32;
    problem.value_mode = MAGICUBE_VALUES_PER_CALL;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    for (const int64_t n : {int64_t{1}, INT64_MAX / 2, INT64_MAX})
        for (const int64_t batch : {int64_t{1}, int64_t{1} << 31, INT64_MAX}) {
            problem.n_max = n;
            problem.batch_count = batch;
            const auto status = magicubeSpMM_isSupported(handle, &problem);
            CHECK((status == MAGICUBE_STATUS_SUCCESS || status == invalid));
            magicubeSpMM_bufferSize(handle, &problem, &sizes);
        }
    magicubeDestroySpMat(matrix);
}
