// SPDX-License-Identifier: Apache-2.0
// MAGICUBE_VERBOSE, which is read once a process: each check runs this program again.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "capi/spmm_call.hpp"

using namespace support;

namespace {

// What "MAGICUBE_VERBOSE=topics <this program> <the test below>" prints.
std::string printed_with(const std::string& topics) {
    std::vector<char> path(4096, '\0');
    REQUIRE(readlink("/proc/self/exe", path.data(), path.size() - 1) > 0);
    const std::string command = "MAGICUBE_VERBOSE='" + topics + "' '" + path.data() +
                                "' --no-skip --minimal -tc='make one SpMM plan' 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string output;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
    CHECK(pclose(pipe) == 0);
    return output;
}

bool has(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("make one SpMM plan" * doctest::skip()) {
    spmm_call c;
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan));
    magicubeSpMM_destroyPlan(plan);
}

TEST_CASE("MAGICUBE_VERBOSE=bench prints the command that reproduces a plan") {
    const auto output = printed_with("bench");
    CHECK(has(output,
              "magicube bench spmm --device cpu --m 20 --k 30 --n 11 --vector-length 4 "
              "--sparsity 0."));
    CHECK(has(output, " --lhs int8 --rhs int8 --out fp32 --implementation reference\n"));
    CHECK_FALSE(has(output, "last resort"));
}

TEST_CASE("MAGICUBE_VERBOSE=dispatch tells what each implementation said") {
    const auto output = printed_with("dispatch");
    CHECK(has(output, "SpMM: reference: accepted"));
    CHECK(has(output, "SpMM: chosen: reference"));
    CHECK_FALSE(has(output, "bench spmm"));
}

TEST_CASE("issue_16_without_magicube_verbose_a_plan_prints_nothing") {
    CHECK_FALSE(has(printed_with(""), "SpMM:"));
}
