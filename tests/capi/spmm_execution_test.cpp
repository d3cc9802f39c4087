// SPDX-License-Identifier: Apache-2.0
// Rules of SpMM's executions and of the contents of its arrays, broken one at a time.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "capi/spmm_call.hpp"

using namespace support;

namespace {

constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;
constexpr auto unsupported = MAGICUBE_STATUS_NOT_SUPPORTED;
constexpr auto row = MAGICUBE_ORDER_ROW;
constexpr auto col = MAGICUBE_ORDER_COL;

using execution = std::function<magicubeStatus_t(spmm_call&, magicubeSpMMPlan_t)>;

magicubeStatus_t execute(spmm_call& c, magicubeSpMMPlan_t plan, magicubeConstDnMatDescr_t B,
                         magicubeDnMatDescr_t C, const float* alpha = nullptr,
                         const float* beta = nullptr) {
    const aligned_buffer workspace(1 << 20);
    return magicubeSpMM(c.handle, plan, alpha, B, beta, C, &c.args, workspace.data(),
                        workspace.size());
}

// An execution with another B or C over the same memory.
execution with_b(int64_t rows, int64_t cols, int64_t ld, magicubeDataType_t type,
                 magicubeOrder_t order) {
    return [=](spmm_call& c, magicubeSpMMPlan_t plan) {
        const dn_mat other(rows, cols, ld, c.b.array().data(), type, order);
        return execute(c, plan, other, c.c_matrix);
    };
}
execution with_c(int64_t rows, int64_t cols, int64_t ld, magicubeDataType_t type,
                 magicubeOrder_t order) {
    return [=](spmm_call& c, magicubeSpMMPlan_t plan) {
        const dn_mat other(rows, cols, ld, c.c.array().data(), type, order);
        return execute(c, plan, c.b_matrix, other);
    };
}

void refuses_matrix(const char* message, const execution& run) {
    refuses_execution(message, invalid, message, nullptr, nullptr, run);
}

}  // namespace

TEST_CASE("SpMM refuses matrices that do not fit the plan, naming the difference") {
    refuses_matrix("B is 29 x 11; it must be 30 x 11", with_b(29, 11, 11, MAGICUBE_INT8, row));
    refuses_matrix("B's number of columns is 12; the plan was made for 1 to 11",
                   with_b(30, 12, 12, MAGICUBE_INT8, row));
    refuses_matrix("B's number of columns is 0; the plan was made for 1 to 11",
                   with_b(30, 0, 11, MAGICUBE_INT8, row));
    refuses_matrix("B is uint8; the plan was made for int8",
                   with_b(30, 11, 11, MAGICUBE_UINT8, row));
    refuses_matrix("B has order COL; the plan was made for ROW",
                   with_b(30, 11, 30, MAGICUBE_INT8, col));
    refuses_matrix("C is 20 x 10; it must be 20 x 11", with_c(20, 10, 13, MAGICUBE_FP32, row));
    refuses_matrix("C is 19 x 11; it must be 20 x 11", with_c(19, 11, 13, MAGICUBE_FP32, row));
    refuses_matrix("C is fp16; the plan was made for fp32", with_c(20, 11, 13, MAGICUBE_FP16, row));
    refuses_matrix("C has order COL; the plan was made for ROW",
                   with_c(20, 11, 20, MAGICUBE_FP32, col));
    refuses_matrix("B has a batch of 2; the plan was made for 1",
                   [](spmm_call& c, magicubeSpMMPlan_t plan) {
                       REQUIRE_OK(magicubeDnMatSetStridedBatch(c.b_matrix, 2, 0));
                       return execute(c, plan, c.b_matrix, c.c_matrix);
                   });
    refuses_matrix("C was made by magicubeCreateConstDnMat", [](spmm_call& c,
                                                                magicubeSpMMPlan_t plan) {
        magicubeConstDnMatDescr_t fixed = nullptr;
        REQUIRE_OK(
            magicubeCreateConstDnMat(&fixed, 20, 11, 13, c.c.array().data(), MAGICUBE_FP32, row));
        const auto status = execute(c, plan, c.b_matrix, const_cast<magicubeDnMatDescr_t>(fixed));
        magicubeDestroyDnMat(fixed);
        return status;
    });
    refuses_matrix("C overlaps B in memory", [](spmm_call& c, magicubeSpMMPlan_t plan) {
        std::vector<float> memory(400);
        const dn_mat b(30, 11, 11, memory.data(), MAGICUBE_INT8, row);
        const dn_mat out(20, 11, 11, memory.data() + 82, MAGICUBE_FP32, row);
        return execute(c, plan, b, out);
    });
}

