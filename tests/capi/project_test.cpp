// SPDX-License-Identifier: Apache-2.0
// Projections through the C ABI. Numbers in depth: tests/core/project.
#include "magicube/project.h"

#include <doctest/doctest.h>

#include <cmath>

#include "support/capi.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

constexpr auto ok = MAGICUBE_STATUS_SUCCESS;
constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;

// 4 x 4 onto the butterfly of two factors; W = diag(3, 0, 0, 4) but for one element of a block.
struct chain_call {
    float weight[16] = {3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4};
    float values[2][8];
    magicubeKroneckerDescr_t chain = nullptr;
    dn_mat weight_matrix{4, 4, 4, weight, MAGICUBE_FP32, MAGICUBE_ORDER_ROW};
    magicubeProjectionParams_t params = MAGICUBE_PROJECTION_PARAMS_INIT;
    magicubeProjectionReport_t report = MAGICUBE_PROJECTION_REPORT_INIT;
    double step_errors[2] = {-1, -1};
    cpu_handle handle;

    explicit chain_call(const std::vector<magicubeKroneckerShape_t>& shapes = {{1, 2, 2, 2},
                                                                               {2, 2, 2, 1}}) {
        void* arrays[] = {values[0], values[1]};
        REQUIRE_OK(magicubeCreateKroneckerChain(&chain, static_cast<int64_t>(shapes.size()),
                                                shapes.data(), arrays, MAGICUBE_FP32));
    }
    ~chain_call() { magicubeDestroyKronecker(chain); }
    chain_call(const chain_call&) = delete;
    chain_call& operator=(const chain_call&) = delete;

    magicubeStatus_t run(magicubeConstDnMatDescr_t weights = nullptr) {
        return magicubeProjectChain(handle, weight_matrix, weights, &params, chain, &report,
                                    step_errors);
    }
};

}  // namespace

TEST_SUITE_BEGIN("project");

