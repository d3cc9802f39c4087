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
                                "' --no-skip --minimal -tc='make one plan of each operation' 2>&1";
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

TEST_CASE("make one plan of each operation" * doctest::skip()) {
    spmm_call c;
    magicubeSpMMPlan_t plan = nullptr;
    REQUIRE_OK(magicubeSpMM_createPlan(c.handle, &c.problem, nullptr, 0, &plan));
    magicubeSpMM_destroyPlan(plan);

    magicubeSDDMMProblem_t sddmm = MAGICUBE_SDDMM_PROBLEM_INIT;
    sddmm.pattern = c.problem.A;
    sddmm.k_max = 9;
    magicubeSDDMMPlan_t sddmm_plan = nullptr;
    REQUIRE_OK(magicubeSDDMM_createPlan(c.handle, &sddmm, nullptr, 0, &sddmm_plan));
    magicubeSDDMM_destroyPlan(sddmm_plan);

    magicubeSparseSoftmaxProblem_t softmax = MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT;
    softmax.pattern = c.problem.A;
    magicubeSparseSoftmaxPlan_t softmax_plan = nullptr;
    REQUIRE_OK(magicubeSparseSoftmax_createPlan(c.handle, &softmax, nullptr, 0, &softmax_plan));
    magicubeSparseSoftmax_destroyPlan(softmax_plan);

    magicubeAttentionProblem_t attention = MAGICUBE_ATTENTION_PROBLEM_INIT;
    attention.pattern = c.problem.A;
    magicubeAttentionPlan_t attention_plan = nullptr;
    REQUIRE_OK(magicubeAttention_createPlan(c.handle, &attention, nullptr, 0, &attention_plan));
    magicubeAttention_destroyPlan(attention_plan);
}

TEST_CASE("MAGICUBE_VERBOSE=bench prints the command that reproduces a plan") {
    const auto output = printed_with("bench");
    CHECK(has(output,
              "magicube bench spmm --m 20 --k 30 --n 11 --lhs int8 --rhs int8 --out fp32 "
              "--device cpu --vector-length 4 --stride "));
    CHECK(has(output, " --sparsity 0."));
    CHECK(has(output, " --implementation simd\n"));
    CHECK(
        has(output, "magicube bench sddmm --m 20 --k 9 --n 30 --lhs int8 --rhs int8 --out fp32 "));
    CHECK(has(output, "magicube bench softmax --m 20 --n 30 --in fp32 --out fp32 "));
    CHECK_FALSE(has(output, "last resort"));
    CHECK(has(output,
              "magicube bench attention --m 20 --k 64 --n 30 --heads 1 --in fp16 --out fp16 "));
    CHECK_FALSE(has(output, "bench  "));
}

TEST_CASE("MAGICUBE_VERBOSE=dispatch tells what each implementation said") {
    const auto output = printed_with("dispatch");
    CHECK(has(output, "SpMM: reference: accepted"));
    CHECK(has(output, "SpMM: chosen: simd"));
    CHECK(has(output, "Attention: chosen: simd"));
    CHECK_FALSE(has(output, "bench spmm"));
}

TEST_CASE("issue_16_without_magicube_verbose_a_plan_prints_nothing") {
    CHECK_FALSE(has(printed_with(""), "SpMM:"));
}
