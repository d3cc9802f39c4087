// SPDX-License-Identifier: Apache-2.0
// Pruning through the C ABI. Numbers in depth: tests/core/prune.
#include "magicube/prune.h"

#include <doctest/doctest.h>

#include "support/aligned_buffer.hpp"
#include "support/capi.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

constexpr auto ok = MAGICUBE_STATUS_SUCCESS;
constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;

// 4 x 4 with vectors of 2: norms 5 1 2 5 over 0 3 9 3.
struct prune_call {
    float weight[16] = {3, 1, 0, -4, 4, 0, 2, 3, 0, 3, 9, 0, -0.0f, 0, 0, -3};
    uint8_t mask[16];
    dn_mat weight_matrix{4, 4, 4, weight, MAGICUBE_FP32, MAGICUBE_ORDER_ROW};
    dn_mat mask_matrix{4, 4, 4, mask, MAGICUBE_UINT8, MAGICUBE_ORDER_ROW};
    magicubePruneParams_t params = MAGICUBE_PRUNE_PARAMS_INIT;
    cpu_handle handle;

    prune_call() {
        params.vector_length = 2;
        std::fill_n(mask, 16, uint8_t{0xcc});
    }
    magicubeStatus_t run() {
        size_t bytes = 0;
        const auto status = magicubePrune_bufferSize(handle, weight_matrix, &params, &bytes);
        if (status != ok) return status;
        const aligned_buffer workspace(bytes);
        const auto result =
            magicubePrune(handle, weight_matrix, &params, mask_matrix, workspace.data(), bytes);
        CHECK(workspace.guard_intact());
        return result;
    }
    std::vector<int> kept() {
        REQUIRE_OK(run());
        return {mask, mask + 16};
    }
};

}  // namespace

TEST_CASE("Prune keeps the vectors of largest norm, per matrix or per block row") {
    prune_call c;
    c.params.sparsity = 0.5;
    CHECK(c.kept() == std::vector<int>{1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0});
    c.params.scope = MAGICUBE_PRUNE_PER_ROW;
    c.params.keep = 1;  // the tie of the first block row goes to column 0
    CHECK(c.kept() == std::vector<int>{1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0});
    c.params.norm = MAGICUBE_NORM_L1;
    c.params.keep = 2;
    CHECK(c.kept() == std::vector<int>{1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1, 0});
    c.params.keep = 0;
    CHECK(c.kept() == std::vector<int>(16, 0));
    c.params.keep = 4;
    CHECK(c.kept() == std::vector<int>(16, 1));
}

TEST_CASE("Prune refuses bad input and leaves the mask alone") {
    prune_call c;
    CHECK(magicubePrune_bufferSize(nullptr, c.weight_matrix, &c.params, nullptr) == invalid);
    CHECK(message_has("magicubePrune_bufferSize: handle is null"));
    CHECK(magicubePrune_bufferSize(c.handle, c.weight_matrix, &c.params, nullptr) == invalid);
    CHECK(message_has("bytes is null"));
    size_t bytes = 0;
    CHECK(magicubePrune_bufferSize(c.handle, nullptr, &c.params, &bytes) == invalid);
    CHECK(message_has("weight is null"));
    CHECK(magicubePrune_bufferSize(c.handle, c.weight_matrix, nullptr, &bytes) == invalid);
    CHECK(message_has("params is null"));
    const auto refuses = [&](const char* message) {
        CHECK(c.run() == invalid);
        CHECK(message_has(message));
        c.params = MAGICUBE_PRUNE_PARAMS_INIT;
    };
    c.params.vector_length = 3;
    refuses("params->vector_length is 3; it must be 1, 2, 4, 8, 16, 32 or 64");
    c.params.sparsity = 1.25;
    refuses("params->sparsity is 1.25; it must be from 0 to 1");
    c.params.keep = 5;
    refuses("params->keep is 5; a scope has 4 vectors");
    c.params.scope = no_enumerator<magicubePruneScope_t>();
    refuses("params->scope is 77; it must be a magicubePruneScope_t");
    c.params.norm = no_enumerator<magicubePruneNorm_t>();
    refuses("params->norm is 77; it must be a magicubePruneNorm_t");
    c.params.struct_size = 3;
    refuses("params->struct_size is 3");
    c.weight[6] = -INFINITY;
    refuses("weight[1, 2] (batch 0) is -inf; it must be finite");
    c.weight[6] = 0;
    CHECK(magicubePrune(c.handle, c.weight_matrix, &c.params, c.weight_matrix, nullptr, 0) ==
          invalid);
    CHECK(message_has("mask is of type fp32; it must be uint8"));
    CHECK(magicubePrune(c.handle, c.weight_matrix, &c.params, nullptr, nullptr, 0) == invalid);
    CHECK(message_has("mask is null"));
    CHECK(magicubePrune(c.handle, c.weight_matrix, &c.params, c.mask_matrix, nullptr, 0) ==
          MAGICUBE_STATUS_INSUFFICIENT_WORKSPACE);
    CHECK(magicubePrune(c.handle, c.weight_matrix, &c.params, c.mask_matrix, nullptr, 1000) ==
          invalid);
    CHECK(message_has("workspace is null"));
    for (const uint8_t byte : c.mask) CHECK(byte == 0xcc);
}
