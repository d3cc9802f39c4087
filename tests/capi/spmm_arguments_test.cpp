// SPDX-License-Identifier: Apache-2.0
// Every rule of SpMM's arguments, broken one at a time.
#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <string>

#include "capi/spmm_call.hpp"
#include "support/quiet.hpp"

using namespace support;

namespace {

constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;
constexpr auto unsupported = MAGICUBE_STATUS_NOT_SUPPORTED;

}  // namespace

TEST_CASE("SpMM refuses unknown enumerators and names the field") {
    refuses("b_type", invalid, "problem->b_type is 77",
            [](spmm_call& c) { c.problem.b_type = no_enumerator<magicubeDataType_t>(); });
    refuses("b_order", invalid, "problem->b_order is 77",
            [](spmm_call& c) { c.problem.b_order = no_enumerator<magicubeOrder_t>(); });
    refuses("c_type", invalid, "problem->c_type is 77",
            [](spmm_call& c) { c.problem.c_type = no_enumerator<magicubeDataType_t>(); });
    refuses("c_order", invalid, "problem->c_order is 77",
            [](spmm_call& c) { c.problem.c_order = no_enumerator<magicubeOrder_t>(); });
    refuses("a_scale", invalid, "problem->a_scale is 77",
            [](spmm_call& c) { c.problem.a_scale = no_enumerator<magicubeGranularity_t>(); });
    refuses("activation", invalid, "problem->activation is 77",
            [](spmm_call& c) { c.problem.activation = no_enumerator<magicubeActivation_t>(); });
    refuses("value_mode", invalid, "problem->value_mode is 77",
            [](spmm_call& c) { c.problem.value_mode = no_enumerator<magicubeValueMode_t>(); });
}

TEST_CASE("issue_16_spmm_says_which_type_it_does_not_support_and_prints_nothing") {
    refuses("pair", unsupported, "int8/int16; supported pairs: int16/int16",
            [](spmm_call& c) { c.problem.b_type = MAGICUBE_INT16; });
    refuses("mixed", unsupported, "int8/fp16",
            [](spmm_call& c) { c.problem.b_type = MAGICUBE_FP16; });
    refuses("output", unsupported, "problem->c_type is int16; C of int8/int8 is int32, fp32",
            [](spmm_call& c) { c.problem.c_type = MAGICUBE_INT16; });
    refuses("int4 output", unsupported, "problem->c_type is int4",
            [](spmm_call& c) { c.problem.c_type = MAGICUBE_INT4; });
    const auto int32_with = [](const char* what, const std::function<void(spmm_call&)>& change) {
        refuses(what, unsupported, "problem->c_type is int32, which takes no scale",
                [&](spmm_call& c) {
                    c.problem.c_type = MAGICUBE_INT32;
                    change(c);
                });
    };
    int32_with("a", [](spmm_call& c) { c.problem.a_scale = MAGICUBE_GRANULARITY_ROW; });
    int32_with("b", [](spmm_call& c) { c.problem.b_scale = MAGICUBE_GRANULARITY_COL; });
    int32_with("bias", [](spmm_call& c) { c.problem.bias = MAGICUBE_GRANULARITY_ROW; });
    int32_with("relu", [](spmm_call& c) { c.problem.activation = MAGICUBE_ACTIVATION_RELU; });
    const long printed = bytes_printed([] {
        spmm_call c;
        c.problem.b_type = MAGICUBE_FP16;
        magicubeSpMM_isSupported(c.handle, &c.problem);
    });
    CHECK(printed == 0);
}

