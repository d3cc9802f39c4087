// SPDX-License-Identifier: Apache-2.0
// issue_05: matrices whose elements are further apart than 32 bits reach. They need 3 GB.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "gpu/spmm_both.hpp"

using support::both;
using support::device_bytes;
using support::plan;
using support::product_shape;

namespace {

constexpr int64_t distance = 40000;  // between rows
constexpr int64_t many = 70000;      // rows, so that the last lie 2.8e9 elements away

// Whether the GPU has so much free memory; says so if not.
bool room_for(size_t bytes) {
    size_t free = 0, total = 0;
    REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
    if (free > bytes + (size_t{1} << 29)) return true;
    MESSAGE("skipped: it needs ", bytes, " bytes, and the GPU has ", free, " free");
    return false;
}

int8_t saturated(double x) {
    return static_cast<int8_t>(std::clamp(std::nearbyint(x), -128.0, 127.0));
}

}  // namespace

TEST_CASE("issue_05 C of 2.8e9 elements") {
    product_shape s{many, 32, distance - 3};
    s.c_ld = distance;
    s.c_type = MAGICUBE_INT8;
    if (!room_for(static_cast<size_t>(s.c_elements()))) return;
    both x(many, s.k, 0.3, 20);
    const auto b = x.make_b(s);
    const device_bytes device_b(x.gpu, b), c(x.gpu, static_cast<size_t>(s.c_elements()));
    constexpr float alpha = 1.0f / 1024;
    x.each_implementation(s, {}, [&](const char*, const plan& p) {
        REQUIRE(magicubeMemset(x.gpu, c.data(), 0x5a, c.size()) == MAGICUBE_STATUS_SUCCESS);
        const device_bytes workspace = x.workspace_for(p);
        REQUIRE(multiply(x.gpu, p, s, device_b.data(), c.data(), workspace.data(), alpha) ==
                MAGICUBE_STATUS_SUCCESS);
        std::vector<signed char> row(static_cast<size_t>(distance));
        for (int64_t i = 7; i < many; i += i < 60000 ? 5000 : 293) {
            const auto* from = static_cast<const signed char*>(c.data()) + i * distance;
            REQUIRE(magicubeMemcpy(x.gpu, row.data(), from, row.size()) == MAGICUBE_STATUS_SUCCESS);
            REQUIRE(magicubeSynchronize(x.gpu) == MAGICUBE_STATUS_SUCCESS);
            std::vector<int32_t> sums(static_cast<size_t>(s.n));
            const auto block = static_cast<size_t>(i / x.a.V);
            for (int64_t slot = x.a.begin[block]; slot < x.a.end[block]; ++slot) {
                const int64_t k = x.a.columns[static_cast<size_t>(slot)];
                const int32_t value = x.a.at(i, slot);
                for (int64_t j = 0; j < s.n; ++j)
                    sums[j] += value * static_cast<signed char>(b[k * s.n + j]);
            }
            int64_t wrong = 0;
            for (int64_t j = 0; j < s.n; ++j) wrong += row[j] != saturated(sums[j] / 1024.0);
            for (int64_t j = s.n; j < distance; ++j) wrong += row[j] != 0x5a;
            REQUIRE(wrong == 0);
        }
    });
}

TEST_CASE("issue_05 B of 2.8e9 elements") {
    product_shape s{24, many, 37};
    s.b_ld = distance;
    const auto bytes = static_cast<size_t>(s.b_elements());
    if (!room_for(bytes)) return;
    both x(s.m, s.k, 0.05, 21);
    const product_shape compact{s.m, s.k, s.n};
    const auto b = x.make_b(compact);
    const device_bytes device_b(x.gpu, bytes);
    REQUIRE(cudaMemset(device_b.data(), 0x7f, bytes) == cudaSuccess);
    REQUIRE(cudaMemcpy2D(device_b.data(), distance, b.data(), s.n, s.n, many,
                         cudaMemcpyHostToDevice) == cudaSuccess);
    const auto right = x.expected(b, compact);
    x.each_implementation(s, {}, [&](const char*, const plan& p) {
        const device_bytes c = x.poisoned_c(s), workspace = x.workspace_for(p);
        REQUIRE(multiply(x.gpu, p, s, device_b.data(), c.data(), workspace.data()) ==
                MAGICUBE_STATUS_SUCCESS);
        CHECK(c.read<int32_t>(x.gpu) == right);
    });
}
