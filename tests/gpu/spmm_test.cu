// SPDX-License-Identifier: Apache-2.0
// SpMM on a GPU through the C ABI, against the CPU. What concerns types, layouts and tails is in
// tests/core/ops, whose models run every implementation of every device that is there.
#include <cuda_runtime.h>

#include <string>
#include <thread>

#include "gpu/gpu.hpp"

using support::cpu_handle;
using support::cuda_handle;
using support::device_bytes;
using support::message_has;

namespace {

constexpr int64_t V = 8, S = 32;

// A random int8 matrix in SR-BCRS.
struct sparse_int8 {
    int64_t rows, cols;
    std::vector<int64_t> begin, end;
    std::vector<int32_t> columns;
    std::vector<unsigned char> values;

    sparse_int8(int64_t m, int64_t k, double density, std::mt19937& random) : rows(m), cols(k) {
        std::bernoulli_distribution present(density);
        for (int64_t i = 0; i < (m + V - 1) / V; ++i) {
            begin.push_back(static_cast<int64_t>(columns.size()));
            for (int64_t c = 0; c < k; ++c)
                if (present(random)) columns.push_back(static_cast<int32_t>(c));
            end.push_back(static_cast<int64_t>(columns.size()));
            while (columns.size() % S != 0) columns.push_back(-1);
        }
        values = support::random_bytes(columns.size() * V, random);
    }
};

// Its descriptor over arrays of either device.
struct descriptor {
    magicubeConstSpMatDescr_t value = nullptr;
    descriptor(const sparse_int8& a, const void* begin, const void* end, const void* columns,
               const void* values) {
        REQUIRE(magicubeCreateConstSrBcrs(
                    &value, a.rows, a.cols, V, S, static_cast<int64_t>(a.columns.size()), begin,
                    end, static_cast<const int32_t*>(columns), values, MAGICUBE_INDEX_64,
                    MAGICUBE_INT8) == MAGICUBE_STATUS_SUCCESS);
    }
    ~descriptor() { magicubeDestroySpMat(value); }
};

struct plan {
    magicubeSpMMPlan_t value = nullptr;
    size_t workspace_bytes = 0;

    plan(magicubeHandle_t handle, magicubeConstSpMatDescr_t a, int64_t n_max,
         const char* implementation = nullptr) {
        magicubeSpMMProblem_t problem = MAGICUBE_SPMM_PROBLEM_INIT;
        problem.A = a;
        problem.c_type = MAGICUBE_INT32;
        problem.n_max = n_max;
        problem.implementation = implementation;
        magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
        REQUIRE(magicubeSpMM_bufferSize(handle, &problem, &sizes) == MAGICUBE_STATUS_SUCCESS);
        workspace_bytes = sizes.workspace_bytes;
        REQUIRE(magicubeSpMM_createPlan(handle, &problem, nullptr, 0, &value) ==
                MAGICUBE_STATUS_SUCCESS);
    }
    ~plan() { magicubeSpMM_destroyPlan(value); }
};

magicubeStatus_t multiply(magicubeHandle_t handle, const plan& p, int64_t k, int64_t n, int64_t m,
                          const void* b, void* c, void* workspace) {
    magicubeConstDnMatDescr_t B = nullptr;
    magicubeDnMatDescr_t C = nullptr;
    REQUIRE(magicubeCreateConstDnMat(&B, k, n, n, b, MAGICUBE_INT8, MAGICUBE_ORDER_ROW) ==
            MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeCreateDnMat(&C, m, n, n, c, MAGICUBE_INT32, MAGICUBE_ORDER_ROW) ==
            MAGICUBE_STATUS_SUCCESS);
    const auto status = magicubeSpMM(handle, p.value, nullptr, B, nullptr, C, nullptr, workspace,
                                     p.workspace_bytes);
    magicubeDestroyDnMat(B);
    magicubeDestroyDnMat(C);
    return status;
}

// One problem on both devices.
struct both {
    cpu_handle cpu;
    cuda_handle gpu;
    std::mt19937 random;
    int64_t m, k;
    sparse_int8 a;
    descriptor host;
    device_bytes begin, end, columns, values;
    descriptor device;

    both(int64_t rows, int64_t cols, double density, unsigned seed)
        : random(seed),
          m(rows),
          k(cols),
          a(rows, cols, density, random),
          host(a, a.begin.data(), a.end.data(), a.columns.data(), a.values.data()),
          begin(gpu, a.begin),
          end(gpu, a.end),
          columns(gpu, a.columns),
          values(gpu, a.values),
          device(a, begin.data(), end.data(), columns.data(), values.data()) {}

    std::vector<unsigned char> make_b(int64_t n) {
        return support::random_bytes(static_cast<size_t>(k * n), random);
    }
    std::vector<int32_t> expected(const std::vector<unsigned char>& b, int64_t n) {
        const plan p(cpu, host.value, n);
        std::vector<int32_t> c(static_cast<size_t>(m * n), -1);
        void* workspace = nullptr;
        REQUIRE(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, p.workspace_bytes, &workspace) ==
                MAGICUBE_STATUS_SUCCESS);
        REQUIRE(multiply(cpu, p, k, n, m, b.data(), c.data(), workspace) ==
                MAGICUBE_STATUS_SUCCESS);
        magicubeFree(MAGICUBE_DEVICE_CPU, 0, workspace);
        return c;
    }
    device_bytes poisoned(size_t bytes) {
        return device_bytes(gpu, std::vector<unsigned char>(bytes, 0xff));
    }
};