TEST_CASE("SpMM refuses sizes, batches and scales that break a rule") {
    refuses("n_min", invalid, "problem->n_min is -1", [](spmm_call& c) { c.problem.n_min = -1; });
    refuses("n_max", invalid, "problem->n_max is 0; it must be at least problem->n_min = 1",
            [](spmm_call& c) { c.problem.n_max = 0; });
    refuses("batch", invalid, "problem->batch_count is -2",
            [](spmm_call& c) { c.problem.batch_count = -2; });
    refuses("batch of A", invalid,
            "problem->A has a batch of 2; it must be problem->batch_count = 3", [](spmm_call& c) {
                magicubeSpMatSetStridedBatch(c.a_matrix, 2, 0);
                c.problem.batch_count = 3;
            });
    refuses("a_scale", invalid, "problem->a_scale is COL; it must be NONE or TENSOR or ROW",
            [](spmm_call& c) { c.problem.a_scale = MAGICUBE_GRANULARITY_COL; });
    refuses("b_scale", invalid, "problem->b_scale is ROW; it must be NONE or TENSOR or COL",
            [](spmm_call& c) { c.problem.b_scale = MAGICUBE_GRANULARITY_ROW; });
    refuses("bias", invalid, "problem->bias is TENSOR; it must be NONE or ROW",
            [](spmm_call& c) { c.problem.bias = MAGICUBE_GRANULARITY_TENSOR; });
    refuses("c_scale", invalid, "problem->c_scale is TENSOR; only C of int8",
            [](spmm_call& c) { c.problem.c_scale = MAGICUBE_GRANULARITY_TENSOR; });
    refuses("c_scale by row", invalid, "problem->c_scale is ROW", [](spmm_call& c) {
        c.problem.c_type = MAGICUBE_INT8;
        c.problem.c_scale = MAGICUBE_GRANULARITY_ROW;
    });
    refuses("stride", invalid, "problem->bias_batch_stride is -1", [](spmm_call& c) {
        c.problem.bias = MAGICUBE_GRANULARITY_ROW;
        c.problem.bias_batch_stride = -1;
    });
    refuses("overflow", invalid, "problem->a_scale_batch_stride overflows", [](spmm_call& c) {
        c.problem.a_scale = MAGICUBE_GRANULARITY_ROW;
        c.problem.a_scale_batch_stride = INT64_MAX / 2;
        c.problem.batch_count = 3;
    });
    refuses("no A", invalid, "problem->A is null", [](spmm_call& c) { c.problem.A = nullptr; });
    refuses("size", invalid, "problem->struct_size is 0",
            [](spmm_call& c) { c.problem.struct_size = 0; });
}

TEST_CASE("SpMM refuses BSR and says what to do") {
    spmm_call c;
    const int64_t offsets[] = {0, 0};
    magicubeSpMatDescr_t bsr = nullptr;
    REQUIRE_OK(magicubeCreateBsr(&bsr, 4, 4, 4, 4, 0, offsets, nullptr, nullptr, MAGICUBE_INDEX_64,
                                 MAGICUBE_INT8));
    c.problem.A = bsr;
    CHECK(magicubeSpMM_isSupported(c.handle, &c.problem) == unsupported);
    CHECK(message_has("problem->A is BSR"));
    magicubeDestroySpMat(bsr);
}

TEST_CASE("SpMM refuses null where an object is required") {
    spmm_call c;
    magicubeSpMMPlan_t plan = nullptr;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    CHECK(magicubeSpMM_isSupported(nullptr, &c.problem) == invalid);
    CHECK(magicubeSpMM_isSupported(c.handle, nullptr) == invalid);
    CHECK(message_has("problem is null"));
    CHECK(magicubeSpMM_bufferSize(c.handle, &c.problem, nullptr) == invalid);
    CHECK(message_has("sizes is null"));
    sizes.struct_size = 3;
    CHECK(magicubeSpMM_bufferSize(c.handle, &c.problem, &sizes) == invalid);
    CHECK(message_has("sizes->struct_size is 3"));
    CHECK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, nullptr) == invalid);
    CHECK(magicubeSpMM_createPlan(nullptr, &c.problem, nullptr, 0, &plan) == invalid);
    CHECK(message_has("handle is null"));
    CHECK(magicubeSpMM_planInfo(nullptr, &info) == invalid);
    CHECK(magicubeSpMM_updateValues(c.handle, nullptr, c.a.values().data()) == invalid);
    int32_t count = 0;
    CHECK(magicubeSpMM_listImplementations(MAGICUBE_DEVICE_CPU, nullptr, 1, &count) == invalid);
    CHECK(magicubeSpMM_listImplementations(MAGICUBE_DEVICE_CPU, nullptr, -1, &count) == invalid);
    CHECK(magicubeSpMM_listImplementations(MAGICUBE_DEVICE_CPU, nullptr, 0, nullptr) == invalid);
    using d = magicubeDevice_t;
    CHECK(magicubeSpMM_listImplementations(no_enumerator<d>(), nullptr, 0, &count) == invalid);
    const auto null_object = [](int which) {
        return [which](spmm_call& k, magicubeSpMMPlan_t p) {
            const aligned_buffer w(1 << 20);
            return magicubeSpMM(
                which == 0 ? nullptr : static_cast<magicubeHandle_t>(k.handle),
                which == 1 ? nullptr : p, nullptr,
                which == 2 ? nullptr : static_cast<magicubeDnMatDescr_t>(k.b_matrix), nullptr,
                which == 3 ? nullptr : static_cast<magicubeDnMatDescr_t>(k.c_matrix), nullptr,
                w.data(), w.size());
        };
    };
    refuses_execution("handle", invalid, "handle is null", nullptr, nullptr, null_object(0));
    refuses_execution("plan", invalid, "plan is null", nullptr, nullptr, null_object(1));
    refuses_execution("B", invalid, "B is null", nullptr, nullptr, null_object(2));
    refuses_execution("C", invalid, "C is null", nullptr, nullptr, null_object(3));
}