TEST_CASE("Projecting onto a chain tells the error") {
    chain_call call;
    REQUIRE_OK(call.run());
    CHECK(call.report.error == doctest::Approx(0));
    CHECK(call.report.norm == doctest::Approx(5));
    float dense[16];
    const dn_mat back(4, 4, 4, dense, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    REQUIRE_OK(magicubeKroneckerToDense(call.handle, call.chain, back));
    for (int i = 0; i < 16; ++i) CHECK(dense[i] == doctest::Approx(call.weight[i]));

    call.weight[2 * 4 + 1] = 1;  // shares its block of rank 1, rows 0 and 2, with the 3
    REQUIRE_OK(call.run());
    CHECK(call.report.error == doctest::Approx(1));
    CHECK(call.report.relative_error == doctest::Approx(1 / std::sqrt(26.0)));
    CHECK(call.report.least_error == doctest::Approx(1));
    CHECK(call.report.bound == doctest::Approx(1));
    CHECK(call.step_errors[0] == doctest::Approx(1));
    CHECK(call.step_errors[1] == -1);

    // Where column 1 counts ten times as much, the 1 is kept and the 3 is lost.
    float scale[4] = {1, 10, 1, 1};
    const dn_mat columns(1, 4, 4, scale, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    call.params.weighting = MAGICUBE_WEIGHTING_COLUMNS;
    REQUIRE_OK(call.run(columns));
    CHECK(call.report.error == doctest::Approx(3));
    REQUIRE_OK(magicubeKroneckerToDense(call.handle, call.chain, back));
    CHECK(dense[9] == doctest::Approx(1));
    CHECK(dense[0] == doctest::Approx(0));
    CHECK(magicubeProjectChain(call.handle, call.weight_matrix, columns, &call.params, call.chain,
                               nullptr, nullptr) == ok);
}

TEST_CASE("Projecting onto a chain refuses wrong arguments") {
    chain_call call;
    CHECK(magicubeProjectChain(nullptr, call.weight_matrix, nullptr, &call.params, call.chain,
                               nullptr, nullptr) == invalid);
    CHECK(message_has("magicubeProjectChain: handle is null"));
    CHECK(magicubeProjectChain(call.handle, nullptr, nullptr, &call.params, call.chain, nullptr,
                               nullptr) == invalid);
    CHECK(message_has("weight is null"));
    CHECK(magicubeProjectChain(call.handle, call.weight_matrix, nullptr, nullptr, call.chain,
                               nullptr, nullptr) == invalid);
    CHECK(message_has("params is null"));
    CHECK(magicubeProjectChain(call.handle, call.weight_matrix, nullptr, &call.params, nullptr,
                               nullptr, nullptr) == invalid);
    CHECK(message_has("chain is null"));
    CHECK(call.run(call.weight_matrix) == invalid);
    CHECK(message_has("with MAGICUBE_WEIGHTING_NONE it must be null"));
    call.params.weighting = MAGICUBE_WEIGHTING_ACTIVATIONS;
    CHECK(call.run() == invalid);
    CHECK(message_has("weights is null"));
    call.params.weighting = no_enumerator<magicubeProjectionWeighting_t>();
    CHECK(call.run() == invalid);
    CHECK(message_has("params->weighting is 77; it must be a magicubeProjectionWeighting_t"));
    call.params = MAGICUBE_PROJECTION_PARAMS_INIT;
    call.report.struct_size = 1;
    CHECK(call.run() == invalid);
    CHECK(message_has("report->struct_size is 1"));

    chain_call apart({{2, 2, 2, 1}, {1, 2, 2, 2}});
    CHECK(apart.run() == invalid);
    CHECK(message_has("factors[0] = (2, 2, 2, 1) and factors[1] = (1, 2, 2, 2) are not chainable"));
    magicubeConstKroneckerDescr_t fixed = nullptr;
    REQUIRE_OK(magicubeCreateConstKronecker(&fixed, 1, 4, 4, 1, call.weight, MAGICUBE_FP32));
    call.report = MAGICUBE_PROJECTION_REPORT_INIT;
    CHECK(magicubeProjectChain(call.handle, call.weight_matrix, nullptr, &call.params,
                               const_cast<magicubeKroneckerDescr_t>(fixed), nullptr,
                               nullptr) == invalid);
    CHECK(message_has("an output needs writable values"));
    magicubeDestroyKronecker(fixed);
}

TEST_CASE("Projecting onto two supports") {
    float weight[6] = {1, 2, 0, 0, 0, 7};
    uint8_t first[4] = {1, 0, 0, 1}, second[6] = {1, 1, 0, 0, 0, 1};
    float left[4], right[6];
    const dn_mat w(2, 3, 3, weight, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    const dn_mat left_support(2, 2, 2, first, MAGICUBE_UINT8, MAGICUBE_ORDER_ROW);
    const dn_mat right_support(2, 3, 3, second, MAGICUBE_UINT8, MAGICUBE_ORDER_ROW);
    const dn_mat left_matrix(2, 2, 2, left, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    const dn_mat right_matrix(2, 3, 3, right, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    const magicubeProjectionParams_t params = MAGICUBE_PROJECTION_PARAMS_INIT;
    magicubeProjectionReport_t report = MAGICUBE_PROJECTION_REPORT_INIT;
    const cpu_handle handle;
    const auto run = [&](magicubeDnMatDescr_t to) {
        return magicubeProjectSupports(handle, w, nullptr, &params, left_support, right_support, to,
                                       right_matrix, &report);
    };
    REQUIRE_OK(run(left_matrix));
    CHECK(report.relative_error == doctest::Approx(0));
    CHECK(left[0] * right[0] == doctest::Approx(1));
    CHECK(left[0] * right[1] == doctest::Approx(2));
    CHECK(left[3] * right[5] == doctest::Approx(7));
    CHECK(left[1] == 0);
    CHECK(right[3] == 0);
    CHECK(run(nullptr) == invalid);
    CHECK(message_has("left is null"));
    second[2] = 1;  // row 0 of the right factor now meets nothing, and row 1 neither
    REQUIRE_OK(run(left_matrix));
    first[2] = 1;
    CHECK(run(left_matrix) == invalid);
    CHECK(message_has("the rectangles of k = 0 and k = 1 meet at [1, 2]"));
}
