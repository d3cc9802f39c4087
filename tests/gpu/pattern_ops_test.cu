// SPDX-License-Identifier: Apache-2.0
// SDDMM, sparse softmax, attention and Kronecker-sparse products on a GPU through the C ABI, every
// implementation beside the CPU: captured with a factor in device memory and replayed with others,
// and host pointers refused.
#include <cuda_runtime.h>

#include <cmath>
#include <memory>
#include <string>

#include "gpu/spmm_both.hpp"

using support::both;
using support::device_bytes;
using support::message_has;
using support::random_bytes;

namespace {

constexpr int64_t depth = 64;  // K, and elements of a head
constexpr float factors[] = {0.25f, -0.125f, 0.03125f};

using list_function = magicubeStatus_t (*)(magicubeDevice_t, const char**, int32_t, int32_t*);

std::vector<const char*> names_from(list_function list) {
    int32_t count = 0;
    REQUIRE(list(MAGICUBE_DEVICE_CUDA, nullptr, 0, &count) == MAGICUBE_STATUS_SUCCESS);
    std::vector<const char*> names(static_cast<size_t>(count));
    REQUIRE(list(MAGICUBE_DEVICE_CUDA, names.data(), count, &count) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(names.size() >= 2);
    return names;
}

// A plan of any operation, and its workspace.
template <class Problem, class Plan>
struct any_plan {
    Plan value = nullptr;
    size_t workspace_bytes = 0;
    magicubeStatus_t (*destroy)(Plan);

    any_plan(magicubeHandle_t handle, const Problem& problem,
             magicubeStatus_t (*size)(magicubeHandle_t, const Problem*, magicubeBufferSizes_t*),
             magicubeStatus_t (*create)(magicubeHandle_t, const Problem*, void*, size_t, Plan*),
             magicubeStatus_t (*destroy_plan)(Plan))
        : destroy(destroy_plan) {
        magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
        REQUIRE(size(handle, &problem, &sizes) == MAGICUBE_STATUS_SUCCESS);
        workspace_bytes = sizes.workspace_bytes;
        REQUIRE(create(handle, &problem, nullptr, 0, &value) == MAGICUBE_STATUS_SUCCESS);
    }
    ~any_plan() { destroy(value); }
    any_plan(const any_plan&) = delete;
    any_plan& operator=(const any_plan&) = delete;
};

using sddmm_plan = any_plan<magicubeSDDMMProblem_t, magicubeSDDMMPlan_t>;
using softmax_plan = any_plan<magicubeSparseSoftmaxProblem_t, magicubeSparseSoftmaxPlan_t>;
using attention_plan = any_plan<magicubeAttentionProblem_t, magicubeAttentionPlan_t>;
using kronecker_plan = any_plan<magicubeKroneckerMMProblem_t, magicubeKroneckerMMPlan_t>;

sddmm_plan plan_for(magicubeHandle_t handle, const magicubeSDDMMProblem_t& p) {
    return {handle, p, magicubeSDDMM_bufferSize, magicubeSDDMM_createPlan,
            magicubeSDDMM_destroyPlan};
}
softmax_plan plan_for(magicubeHandle_t handle, const magicubeSparseSoftmaxProblem_t& p) {
    return {handle, p, magicubeSparseSoftmax_bufferSize, magicubeSparseSoftmax_createPlan,
            magicubeSparseSoftmax_destroyPlan};
}
attention_plan plan_for(magicubeHandle_t handle, const magicubeAttentionProblem_t& p) {
    return {handle, p, magicubeAttention_bufferSize, magicubeAttention_createPlan,
            magicubeAttention_destroyPlan};
}

// Captures work(factor on the device), replays it with each factor, and calls check(factor).
template <class Work, class Check>
void replay(both& x, const Work& work, const Check& check) {
    CUstream_st* stream = nullptr;
    REQUIRE(magicubeStreamCreate(MAGICUBE_DEVICE_CUDA, 0, &stream) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeSetStream(x.gpu, stream) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeSetPointerMode(x.gpu, MAGICUBE_POINTER_MODE_DEVICE) == MAGICUBE_STATUS_SUCCESS);
    device_bytes factor(x.gpu, sizeof(float));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    CHECK(work(static_cast<const float*>(factor.data())) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    for (const float value : factors) {
        factor.write(x.gpu, &value);
        REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
        check(value);
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    REQUIRE(magicubeSetPointerMode(x.gpu, MAGICUBE_POINTER_MODE_HOST) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeSetStream(x.gpu, nullptr) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeStreamDestroy(MAGICUBE_DEVICE_CUDA, 0, stream) == MAGICUBE_STATUS_SUCCESS);
}

magicubeStatus_t sddmm(const both& x, magicubeHandle_t handle, const sddmm_plan& p,
                       const float* alpha, const void* a, const void* b, void* values,
                       void* workspace) {
    magicubeConstDnMatDescr_t A = nullptr, B = nullptr;
    REQUIRE(magicubeCreateConstDnMat(&A, x.a.rows, depth, depth, a, MAGICUBE_INT8,
                                     MAGICUBE_ORDER_ROW) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeCreateConstDnMat(&B, depth, x.a.cols, depth, b, MAGICUBE_INT8,
                                     MAGICUBE_ORDER_COL) == MAGICUBE_STATUS_SUCCESS);
    const auto status =
        magicubeSDDMM(handle, p.value, alpha, A, B, values, nullptr, workspace, p.workspace_bytes);
    magicubeDestroyDnMat(A);
    magicubeDestroyDnMat(B);
    return status;
}

magicubeSDDMMProblem_t sddmm_problem(magicubeConstSpMatDescr_t pattern, const char* name) {
    magicubeSDDMMProblem_t problem = MAGICUBE_SDDMM_PROBLEM_INIT;
    problem.pattern = pattern;
    problem.b_order = MAGICUBE_ORDER_COL;
    problem.k_max = depth;
    problem.implementation = name;
    return problem;
}

// fp16 in [-1, 1): sign and fraction from random bits, the exponent of 0.5 or 0.25.
std::vector<uint16_t> random_halves(int64_t count, std::mt19937& random) {
    std::vector<uint16_t> halves(static_cast<size_t>(count));
    for (auto& half : halves)
        half = static_cast<uint16_t>((random() & 0x87ff) | (random() % 2 ? 0x3000 : 0x3400));
    return halves;
}

magicubeAttentionProblem_t attention_problem(magicubeConstSpMatDescr_t pattern, const char* name) {
    magicubeAttentionProblem_t problem = MAGICUBE_ATTENTION_PROBLEM_INIT;
    problem.pattern = pattern;
    problem.out_type = MAGICUBE_FP32;
    problem.head_dim = depth;
    problem.implementation = name;
    return problem;
}

}  // namespace

TEST_CASE("issue_07 a captured SDDMM replays with another alpha, as the CPU computes it") {
    both x(300, 250, 0.2, 31);
    const auto a = random_bytes(static_cast<size_t>(x.a.rows * depth), x.random);
    const auto b = random_bytes(static_cast<size_t>(x.a.cols * depth), x.random);
    const device_bytes device_a(x.gpu, a), device_b(x.gpu, b);
    for (const char* name : names_from(magicubeSDDMM_listImplementations)) {
        const std::string named = name;
        INFO(named);
        const auto p = plan_for(x.gpu, sddmm_problem(x.device.value, name));
        const device_bytes values(x.gpu, 4 * x.a.values.size());
        const device_bytes workspace(x.gpu, p.workspace_bytes + 1);
        replay(
            x,
            [&](const float* alpha) {
                return sddmm(x, x.gpu, p, alpha, device_a.data(), device_b.data(), values.data(),
                             workspace.data());
            },
            [&](float alpha) {
                const auto on_cpu = plan_for(x.cpu, sddmm_problem(x.host.value, nullptr));
                std::vector<float> expected(x.a.values.size());
                std::vector<unsigned char> scratch(on_cpu.workspace_bytes + 256);
                void* start = scratch.data();
                size_t space = scratch.size();
                std::align(256, on_cpu.workspace_bytes, start, space);
                REQUIRE(sddmm(x, x.cpu, on_cpu, &alpha, a.data(), b.data(), expected.data(),
                              start) == MAGICUBE_STATUS_SUCCESS);
                CHECK(values.read<float>(x.gpu) == expected);
            });
        CHECK(sddmm(x, x.gpu, p, nullptr, a.data(), device_b.data(), values.data(),
                    workspace.data()) == MAGICUBE_STATUS_DEVICE_MISMATCH);
        CHECK(message_has("A points at host memory"));
    }
}

TEST_CASE("issue_07 a captured softmax replays with another alpha, as the CPU computes it") {
    both x(300, 250, 0.2, 32);
    std::vector<float> scores(x.a.values.size());
    for (auto& score : scores) score = static_cast<float>(x.random() % 4096) / 64;
    const device_bytes device_scores(x.gpu, scores);
    const auto problem_for = [](magicubeConstSpMatDescr_t pattern, const char* name) {
        magicubeSparseSoftmaxProblem_t problem = MAGICUBE_SPARSE_SOFTMAX_PROBLEM_INIT;
        problem.pattern = pattern;
        problem.out_type = MAGICUBE_INT16;
        problem.implementation = name;
        return problem;
    };
    // Integers are the reference's to the bit; other implementations have another exp.
    const auto on_cpu = plan_for(x.cpu, problem_for(x.host.value, "reference"));
    for (const char* name : names_from(magicubeSparseSoftmax_listImplementations)) {
        const std::string named = name;
        INFO(named);
        const auto p = plan_for(x.gpu, problem_for(x.device.value, name));
        const device_bytes out(x.gpu, 2 * scores.size());
        const device_bytes scales(x.gpu, sizeof(float) * static_cast<size_t>(x.a.rows));
        magicubeSparseSoftmaxArgs_t args = MAGICUBE_SPARSE_SOFTMAX_ARGS_INIT;
        args.out_scale = static_cast<float*>(scales.data());
        const auto execute = [&](const float* alpha, const void* from) {
            return magicubeSparseSoftmax(x.gpu, p.value, alpha, from, out.data(), &args, nullptr,
                                         0);
        };
        replay(
            x, [&](const float* alpha) { return execute(alpha, device_scores.data()); },
            [&](float alpha) {
                std::vector<int16_t> expected(scores.size());
                std::vector<float> expected_scales(static_cast<size_t>(x.a.rows));
                magicubeSparseSoftmaxArgs_t host_args = MAGICUBE_SPARSE_SOFTMAX_ARGS_INIT;
                host_args.out_scale = expected_scales.data();
                REQUIRE(magicubeSparseSoftmax(x.cpu, on_cpu.value, &alpha, scores.data(),
                                              expected.data(), &host_args, nullptr,
                                              0) == MAGICUBE_STATUS_SUCCESS);
                CHECK(out.read<int16_t>(x.gpu) == expected);
                const auto found = scales.read<float>(x.gpu);
                for (size_t i = 0; i < found.size(); ++i)
                    CHECK(std::fabs(found[i] - expected_scales[i]) <= 2e-6f * expected_scales[i]);
            });
        CHECK(execute(nullptr, scores.data()) == MAGICUBE_STATUS_DEVICE_MISMATCH);
        CHECK(message_has("scores points at host memory"));
    }
}

TEST_CASE("issue_07 a captured attention replays with another scale, as the CPU computes it") {
    both x(120, 250, 0.3, 33);
    const auto q = random_halves(x.a.rows * depth, x.random);
    const auto k = random_halves(x.a.cols * depth, x.random);
    const auto v = random_halves(x.a.cols * depth, x.random);
    const device_bytes device_q(x.gpu, q), device_k(x.gpu, k), device_v(x.gpu, v);
    const auto on_cpu = plan_for(x.cpu, attention_problem(x.host.value, nullptr));
    std::vector<unsigned char> scratch(on_cpu.workspace_bytes + 256);
    void* start = scratch.data();
    size_t space = scratch.size();
    std::align(256, on_cpu.workspace_bytes, start, space);
    for (const char* name : names_from(magicubeAttention_listImplementations)) {
        const std::string named = name;
        INFO(named);
        const auto p = plan_for(x.gpu, attention_problem(x.device.value, name));
        const device_bytes out(x.gpu, sizeof(float) * q.size());
        const auto execute = [&](const float* scale, const void* from) {
            return magicubeAttention(x.gpu, p.value, scale, from, device_k.data(), device_v.data(),
                                     out.data(), nullptr, nullptr, 0);
        };
        replay(
            x, [&](const float* scale) { return execute(scale, device_q.data()); },
            [&](float scale) {
                std::vector<float> expected(q.size());
                REQUIRE(magicubeAttention(x.cpu, on_cpu.value, &scale, q.data(), k.data(), v.data(),
                                          expected.data(), nullptr, start,
                                          on_cpu.workspace_bytes) == MAGICUBE_STATUS_SUCCESS);
                const auto found = out.read<float>(x.gpu);
                double error = 0, size = 0;
                for (size_t i = 0; i < found.size(); ++i) {
                    error += std::pow(double{found[i]} - expected[i], 2);
                    size += std::pow(double{expected[i]}, 2);
                }
                CHECK(std::sqrt(error / size) < 2e-3);
            });
        CHECK(execute(nullptr, q.data()) == MAGICUBE_STATUS_DEVICE_MISMATCH);
        CHECK(message_has("q points at host memory"));
    }
}

namespace {

constexpr magicubeKroneckerShape_t factor_shape = {2, 24, 16, 8};
constexpr int64_t vectors = 70, inputs = 2 * 16 * 8, outputs = 2 * 24 * 8;

struct kronecker_operands {
    magicubeConstKroneckerDescr_t k = nullptr;
    magicubeConstDnMatDescr_t x = nullptr;
    magicubeDnMatDescr_t y = nullptr;

    kronecker_operands(const void* values, const void* x_values, void* y_values) {
        REQUIRE(magicubeCreateConstKronecker(&k, factor_shape.a, factor_shape.b, factor_shape.c,
                                             factor_shape.d, values,
                                             MAGICUBE_FP16) == MAGICUBE_STATUS_SUCCESS);
        REQUIRE(magicubeCreateConstDnMat(&x, vectors, inputs, inputs, x_values, MAGICUBE_FP16,
                                         MAGICUBE_ORDER_ROW) == MAGICUBE_STATUS_SUCCESS);
        REQUIRE(magicubeCreateDnMat(&y, vectors, outputs, outputs, y_values, MAGICUBE_FP16,
                                    MAGICUBE_ORDER_ROW) == MAGICUBE_STATUS_SUCCESS);
    }
    ~kronecker_operands() {
        magicubeDestroyKronecker(k);
        magicubeDestroyDnMat(x);
        magicubeDestroyDnMat(y);
    }
    kronecker_operands(const kronecker_operands&) = delete;
    kronecker_operands& operator=(const kronecker_operands&) = delete;
};

kronecker_plan plan_for(magicubeHandle_t handle, const kronecker_operands& operands,
                        const char* name) {
    magicubeKroneckerMMProblem_t problem = MAGICUBE_KRONECKER_MM_PROBLEM_INIT;
    problem.K = operands.k;
    problem.y_type = MAGICUBE_FP16;
    problem.n_max = vectors;
    problem.implementation = name;
    return {handle, problem, magicubeKroneckerMM_bufferSize, magicubeKroneckerMM_createPlan,
            magicubeKroneckerMM_destroyPlan};
}

double value_of(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -size : size;
}

}  // namespace

TEST_CASE("issue_07 a captured Kronecker product replays with another alpha") {
    both x(8, 8, 0.5, 34);
    const auto k = random_halves(2 * 24 * 16 * 8, x.random);
    const auto given = random_halves(vectors * inputs, x.random);
    const device_bytes device_k(x.gpu, k), device_x(x.gpu, given);
    const device_bytes y(x.gpu, sizeof(uint16_t) * static_cast<size_t>(vectors * outputs));
    std::vector<uint16_t> expected(static_cast<size_t>(vectors * outputs));
    const kronecker_operands on_host(k.data(), given.data(), expected.data());
    const kronecker_operands on_device(device_k.data(), device_x.data(), y.data());
    const kronecker_operands mixed(device_k.data(), given.data(), y.data());
    const auto on_cpu = plan_for(x.cpu, on_host, "simd");
    std::vector<unsigned char> scratch(on_cpu.workspace_bytes + 256);
    void* start = scratch.data();
    size_t space = scratch.size();
    std::align(256, on_cpu.workspace_bytes, start, space);
    for (const char* name : names_from(magicubeKroneckerMM_listImplementations)) {
        const std::string named = name;
        INFO(named);
        const auto p = plan_for(x.gpu, on_device, name);
        const device_bytes workspace(x.gpu, p.workspace_bytes + 1);
        const auto execute = [&](const float* alpha, const kronecker_operands& operands) {
            return magicubeKroneckerMM(x.gpu, p.value, alpha, operands.x, nullptr, operands.y,
                                       nullptr, workspace.data(), p.workspace_bytes);
        };
        replay(
            x, [&](const float* alpha) { return execute(alpha, on_device); },
            [&](float alpha) {
                REQUIRE(magicubeKroneckerMM(x.cpu, on_cpu.value, &alpha, on_host.x, nullptr,
                                            on_host.y, nullptr, start,
                                            on_cpu.workspace_bytes) == MAGICUBE_STATUS_SUCCESS);
                const auto found = y.read<uint16_t>(x.gpu);
                bool near = true;
                for (size_t i = 0; i < found.size(); ++i) {
                    const double right = value_of(expected[i]);
                    near &= std::fabs(value_of(found[i]) - right) <= 1e-3 * (1 + std::fabs(right));
                }
                CHECK(near);
            });
        CHECK(execute(nullptr, mixed) == MAGICUBE_STATUS_DEVICE_MISMATCH);
        CHECK(message_has("X points at host memory"));
    }
}
