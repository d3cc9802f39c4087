// SPDX-License-Identifier: Apache-2.0
// The stream family of SpMM and the plans that hold it beside another, through the C ABI. Types,
// layouts and tails are in tests/core/ops/spmm_few_columns_test.cpp.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "gpu/spmm_both.hpp"

using support::both;
using support::device_bytes;
using support::plan;
using support::problem_of;
using support::product_shape;

namespace {

magicubePlanInfo_t info_of(const plan& p) {
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    REQUIRE(magicubeSpMM_planInfo(p.value, &info) == MAGICUBE_STATUS_SUCCESS);
    return info;
}

plan plan_named(const both& x, const product_shape& s, const char* name) {
    auto problem = problem_of(x.device.value, s);
    problem.implementation = name;
    return plan(x.gpu, problem);
}

void check_product(both& x, const plan& p, int64_t n) {
    const auto s = x.shape(n);
    const auto b = x.make_b(s);
    const device_bytes device_b(x.gpu, b), c = x.poisoned_c(s), workspace = x.workspace_for(p);
    REQUIRE(multiply(x.gpu, p, s, device_b.data(), c.data(), workspace.data()) ==
            MAGICUBE_STATUS_SUCCESS);
    CHECK(c.read<int32_t>(x.gpu) == x.expected(b, s));
}

}  // namespace

TEST_CASE("few columns are streamed, and a plan for few and many holds two packings") {
    both x(4096, 2048, 0.1, 31);
    CHECK(
        std::string(info_of(plan(x.gpu, problem_of(x.device.value, x.shape(16)))).implementation) ==
        "stream");
    const plan wide(x.gpu, problem_of(x.device.value, x.shape(4096)));
    const auto info = info_of(wide);
    const std::string names = info.implementation;
    REQUIRE(names.rfind("stream+", 0) == 0);
    CHECK(std::string(info.reasons).find("two_packings: accepted") != std::string::npos);
    // As large as both, each made by itself.
    const plan narrow = plan_named(x, x.shape(64), "stream");
    const plan other = plan_named(x, x.shape(4096), names.substr(7).c_str());
    CHECK(info.plan_bytes >= info_of(other).plan_bytes);
    CHECK(info.plan_bytes <= info_of(narrow).plan_bytes + info_of(other).plan_bytes + 512);
    for (const int64_t n : {1, 16, 17, 32, 33, 64, 65, 128}) check_product(x, wide, n);
}

TEST_CASE("an implementation that is asked for is alone in its plan") {
    both x(512, 512, 0.1, 32);
    const plan p = plan_named(x, x.shape(64), "stream");
    CHECK(std::string(info_of(p).implementation) == "stream");
    auto problem = problem_of(x.device.value, x.shape(65));
    problem.implementation = "stream";
    CHECK(magicubeSpMM_isSupported(x.gpu, &problem) == MAGICUBE_STATUS_NOT_SUPPORTED);
    CHECK(support::message_has("n_max is 65; it serves up to 64 columns"));
}

TEST_CASE("streaming gives the same bits each time") {
    both x(1000, 3000, 0.3, 33);
    const auto s = x.shape(16);
    const plan p = plan_named(x, s, "stream");
    const auto b = x.make_b(s);
    const device_bytes device_b(x.gpu, b), c = x.poisoned_c(s), workspace = x.workspace_for(p);
    const auto right = x.expected(b, s);
    for (int repeat = 0; repeat < 200; ++repeat)
        REQUIRE(multiply(x.gpu, p, s, device_b.data(), c.data(), workspace.data()) ==
                MAGICUBE_STATUS_SUCCESS);
    CHECK(c.read<int32_t>(x.gpu) == right);
}

TEST_CASE("a product whose B is the product before waits for it") {
    // Kernels of a stream may overlap, but not where one reads what the other writes.
    both x(256, 256, 0.2, 34);
    auto s = x.shape(16);
    s.c_type = MAGICUBE_INT8;
    const plan p(x.gpu, problem_of(x.device.value, s));
    const auto b = x.make_b(s);
    const device_bytes first(x.gpu, b), workspace = x.workspace_for(p);
    std::vector<unsigned char> found[2];
    for (const bool synchronously : {true, false}) {
        const device_bytes even = x.poisoned_c(s), odd = x.poisoned_c(s);
        const void* from = first.data();
        for (int link = 0; link < 60; ++link) {
            const device_bytes& to = link % 2 == 0 ? even : odd;
            REQUIRE(multiply(x.gpu, p, s, from, to.data(), workspace.data(), 0.01f) ==
                    MAGICUBE_STATUS_SUCCESS);
            if (synchronously) REQUIRE(magicubeSynchronize(x.gpu) == MAGICUBE_STATUS_SUCCESS);
            from = to.data();
        }
        found[synchronously] = odd.read<unsigned char>(x.gpu);
    }
    CHECK(std::count(found[0].begin(), found[0].end(), 0) <
          static_cast<int64_t>(found[0].size()) / 2);
    CHECK(found[0] == found[1]);
}