TEST_CASE("SpMM takes C beside B in one larger matrix") {
    spmm_call c;
    std::vector<int8_t> memory(30 * 64, 1);
    c.problem.c_type = MAGICUBE_INT8;
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan));
    const dn_mat b(30, 11, 64, memory.data(), MAGICUBE_INT8, row);
    const dn_mat beside(20, 11, 64, memory.data() + 11, MAGICUBE_INT8, row);
    const dn_mat across(20, 11, 64, memory.data() + 10, MAGICUBE_INT8, row);
    CHECK(execute(c, plan, b, beside) == MAGICUBE_STATUS_SUCCESS);
    CHECK(execute(c, plan, b, across) == invalid);
    magicubeSpMM_destroyPlan(plan);
}

TEST_CASE("SpMM refuses an output batch whose matrices share elements") {
    spmm_call c;
    c.problem.batch_count = 2;
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan));
    std::vector<float> memory(1000);
    REQUIRE_OK(magicubeDnMatSetStridedBatch(c.b_matrix, 2, 0));
    const dn_mat out(20, 11, 22, memory.data(), MAGICUBE_FP32, row);
    for (const int64_t stride : {int64_t{0}, int64_t{10}, int64_t{22}}) {
        REQUIRE_OK(magicubeDnMatSetStridedBatch(out, 2, stride));
        CHECK(execute(c, plan, c.b_matrix, out) == invalid);
        CHECK(message_has("C "));
    }
    REQUIRE_OK(magicubeDnMatSetStridedBatch(out, 2, 11));  // interleaved rows
    CHECK(execute(c, plan, c.b_matrix, out) == MAGICUBE_STATUS_SUCCESS);
    magicubeSpMM_destroyPlan(plan);
}

TEST_CASE("SpMM asks for the arrays that the problem names, finite where all is validated") {
    const auto with_scales = [](spmm_call& c) {
        c.problem.a_scale = MAGICUBE_GRANULARITY_ROW;
        c.problem.b_scale = MAGICUBE_GRANULARITY_COL;
        c.problem.bias = MAGICUBE_GRANULARITY_ROW;
        c.problem.c_type = MAGICUBE_INT8;
        c.problem.c_scale = MAGICUBE_GRANULARITY_TENSOR;
    };
    const execution run = [](spmm_call& c, magicubeSpMMPlan_t plan) {
        std::vector<int8_t> memory(20 * 11);
        const dn_mat out(20, 11, 11, memory.data(), MAGICUBE_INT8, row);
        return execute(c, plan, c.b_matrix, out);
    };
    const auto check = [&](magicubeStatus_t status, const char* message,
                           const std::function<void(spmm_call&)>& change) {
        refuses_execution(message, status, message, with_scales, change, run);
    };
    check(MAGICUBE_STATUS_SUCCESS, "good", nullptr);
    check(invalid, "args->a_scale is null; it must hold 20",
          [](auto& c) { c.args.a_scale = nullptr; });
    check(invalid, "args->b_scale is null; it must hold 11",
          [](auto& c) { c.args.b_scale = nullptr; });
    check(invalid, "args->bias is null", [](auto& c) { c.args.bias = nullptr; });
    check(invalid, "args->c_scale is null; it must hold 1",
          [](auto& c) { c.args.c_scale = nullptr; });
    check(MAGICUBE_STATUS_MISALIGNED, "args->bias is ", [](auto& c) {
        c.args.bias =
            reinterpret_cast<const float*>(reinterpret_cast<const char*>(c.args.bias) + 2);
    });
    const float inf = std::numeric_limits<float>::infinity();
    check(invalid, "args->a_scale[19] is nan; it must be finite",
          [](auto& c) { c.ones[19] = std::nanf(""); });
    check(invalid, "args->a_scale[3] is -inf", [inf](auto& c) { c.ones[3] = -inf; });
    check(MAGICUBE_STATUS_SUCCESS, "beyond the last", [inf](auto& c) { c.ones[20] = inf; });
    static const float zero = 0;
    check(invalid, "args->c_scale[0] is 0", [](auto& c) { c.args.c_scale = &zero; });
    check(MAGICUBE_STATUS_SUCCESS, "basic validation looks at no scale", [inf](auto& c) {
        c.ones[3] = inf;
        magicubeSetValidation(c.handle, MAGICUBE_VALIDATION_BASIC);
    });
    check(invalid, "args->struct_size is 1", [](auto& c) { c.args.struct_size = 1; });
}

TEST_CASE("SpMM looks at every matrix's scales in a batch") {
    spmm_call c;
    c.problem.batch_count = 2;
    c.problem.a_scale = MAGICUBE_GRANULARITY_TENSOR;
    c.problem.a_scale_batch_stride = 40;
    c.ones[40] = std::nanf("");
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan));
    std::vector<float> memory(440);
    REQUIRE_OK(magicubeDnMatSetStridedBatch(c.b_matrix, 2, 0));
    const dn_mat out(20, 11, 11, memory.data(), MAGICUBE_FP32, row);
    REQUIRE_OK(magicubeDnMatSetStridedBatch(out, 2, 220));
    CHECK(execute(c, plan, c.b_matrix, out) == invalid);
    CHECK(message_has("args->a_scale[40] is nan"));
    magicubeSpMM_destroyPlan(plan);
}