std::vector<std::string> implementations() {
    const char* names[16];
    int32_t count = 0;
    REQUIRE(magicubeSpMM_listImplementations(MAGICUBE_DEVICE_CUDA, names, 16, &count) ==
            MAGICUBE_STATUS_SUCCESS);
    REQUIRE(count >= 2);
    return {names, names + count};
}

}  // namespace

TEST_CASE("issue_20 every N from 1 to 300, on every implementation") {
    both x(77, 203, 0.2, 1);
    for (const auto& name : implementations()) {
        const plan p(x.gpu, x.device.value, 300, name.c_str());
        for (int64_t n = 1; n <= 300; ++n) {
            const auto b = x.make_b(n);
            const device_bytes device_b(x.gpu, b);
            const device_bytes c = x.poisoned(static_cast<size_t>(x.m * n) * 4);
            const device_bytes workspace = x.poisoned(p.workspace_bytes + 1);
            REQUIRE(multiply(x.gpu, p, x.k, n, x.m, device_b.data(), c.data(), workspace.data()) ==
                    MAGICUBE_STATUS_SUCCESS);
            REQUIRE(c.read<int32_t>(x.gpu) == x.expected(b, n));
        }
    }
}

TEST_CASE("issue_07 a captured product replays with other values") {
    constexpr int64_t n = 200;
    both x(300, 500, 0.15, 2);
    CUstream_st* stream = nullptr;
    REQUIRE(magicubeStreamCreate(MAGICUBE_DEVICE_CUDA, 0, &stream) == MAGICUBE_STATUS_SUCCESS);
    for (const auto& name : implementations()) {
        const plan p(x.gpu, x.device.value, n, name.c_str());
        auto b = x.make_b(n);
        device_bytes device_b(x.gpu, b);
        const device_bytes c = x.poisoned(static_cast<size_t>(x.m * n) * 4);
        const device_bytes workspace = x.poisoned(p.workspace_bytes + 1);
        REQUIRE(magicubeSetStream(x.gpu, stream) == MAGICUBE_STATUS_SUCCESS);
        REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
        CHECK(multiply(x.gpu, p, x.k, n, x.m, device_b.data(), c.data(), workspace.data()) ==
              MAGICUBE_STATUS_SUCCESS);
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
        REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
        for (int replay = 0; replay < 3; ++replay) {
            b = x.make_b(n);
            device_b.write(x.gpu, b.data());
            REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
            CHECK(c.read<int32_t>(x.gpu) == x.expected(b, n));
        }
        cudaGraphExecDestroy(executable);
        cudaGraphDestroy(graph);
        REQUIRE(magicubeSetStream(x.gpu, nullptr) == MAGICUBE_STATUS_SUCCESS);
    }
    magicubeStreamDestroy(MAGICUBE_DEVICE_CUDA, 0, stream);
}

TEST_CASE("issue_03 eight threads on one plan, each with its own handle and stream") {
    constexpr int64_t n = 150;
    both x(500, 400, 0.1, 3);
    for (const auto& name : implementations()) {
        const plan p(x.gpu, x.device.value, n, name.c_str());
        std::vector<std::vector<unsigned char>> b(8);
        std::vector<std::vector<int32_t>> found(8), expected(8);
        for (int t = 0; t < 8; ++t) {
            b[t] = x.make_b(n);
            expected[t] = x.expected(b[t], n);
        }
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t) {
            threads.emplace_back([&, t] {
                cuda_handle handle;
                CUstream_st* stream = nullptr;
                REQUIRE(magicubeStreamCreate(MAGICUBE_DEVICE_CUDA, 0, &stream) == 0);
                REQUIRE(magicubeSetStream(handle, stream) == 0);
                const device_bytes device_b(handle, b[t]);
                const device_bytes c(handle, std::vector<int32_t>(expected[t].size(), -1));
                const device_bytes workspace(handle, std::vector<char>(p.workspace_bytes + 1, -1));
                for (int repeat = 0; repeat < 20; ++repeat)
                    REQUIRE(multiply(handle, p, x.k, n, x.m, device_b.data(), c.data(),
                                     workspace.data()) == 0);
                found[t] = c.read<int32_t>(handle);
                magicubeStreamDestroy(MAGICUBE_DEVICE_CUDA, 0, stream);
            });
        }
        for (auto& thread : threads) thread.join();
        for (int t = 0; t < 8; ++t) CHECK(found[t] == expected[t]);
    }
}

TEST_CASE("a plan belongs to its device") {
    both x(16, 16, 0.5, 4);
    const plan p(x.gpu, x.device.value, 16);
    std::vector<unsigned char> b(256), c(1024);
    CHECK(multiply(x.cpu, p, 16, 16, 16, b.data(), c.data(), nullptr) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    const device_bytes device_b(x.gpu, b), device_c(x.gpu, c);
    const device_bytes workspace = x.poisoned(p.workspace_bytes + 1);
    CHECK(multiply(x.gpu, p, 16, 16, 16, b.data(), device_c.data(), workspace.data()) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(message_has("B points at host memory"));
}

TEST_CASE("K beyond what 32-bit sums hold goes to another implementation") {
    both x(16, 200000, 0.6, 5);
    const plan p(x.gpu, x.device.value, 40);
    const auto b = x.make_b(40);
    const device_bytes device_b(x.gpu, b);
    const device_bytes c = x.poisoned(16 * 40 * 4);
    const device_bytes workspace = x.poisoned(p.workspace_bytes + 1);
    REQUIRE(multiply(x.gpu, p, x.k, 40, 16, device_b.data(), c.data(), workspace.data()) ==
            MAGICUBE_STATUS_SUCCESS);
    CHECK(c.read<int32_t>(x.gpu) == x.expected(b, 40));
}
