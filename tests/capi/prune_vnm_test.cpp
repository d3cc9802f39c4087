// SPDX-License-Identifier: Apache-2.0
// Pruning to V:N:M through the C ABI. Numbers in depth: tests/core/prune.
#include <doctest/doctest.h>

#include <cmath>

#include "magicube/prune.h"
#include "support/aligned_buffer.hpp"
#include "support/capi.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

constexpr auto ok = MAGICUBE_STATUS_SUCCESS;
constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;

// 2 x 6 in groups of 4 and of 2, rows on their own.
struct vnm_call {
    float weight[12] = {1, -4, 2, 3, 5, 0, 7, 0, -8, 1, 0, -6};
    uint8_t mask[12];
    dn_mat weight_matrix{2, 6, 6, weight, MAGICUBE_FP32, MAGICUBE_ORDER_ROW};
    dn_mat mask_matrix{2, 6, 6, mask, MAGICUBE_UINT8, MAGICUBE_ORDER_ROW};
    magicubePruneVnmParams_t params = MAGICUBE_PRUNE_VNM_PARAMS_INIT;
    cpu_handle handle;

    vnm_call() { reset(); }
    void reset() {
        params = MAGICUBE_PRUNE_VNM_PARAMS_INIT;
        params.vector_length = 16;
        params.m = 4;
        std::fill_n(mask, 12, uint8_t{0xcc});
    }
    magicubeStatus_t run() {
        size_t bytes = 0;
        const auto status = magicubePruneVnm_bufferSize(handle, weight_matrix, &params, &bytes);
        if (status != ok) return status;
        const aligned_buffer workspace(bytes);
        const auto result =
            magicubePruneVnm(handle, weight_matrix, &params, mask_matrix, workspace.data(), bytes);
        CHECK(workspace.guard_intact());
        return result;
    }
};

// The same weight with four samples of layer inputs, uncorrelated and of equal size.
struct obs_call : vnm_call {
    float inputs[48] = {};
    float updated[12];
    dn_mat curvature{8, 6, 6, inputs, MAGICUBE_FP32, MAGICUBE_ORDER_ROW};
    dn_mat updated_matrix{2, 6, 6, updated, MAGICUBE_FP32, MAGICUBE_ORDER_ROW};
    magicubePruneVnmObsParams_t how = MAGICUBE_PRUNE_VNM_OBS_PARAMS_INIT;

    obs_call() {
        for (int i = 0; i < 6; ++i) inputs[i * 6 + i] = 2;
        reset();
    }
    void reset() {
        vnm_call::reset();
        how = MAGICUBE_PRUNE_VNM_OBS_PARAMS_INIT;
        how.vector_length = 16;
        how.m = 4;
        std::fill_n(updated, 12, NAN);
    }
    magicubeStatus_t run() {
        size_t bytes = 0;
        const auto status =
            magicubePruneVnmObs_bufferSize(handle, weight_matrix, curvature, &how, &bytes);
        if (status != ok) return status;
        const aligned_buffer workspace(bytes);
        const auto result = magicubePruneVnmObs(handle, weight_matrix, curvature, &how, mask_matrix,
                                                updated_matrix, workspace.data(), bytes);
        CHECK(workspace.guard_intact());
        return result;
    }
};

}  // namespace

TEST_CASE("PruneVnm keeps the largest weights of each row's group") {
    vnm_call c;
    REQUIRE_OK(c.run());
    CHECK(std::vector<int>(c.mask, c.mask + 12) ==
          std::vector<int>{0, 1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1});
    double share = 0;
    REQUIRE_OK(magicubeKeptEnergy(c.handle, c.weight_matrix, c.mask_matrix, &share));
    CHECK(share == doctest::Approx((16 + 9 + 25 + 49 + 64 + 36) / 205.0));
    c.params.n = 1;
    REQUIRE_OK(c.run());
    CHECK(std::vector<int>(c.mask, c.mask + 12) ==
          std::vector<int>{0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1});
    c.params.n = 3;
    c.params.norm = MAGICUBE_NORM_L1;
    REQUIRE_OK(c.run());
    CHECK(std::vector<int>(c.mask, c.mask + 12) ==
          std::vector<int>{0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1});
}

TEST_CASE("PruneVnmObs with inputs that are not correlated is magnitude pruning") {
    obs_call c;
    REQUIRE_OK(c.vnm_call::run());
    const std::vector<uint8_t> wanted(c.mask, c.mask + 12);
    for (const auto selection : {MAGICUBE_OBS_EXHAUSTIVE, MAGICUBE_OBS_PAIRWISE})
        for (const int32_t refit : {0, 1}) {
            c.reset();
            c.how.selection = selection;
            c.how.refit = refit;
            REQUIRE_OK(c.run());
            CHECK(std::vector<uint8_t>(c.mask, c.mask + 12) == wanted);
            for (int i = 0; i < 12; ++i) CHECK(c.updated[i] == (c.mask[i] ? c.weight[i] : 0));
        }
}

TEST_CASE("PruneVnmObs makes up for what it prunes") {
    obs_call c;
    // Columns 0 and 1 always have the same input: one weight can do the work of both.
    for (int i = 0; i < 6; ++i) c.inputs[i * 6] = c.inputs[i * 6 + 1] = i < 2 ? 2.0f : 0.0f;
    c.how.damping = 1e-9;
    c.how.n = 1;
    REQUIRE_OK(c.run());
    CHECK(c.updated[0] + c.updated[1] == doctest::Approx(-3));
    CHECK(c.updated[4] == doctest::Approx(5));
}