TEST_CASE("SpMM: C of int32 takes alpha 1 and beta 0 or 1 in host memory") {
    const auto check = [](magicubeStatus_t status, const char* message, float alpha, float beta,
                          magicubePointerMode_t mode) {
        refuses_execution(
            message, status, message, [](spmm_call& c) { c.problem.c_type = MAGICUBE_INT32; },
            nullptr,
            [=](spmm_call& c, magicubeSpMMPlan_t plan) {
                std::vector<int32_t> memory(20 * 11);
                const dn_mat out(20, 11, 11, memory.data(), MAGICUBE_INT32, row);
                REQUIRE_OK(magicubeSetPointerMode(c.handle, mode));
                return execute(c, plan, c.b_matrix, out, &alpha, &beta);
            });
    };
    const auto host = MAGICUBE_POINTER_MODE_HOST;
    check(MAGICUBE_STATUS_SUCCESS, "1 and 0", 1, 0, host);
    check(MAGICUBE_STATUS_SUCCESS, "1 and 1", 1, 1, host);
    check(unsupported, "alpha is 2", 2, 0, host);
    check(unsupported, "alpha is nan", std::nanf(""), 0, host);
    check(unsupported, "beta is 0.5", 1, 0.5f, host);
    check(unsupported, "alpha and beta lie on the device", 1, 0, MAGICUBE_POINTER_MODE_DEVICE);
}

TEST_CASE("SpMM checks the pattern when the plan is made, if all is validated") {
    const auto check = [](const char* message, const std::function<void(spmm_call&)>& change) {
        INFO(std::string(message));
        spmm_call c;
        change(c);
        magicubeSpMMPlan_t plan = nullptr;
        CHECK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan) == invalid);
        CHECK(message_has("problem->A: "));
        CHECK(message_has(message));
        CHECK(plan == nullptr);
    };
    check("col_indices[0] is -5", [](spmm_call& c) { c.a.columns()[0] = -5; });
    check("col_indices[0] is 30", [](spmm_call& c) { c.a.columns()[0] = 30; });
    check("row_begin[1]", [](spmm_call& c) { c.a.begins()[1] += 1; });
    check("row_end[0]", [](spmm_call& c) { c.a.ends()[0] = 1 << 20; });
    check("ascend", [](spmm_call& c) { c.a.columns()[1] = c.a.columns()[0]; });
}

TEST_CASE("SpMM checks int12 values wherever they come in, if all is validated") {
    generator random(5);
    sparse_sample a({kind::int12, 20, 30, 4, 8, 0.4}, random);
    auto bad = a.values();
    a.each_element(
        0, [&](int64_t, int64_t, int64_t slot, int64_t v) { bad.set(a.position(slot, v), -2049); });
    const sp_mat matrix(a);
    for (const auto mode :
         {MAGICUBE_VALUES_FIXED, MAGICUBE_VALUES_UPDATABLE, MAGICUBE_VALUES_PER_CALL}) {
        spmm_call c;
        c.problem.A = matrix;
        c.problem.value_mode = mode;
        magicubeSpMMPlan_t plan = nullptr;
        REQUIRE_OK(magicubeSpMatSetValues(matrix, bad.data()));
        const bool per_call = mode == MAGICUBE_VALUES_PER_CALL;
        CHECK((magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan) == invalid) ==
              !per_call);
        magicubeSpMM_destroyPlan(plan);
        REQUIRE_OK(magicubeSpMatSetValues(matrix, a.values().data()));
        REQUIRE_OK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan));
        if (mode == MAGICUBE_VALUES_UPDATABLE) {
            CHECK(magicubeSpMM_updateValues(c.handle, plan, bad.data()) == invalid);
            CHECK(message_has("values: values["));
            CHECK(message_has("-2049"));
            CHECK(magicubeSpMM_updateValues(c.handle, plan, nullptr) == invalid);
            CHECK(message_has("values is null"));
            CHECK(magicubeSpMM_updateValues(c.handle, plan, static_cast<char*>(bad.data()) + 1) ==
                  MAGICUBE_STATUS_MISALIGNED);
        } else {
            CHECK(magicubeSpMM_updateValues(c.handle, plan, a.values().data()) == unsupported);
            CHECK(message_has("MAGICUBE_VALUES_UPDATABLE"));
        }
        c.args.a_values = bad.data();
        CHECK(execute(c, plan, c.b_matrix, c.c_matrix) ==
              (per_call ? invalid : MAGICUBE_STATUS_SUCCESS));
        c.args.a_values = nullptr;
        CHECK(execute(c, plan, c.b_matrix, c.c_matrix) ==
              (per_call ? invalid : MAGICUBE_STATUS_SUCCESS));
        magicubeSpMM_destroyPlan(plan);
    }
}
