// SPDX-License-Identifier: Apache-2.0
// The stream family of SpMM, the plans that hold it beside another, and kernels that overlap,
// through the C ABI. Types, layouts and tails are in tests/core/ops/spmm_few_columns_test.cpp.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <string>

#include "gpu/spmm_both.hpp"

using support::both;
using support::descriptor;
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

// Random fp16 between 2^-8 and 2^8 in magnitude, whose sums depend on their order.
std::vector<uint16_t> random_halves(size_t count, std::mt19937& random) {
    std::vector<uint16_t> halves(count);
    for (auto& half : halves) {
        const auto bits = static_cast<unsigned>(random());
        half = static_cast<uint16_t>((bits & 0x83ff) | (7 + (bits >> 16) % 16) << 10);
    }
    return halves;
}

// Sixty products, each with the one before as its B, by the implementations in turn.
std::vector<unsigned char> chain(both& x, const product_shape& s,
                                 const std::vector<const char*>& names, const device_bytes& first,
                                 bool synchronously) {
    struct link {
        plan p;
        device_bytes workspace;
        link(both& of, const product_shape& shape, const char* name)
            : p(plan_named(of, shape, name)), workspace(of.workspace_for(p)) {}
    };
    std::vector<std::unique_ptr<link>> links;
    for (const char* name : names) links.push_back(std::make_unique<link>(x, s, name));
    const device_bytes even = x.poisoned_c(s), odd = x.poisoned_c(s);
    const void* from = first.data();
    for (size_t i = 0; i < 60; ++i) {
        const auto& by = *links[i % links.size()];
        const device_bytes& to = i % 2 == 0 ? even : odd;
        REQUIRE(multiply(x.gpu, by.p, s, from, to.data(), by.workspace.data(), 0.01f) ==
                MAGICUBE_STATUS_SUCCESS);
        if (synchronously) REQUIRE(magicubeSynchronize(x.gpu) == MAGICUBE_STATUS_SUCCESS);
        from = to.data();
    }
    return odd.read<unsigned char>(x.gpu);
}

// Kernels of a stream may overlap, but not where one reads what the other writes.
void check_chain(const std::vector<const char*>& names, int64_t n) {
    both x(256, 256, 0.2, 34);
    auto s = x.shape(n);
    s.c_type = MAGICUBE_INT8;
    for (const char* name : names) {
        auto problem = problem_of(x.device.value, s);
        problem.implementation = name;
        if (magicubeSpMM_isSupported(x.gpu, &problem) == MAGICUBE_STATUS_NOT_SUPPORTED) {
            MESSAGE(name, " does not run here");
            return;
        }
    }
    const device_bytes first(x.gpu, x.make_b(s));
    const auto right = chain(x, s, names, first, true);
    CHECK(std::count(right.begin(), right.end(), 0) < static_cast<int64_t>(right.size()) / 2);
    for (int repeat = 0; repeat < 5; ++repeat) CHECK(chain(x, s, names, first, false) == right);
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
    for (const int64_t n : {1, 16, 17, 32, 33, 64, 65, 128}) {
        const auto s = x.shape(n);
        const auto b = x.make_b(s);
        x.check_product(wide, s, b, x.expected(b, s));
    }
}

TEST_CASE("an implementation that is asked for is alone in its plan") {
    both x(512, 512, 0.1, 32);
    const plan p = plan_named(x, x.shape(64), "stream");
    CHECK(std::string(info_of(p).implementation) == "stream");
    auto problem = problem_of(x.device.value, x.shape(1025));
    problem.implementation = "stream";
    CHECK(magicubeSpMM_isSupported(x.gpu, &problem) == MAGICUBE_STATUS_NOT_SUPPORTED);
    CHECK(support::message_has("n_max is 1025; it serves up to 1024 columns"));
}

TEST_CASE("streaming gives the same bits each time, sums of floating point too") {
    both x(1000, 3000, 0.3, 33);
    const device_bytes values(x.gpu, random_halves(x.a.columns.size() * x.a.V, x.random));
    const descriptor a(x.a, x.begin.data(), x.end.data(), x.columns.data(), values.data(),
                       MAGICUBE_FP16);
    auto s = x.shape(16);
    s.b_type = MAGICUBE_FP16;
    s.c_type = MAGICUBE_FP32;
    auto problem = problem_of(a.value, s);
    problem.implementation = "stream";
    const plan p(x.gpu, problem);
    const device_bytes b(x.gpu, random_halves(static_cast<size_t>(s.b_elements()), x.random));
    const device_bytes workspace = x.workspace_for(p);
    std::vector<uint32_t> first;
    for (int repeat = 0; repeat < 200; ++repeat) {
        const device_bytes c = x.poisoned_c(s);
        REQUIRE(multiply(x.gpu, p, s, b.data(), c.data(), workspace.data()) ==
                MAGICUBE_STATUS_SUCCESS);
        const auto bits = c.read<uint32_t>(x.gpu);
        if (repeat == 0) first = bits;
        REQUIRE(bits == first);
    }
    // No sum is 0 or what C held before.
    CHECK(std::count(first.begin(), first.end(), 0u) == 0);
    CHECK(std::count(first.begin(), first.end(), 0xffffffffu) == 0);
}

TEST_CASE("a product whose B is the product before waits for it: streaming") {
    check_chain({"stream"}, 16);
}

TEST_CASE("a product whose B is the product before waits for it: slabs") {
    check_chain({"sm90_slab"}, 128);
}

TEST_CASE("a product whose B is the product before waits for it: slabs of a B that is prepared") {
    check_chain({"sm90_slab"}, 100);  // rows that start on any 4 bytes
}

TEST_CASE("a product whose B is the product before waits for it: slabs and streaming in turn") {
    check_chain({"sm90_slab", "stream"}, 64);
    check_chain({"sm90_slab", "stream"}, 50);
}