TEST_CASE("VnmSchedule and KeptEnergy") {
    int32_t schedule[3] = {};
    REQUIRE_OK(magicubeVnmSchedule(16, 2, 3, schedule));
    CHECK((schedule[0] == 8 && schedule[1] == 4 && schedule[2] == 2));
    CHECK(magicubeVnmSchedule(16, 2, 0, schedule) == invalid);
    CHECK(message_has("magicubeVnmSchedule: steps is 0; it must be at least 1"));
    CHECK(magicubeVnmSchedule(16, 2, 3, nullptr) == invalid);
    CHECK(message_has("schedule is null"));
    const vnm_call c;
    CHECK(magicubeKeptEnergy(c.handle, c.weight_matrix, c.mask_matrix, nullptr) == invalid);
    CHECK(message_has("share is null"));
    double share = 0;
    CHECK(magicubeKeptEnergy(c.handle, c.weight_matrix, c.weight_matrix, &share) == invalid);
    CHECK(message_has("mask is of type fp32; it must be uint8"));
    CHECK(magicubeKeptEnergy(nullptr, c.weight_matrix, c.mask_matrix, &share) == invalid);
    CHECK(message_has("handle is null"));
}

TEST_CASE("PruneVnm refuses bad input and leaves the mask alone") {
    vnm_call c;
    size_t bytes = 0;
    CHECK(magicubePruneVnm_bufferSize(nullptr, c.weight_matrix, &c.params, &bytes) == invalid);
    CHECK(message_has("magicubePruneVnm_bufferSize: handle is null"));
    CHECK(magicubePruneVnm_bufferSize(c.handle, nullptr, &c.params, &bytes) == invalid);
    CHECK(message_has("weight is null"));
    CHECK(magicubePruneVnm_bufferSize(c.handle, c.weight_matrix, nullptr, &bytes) == invalid);
    CHECK(message_has("params is null"));
    CHECK(magicubePruneVnm_bufferSize(c.handle, c.weight_matrix, &c.params, nullptr) == invalid);
    CHECK(message_has("bytes is null"));
    const auto refuses = [&](const char* message) {
        CHECK(c.run() == invalid);
        CHECK(message_has(message));
        for (const uint8_t byte : c.mask) CHECK(byte == 0xcc);
        c.reset();
    };
    c.params.vector_length = 8;
    refuses("params->vector_length is 8; it must be 1, 16, 32, 64, 128 or 256");
    c.params.m = 3;
    refuses("params->m is 3; it must be from 4 to 65536");
    c.params.n = 5;
    refuses("params->n is 5; it must be from 1 to m, which is 4");
    c.params.norm = no_enumerator<magicubePruneNorm_t>();
    refuses("params->norm is 77; it must be a magicubePruneNorm_t");
    c.params.struct_size = 3;
    refuses("params->struct_size is 3");
    c.weight[6] = INFINITY;
    refuses("weight[1, 0] (batch 0) is inf; it must be finite");
    c.weight[6] = 7;
    CHECK(magicubePruneVnm(c.handle, c.weight_matrix, &c.params, nullptr, nullptr, 0) == invalid);
    CHECK(message_has("mask is null"));
    CHECK(magicubePruneVnm(c.handle, c.weight_matrix, &c.params, c.mask_matrix, nullptr, 0) ==
          MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE);
}

TEST_CASE("PruneVnmObs refuses bad input and leaves its outputs alone") {
    obs_call c;
    size_t bytes = 0;
    CHECK(magicubePruneVnmObs_bufferSize(c.handle, c.weight_matrix, nullptr, &c.how, &bytes) ==
          invalid);
    CHECK(message_has("magicubePruneVnmObs_bufferSize: curvature is null"));
    CHECK(magicubePruneVnmObs_bufferSize(c.handle, c.weight_matrix, c.curvature, nullptr, &bytes) ==
          invalid);
    CHECK(message_has("params is null"));
    const auto refuses = [&](const char* message) {
        CHECK(c.run() == invalid);
        CHECK(message_has(message));
        for (const uint8_t byte : c.mask) CHECK(byte == 0xcc);
        for (const float x : c.updated) CHECK(std::isnan(x));
        c.reset();
    };
    c.how.curvature = no_enumerator<magicubeCurvature_t>();
    refuses("params->curvature is 77; it must be a magicubeCurvature_t");
    c.how.selection = no_enumerator<magicubeObsSelection_t>();
    refuses("params->selection is 77; it must be a magicubeObsSelection_t");
    c.how.damping = -1;
    refuses("params->damping is -1; it must be finite and not negative");
    c.how.curvature = MAGICUBE_CURVATURE_HESSIAN;
    refuses("curvature, a Hessian, is 8 x 6; it must be 6 x 6");
    c.how.curvature = MAGICUBE_CURVATURE_GRADIENTS;
    refuses("curvature, of gradients, is 8 x 6; it must be 2 x 6 as weight is");
    c.inputs[13] = NAN;
    refuses("curvature[2, 1] (batch 0) is nan; it must be finite");
    std::fill_n(c.inputs, 48, 0.0f);
    refuses("is not positive definite at column 5; raise params->damping");
    CHECK(magicubePruneVnmObs(c.handle, c.weight_matrix, c.curvature, &c.how, c.mask_matrix,
                              nullptr, nullptr, 0) == invalid);
    CHECK(message_has("updated is null"));
    CHECK(magicubePruneVnmObs(c.handle, c.weight_matrix, c.curvature, &c.how, c.mask_matrix,
                              c.weight_matrix, nullptr, 0) == invalid);
    CHECK(message_has("updated overlaps weight in memory"));
}
