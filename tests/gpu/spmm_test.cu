// SPDX-License-Identifier: Apache-2.0
// SpMM on a GPU through the C ABI, against the CPU. What concerns types, layouts and tails is in
// tests/core/ops, whose models run every implementation of every device that is there (issue_04,
// issue_06, issue_19 and issue_20 among them).
#include <cuda_runtime.h>

#include <cmath>
#include <string>

#include "gpu/spmm_both.hpp"

using support::both;
using support::device_bytes;
using support::plan;
using support::problem_of;
using support::product_shape;

namespace {

std::string reasons_of(const plan& p) {
    magicubePlanInfo_t info = MAGICUBE_PLAN_INFO_INIT;
    REQUIRE(magicubeSpMM_planInfo(p.value, &info) == MAGICUBE_STATUS_SUCCESS);
    return info.reasons;
}

bool has(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("issue_20 every N from 1 to 300, on every implementation") {
    both x(77, 203, 0.2, 1);
    x.each_implementation(x.shape(300), {}, [&](const char*, const plan& p) {
        for (int64_t n = 1; n <= 300; ++n) {
            const auto s = x.shape(n);
            const auto b = x.make_b(s);
            x.check_product(p, s, b, x.expected(b, s));
        }
    });
}

TEST_CASE("issue_04 rows of B and C that lie apart, and the bytes between them") {
    both x(100, 130, 0.3, 6);
    for (const int64_t n : {1, 33, 128}) {
        for (const int64_t gap : {1, 5, 16, 1000}) {
            auto s = x.shape(n);
            s.b_ld = n + gap;
            s.c_ld = n + 2 * gap;
            const auto b = x.make_b(s);
            const auto right = x.expected(b, s);
            x.each_implementation(
                s, {}, [&](const char*, const plan& p) { x.check_product(p, s, b, right); });
        }
    }
}

TEST_CASE("issue_20 K of 200,000, where 32-bit sums of full rows end") {
    both x(16, 200000, 0.6, 5);
    const auto s = x.shape(40);
    const auto b = x.make_b(s);
    const auto right = x.expected(b, s);
    x.each_implementation(s, {},
                          [&](const char*, const plan& p) { x.check_product(p, s, b, right); });
}

TEST_CASE("issue_20 the largest sums are exact: 200,000 products of -128 by -128") {
    both x(16, 200000, 1, 7);
    const std::vector<unsigned char> lowest(static_cast<size_t>(200000) * 16, 0x80);
    x.values.write(x.gpu, lowest.data());
    auto s = x.shape(8);
    s.c_type = MAGICUBE_FP32;
    x.each_implementation(s, {}, [&](const char*, const plan& p) {
        const device_bytes b(x.gpu, std::vector<unsigned char>(s.b_elements(), 0x80));
        const device_bytes c = x.poisoned_c(s), workspace = x.workspace_for(p);
        REQUIRE(multiply(x.gpu, p, s, b.data(), c.data(), workspace.data()) ==
                MAGICUBE_STATUS_SUCCESS);
        for (const float sum : c.read<float>(x.gpu)) REQUIRE(sum == 3276800000.0f);
    });
}

TEST_CASE("a plan says where dense would be faster") {
    const product_shape s{2048, 2048, 2048};
    {
        both x(2048, 2048, 0.9, 8);
        const plan p(x.gpu, problem_of(x.device.value, s));
        CHECK(has(reasons_of(p), "dense would be faster: about "));
        CHECK(has(reasons_of(p), "(cuBLASLt int8) against "));
    }
    both x(2048, 2048, 0.02, 9);
    const plan p(x.gpu, problem_of(x.device.value, s));
    CHECK_FALSE(has(reasons_of(p), "dense would"));
    const plan on_cpu(x.cpu, problem_of(x.host.value, s));
    CHECK_FALSE(has(reasons_of(on_cpu), "dense would"));
}
