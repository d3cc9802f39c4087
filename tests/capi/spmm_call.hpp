// SPDX-License-Identifier: Apache-2.0
// A good SpMM call, and checks that a change to it is refused.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "magicube/spmm.h"
#include "support/aligned_buffer.hpp"
#include "support/capi.hpp"
#include "support/descriptors.hpp"

namespace support {

// A good call: int8, fp32 out, 20 x 30 x 11.
struct spmm_call {
    generator random{7};
    sparse_sample a{{kind::int8, 20, 30, 4, 8, 0.4}, random};
    dense_sample b{{kind::int8, 30, 11, false, 2}, random};
    dense_sample c{{kind::fp32, 20, 11, false, 2}, random};
    sp_mat a_matrix{a};
    dn_mat b_matrix{b};
    dn_mat c_matrix{c};
    cpu_handle handle;
    std::vector<float> ones = std::vector<float>(64, 1.0f);
    magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
    magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;

    spmm_call() {
        problem.A = a_matrix;
        problem.n_max = 11;
        args.a_scale = args.b_scale = args.bias = args.c_scale = ones.data();
    }
};

// What a plan is asked for three times must be refused alike.
inline void refuses(const char* what, magicubeStatus_t status, const char* message,
                    const std::function<void(spmm_call&)>& change) {
    INFO(std::string(what));
    spmm_call c;
    change(c);
    magicubeSpMMPlan_t plan = nullptr;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSpMM_isSupported(c.handle, &c.problem) == status);
    CHECK(message_has(message));
    CHECK(message_has("magicubeSpMM_isSupported: "));
    CHECK(magicubeSpMM_bufferSize(c.handle, &c.problem, &sizes) == status);
    CHECK(message_has(message));
    CHECK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan) == status);
    CHECK(message_has(message));
    CHECK(plan == nullptr);
}

// An execution whose problem and arguments were changed before and after the plan was made.
inline void refuses_execution(
    const char* what, magicubeStatus_t status, const char* message,
    const std::function<void(spmm_call&)>& before, const std::function<void(spmm_call&)>& after,
    const std::function<magicubeStatus_t(spmm_call&, magicubeSpMMPlan_t)>& execute = nullptr) {
    INFO(std::string(what));
    spmm_call c;
    if (before) before(c);
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan));
    if (after) after(c);
    const auto untouched = c.c.array().bytes();
    const aligned_buffer workspace(1 << 20);
    const auto found = execute
                           ? execute(c, plan)
                           : magicubeSpMM(c.handle, plan, nullptr, c.b_matrix, nullptr, c.c_matrix,
                                          &c.args, workspace.data(), workspace.size());
    CHECK(found == status);
    if (status != MAGICUBE_STATUS_SUCCESS) {
        CHECK(message_has(message));
        CHECK(untouched == c.c.array().bytes());
    }
    magicubeSpMM_destroyPlan(plan);
}

}  // namespace support
