// SPDX-License-Identifier: Apache-2.0
// The slab family where a CTA takes tile after tile: rings that go on, B that stays or changes.
#include <doctest/doctest.h>

#include <algorithm>

#include "gpu/spmm_both.hpp"

namespace {

using namespace support;

// More than two tiles of 256 x 128 a multiprocessor of the H200.
constexpr int64_t rows = 2048, columns = 34 * 128 + 5;

void check(int64_t k, double density) {
    CAPTURE(k);
    both test(rows, k, density, static_cast<unsigned>(k));
    auto s = test.shape(columns);
    s.b_ld = columns + 11;  // both aligned to 16 bytes
    s.c_ld = columns + 3;
    const auto b = test.make_b(s);
    const auto want = test.expected(b, s);
    const device_bytes device_b(test.gpu, b);
    auto problem = problem_of(test.device.value, s);
    problem.implementation = "sm90_slab";
    const auto supported = magicubeSpMM_isSupported(test.gpu, &problem);
    if (supported == MAGICUBE_STATUS_NOT_SUPPORTED) {
        MESSAGE("skipped: ", magicubeGetLastErrorMessage());
        return;
    }
    const plan p(test.gpu, problem);
    auto workspace = test.workspace_for(p);
    for (int repeat = 0; repeat < 2; ++repeat) {
        auto c = test.poisoned_c(s);
        REQUIRE(multiply(test.gpu, p, s, device_b.data(), c.data(), workspace.data()) ==
                MAGICUBE_STATUS_SUCCESS);
        const auto got = c.read<int32_t>(test.gpu);
        REQUIRE(got.size() == want.size());
        const auto at = std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
        CAPTURE(at / s.c_ld);  // row
        CAPTURE(at % s.c_ld);  // column
        const bool same = got == want;
        CHECK(same);
    }
}

}  // namespace

TEST_SUITE_BEGIN("gpu/spmm_slab");

TEST_CASE("slab: many tiles a multiprocessor, all of K in shared memory or in a ring") {
    for (const int64_t k : {90, 700, 1400, 2100, 3000}) check(k, 0.02);
    check(2100, 0.3);
}

TEST_SUITE_END();