TEST_CASE("SpMM's structs of older and newer callers") {
    spmm_call c;
    // Older: the fields past struct_size are not read.
    c.problem.struct_size = offsetof(magicubeSpMMProblem_t, activation);
    c.problem.activation = no_enumerator<magicubeActivation_t>();
    CHECK(magicubeSpMM_isSupported(c.handle, &c.problem) == MAGICUBE_STATUS_SUCCESS);
    // Newer: what this library does not know must be zero.
    struct newer {
        magicubeSpMMProblem_t known;
        int64_t unknown;
    } problem = {MAGICUBE_SPMM_PROBLEM_INIT, 0};
    problem.known.A = c.a_matrix;
    problem.known.struct_size = sizeof(problem);
    CHECK(magicubeSpMM_isSupported(c.handle, &problem.known) == MAGICUBE_STATUS_SUCCESS);
    problem.unknown = 1;
    CHECK(magicubeSpMM_isSupported(c.handle, &problem.known) == unsupported);
    CHECK(message_has("a later field is set"));
}

TEST_CASE("SpMM checks buffers' sizes and alignment") {
    spmm_call c;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    REQUIRE_OK(magicubeSpMM_bufferSize(c.handle, &c.problem, &sizes));
    const aligned_buffer memory(sizes.plan_bytes + 256);
    magicubeSpMMPlan_t plan = nullptr;
    const auto create = [&](size_t offset, size_t bytes) {
        return magicubeSpMM_createPlan(c.handle, &c.problem,
                                       static_cast<char*>(memory.data()) + offset, bytes, &plan);
    };
    CHECK(create(0, sizes.plan_bytes - 1) == MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE);
    CHECK(message_has("plan_buffer_size is " + std::to_string(sizes.plan_bytes - 1)));
    CHECK(message_has(std::to_string(sizes.plan_bytes) + " bytes"));
    CHECK(create(64, sizes.plan_bytes) == MAGICUBE_STATUS_MISALIGNED);
    CHECK(plan == nullptr);
    const auto with_workspace = [](int64_t change, size_t offset, bool null) {
        return [=](spmm_call& k, magicubeSpMMPlan_t p) {
            magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
            magicubeSpMM_planInfo(p, &info);
            const aligned_buffer w(info.workspace_bytes + 256);
            return magicubeSpMM(
                k.handle, p, nullptr, k.b_matrix, nullptr, k.c_matrix, nullptr,
                null ? nullptr : static_cast<char*>(w.data()) + offset,
                static_cast<size_t>(static_cast<int64_t>(info.workspace_bytes) + change));
        };
    };
    refuses_execution("small", MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE, "workspace_size is ",
                      nullptr, nullptr, with_workspace(-1, 0, false));
    refuses_execution("askew", MAGICUBE_STATUS_MISALIGNED, "workspace is ", nullptr, nullptr,
                      with_workspace(0, 16, false));
    refuses_execution("null", invalid, "workspace is null", nullptr, nullptr,
                      with_workspace(0, 0, true));
    refuses_execution("exact", MAGICUBE_STATUS_SUCCESS, "", nullptr, nullptr,
                      with_workspace(0, 0, false));
}
