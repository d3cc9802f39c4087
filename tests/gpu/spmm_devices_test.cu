// SPDX-License-Identifier: Apache-2.0
// SpMM among several threads, streams and GPUs, and in captured graphs.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>
#include <thread>

#include "gpu/spmm_both.hpp"

using support::both;
using support::cuda_handle;
using support::device_bytes;
using support::message_has;
using support::plan;
using support::problem_of;
using support::product_shape;

namespace {

void update_mode(magicubeSpMMProblem_t& problem) {
    problem.value_mode = MAGICUBE_VALUES_UPDATABLE;
}

// A stream that a handle works on.
struct stream_of {
    magicubeHandle_t handle;
    CUstream_st* value = nullptr;

    explicit stream_of(magicubeHandle_t h, int32_t ordinal = 0) : handle(h) {
        REQUIRE(magicubeStreamCreate(MAGICUBE_DEVICE_CUDA, ordinal, &value) == 0);
        REQUIRE(magicubeSetStream(handle, value) == 0);
    }
    ~stream_of() {
        magicubeSetStream(handle, nullptr);
        magicubeStreamDestroy(MAGICUBE_DEVICE_CUDA, 0, value);
    }
    stream_of(const stream_of&) = delete;
};

// What a function puts on a stream, as a graph.
struct captured {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;

    template <class Work>
    captured(CUstream_st* stream, const Work& work) {
        REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
        work();
        REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
        REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    }
    ~captured() {
        cudaGraphExecDestroy(executable);
        cudaGraphDestroy(graph);
    }
    captured(const captured&) = delete;

    size_t kernels() const {
        size_t count = 0;
        REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
        std::vector<cudaGraphNode_t> nodes(count);
        REQUIRE(cudaGraphGetNodes(graph, nodes.data(), &count) == cudaSuccess);
        size_t found = 0;
        for (const auto node : nodes) {
            cudaGraphNodeType type{};
            REQUIRE(cudaGraphNodeGetType(node, &type) == cudaSuccess);
            found += type == cudaGraphNodeTypeKernel;
        }
        return found;
    }
};

int gpu_count() {
    int32_t count = 0;
    REQUIRE(magicubeGetDeviceCount(MAGICUBE_DEVICE_CUDA, &count) == MAGICUBE_STATUS_SUCCESS);
    return count;
}

}  // namespace

TEST_CASE("issue_07 a captured product replays with another B") {
    both x(300, 500, 0.15, 2);
    const stream_of stream(x.gpu);
    const auto s = x.shape(200);
    x.each_implementation(s, {}, [&](const char*, const plan& p) {
        auto b = x.make_b(s);
        device_bytes device_b(x.gpu, b);
        const device_bytes c = x.poisoned_c(s), workspace = x.workspace_for(p);
        const captured graph(stream.value, [&] {
            CHECK(multiply(x.gpu, p, s, device_b.data(), c.data(), workspace.data()) ==
                  MAGICUBE_STATUS_SUCCESS);
        });
        for (int replay = 0; replay < 3; ++replay) {
            b = x.make_b(s);
            device_b.write(x.gpu, b.data());
            REQUIRE(cudaGraphLaunch(graph.executable, stream.value) == cudaSuccess);
            CHECK(c.read<int32_t>(x.gpu) == x.expected(b, s));
        }
    });
}

TEST_CASE("issue_07 a captured update of A's values replays with others, and another B") {
    both x(300, 500, 0.15, 12);
    const stream_of stream(x.gpu);
    const auto s = x.shape(72);
    x.each_implementation(s, update_mode, [&](const char*, const plan& p) {
        auto b = x.make_b(s);
        device_bytes device_b(x.gpu, b), values(x.gpu, x.a.values);
        const device_bytes c = x.poisoned_c(s), workspace = x.workspace_for(p);
        const captured graph(stream.value, [&] {
            CHECK(magicubeSpMM_updateValues(x.gpu, p.value, values.data()) ==
                  MAGICUBE_STATUS_SUCCESS);
            CHECK(multiply(x.gpu, p, s, device_b.data(), c.data(), workspace.data()) ==
                  MAGICUBE_STATUS_SUCCESS);
        });
        for (int replay = 0; replay < 3; ++replay) {
            b = x.make_b(s);
            // In place: the host's descriptor points there.
            const auto fresh = support::random_bytes(x.a.values.size(), x.random);
            std::copy(fresh.begin(), fresh.end(), x.a.values.begin());
            device_b.write(x.gpu, b.data());
            values.write(x.gpu, x.a.values.data());
            REQUIRE(cudaGraphLaunch(graph.executable, stream.value) == cudaSuccess);
            CHECK(c.read<int32_t>(x.gpu) == x.expected(b, s));
        }
    });
}

TEST_CASE("issue_07 a plan that waits for the device is not made while its stream is captured") {
    both x(64, 64, 0.3, 16);
    const stream_of stream(x.gpu);
    auto problem = problem_of(x.device.value, x.shape(16));
    problem.implementation = "stream";
    // The capture goes on.
    const captured graph(stream.value, [&] {
        magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
        CHECK(magicubeSpMM_bufferSize(x.gpu, &problem, &sizes) == MAGICUBE_STATUS_CAPTURING);
        CHECK(message_has("the handle's stream is being captured"));
        magicubeSpMMPlan_t made = nullptr;
        CHECK(magicubeSpMM_createPlan(x.gpu, &problem, nullptr, 0, &made) ==
              MAGICUBE_STATUS_CAPTURING);
        CHECK(message_has("the handle's stream is being captured"));
    });
    CHECK(graph.kernels() == 0);
}

TEST_CASE("issue_19 a batch of different patterns is one launch, as a single matrix is") {
    both one(120, 200, 0.2, 13), many(120, 200, 0.2, 14, 5);
    const stream_of stream(one.gpu), other(many.gpu);
    const auto single = one.shape(96), batch = many.shape(96);
    const auto b = many.make_b(batch);
    const auto right = many.expected(b, batch);
    const device_bytes device_b(many.gpu, b), c = many.poisoned_c(batch);
    const auto launches = [&](both& x, CUstream_st* on, const plan& p, const product_shape& s) {
        const device_bytes workspace = x.workspace_for(p);
        const captured graph(on, [&] {
            CHECK(multiply(x.gpu, p, s, device_b.data(), c.data(), workspace.data()) ==
                  MAGICUBE_STATUS_SUCCESS);
        });
        REQUIRE(cudaGraphLaunch(graph.executable, on) == cudaSuccess);
        REQUIRE(cudaStreamSynchronize(on) == cudaSuccess);
        return graph.kernels();
    };
    many.each_implementation(batch, {}, [&](const char* name, const plan& p) {
        const auto named = [&](magicubeSpMMProblem_t& problem) { problem.implementation = name; };
        const plan alone(one.gpu, problem_of(one.device.value, single, named));
        const size_t fewest = launches(one, stream.value, alone, single);
        CHECK(launches(many, other.value, p, batch) == fewest);
        CHECK(c.read<int32_t>(many.gpu) == right);
    });
}

TEST_CASE("issue_19 a strided batch of B and C with one A") {
    both x(120, 200, 0.2, 15);
    auto s = x.shape(64);
    s.batch = 4;
    const auto b = x.make_b(s);
    const auto right = x.expected(b, s);
    x.each_implementation(s, {},
                          [&](const char*, const plan& p) { x.check_product(p, s, b, right); });
}

TEST_CASE("issue_03 eight threads on one plan, each with its own handle and stream") {
    both x(500, 400, 0.1, 3);
    const auto s = x.shape(150);
    x.each_implementation(s, {}, [&](const char*, const plan& p) {
        std::vector<std::vector<unsigned char>> b(8);
        std::vector<std::vector<int32_t>> found(8), expected(8);
        for (int t = 0; t < 8; ++t) {
            b[t] = x.make_b(s);
            expected[t] = x.expected(b[t], s);
        }
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t) {
            threads.emplace_back([&, t] {
                const cuda_handle handle;
                const stream_of stream(handle);
                const device_bytes device_b(handle, b[t]);
                const device_bytes c(handle, std::vector<int32_t>(expected[t].size(), -1));
                const device_bytes workspace(handle, std::vector<char>(p.workspace_bytes + 1, -1));
                for (int repeat = 0; repeat < 20; ++repeat)
                    REQUIRE(multiply(handle, p, s, device_b.data(), c.data(), workspace.data()) ==
                            0);
                found[t] = c.read<int32_t>(handle);
            });
        }
        for (auto& thread : threads) thread.join();
        for (int t = 0; t < 8; ++t) CHECK(found[t] == expected[t]);
    });
}

TEST_CASE("issue_03 a plan, its matrix and its arrays belong to their device") {
    both x(16, 16, 0.5, 4);
    const auto s = x.shape(13);  // rows of B that a kernel may want to copy to the workspace
    const auto problem = problem_of(x.device.value, s);
    const plan p(x.gpu, problem);
    const auto b = x.make_b(s);
    std::vector<int32_t> c(static_cast<size_t>(s.c_elements()));
    CHECK(multiply(x.cpu, p, s, b.data(), c.data(), nullptr) == MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(message_has("plan was made on CUDA device 0"));
    const device_bytes device_b(x.gpu, b), device_c = x.poisoned_c(s);
    const device_bytes workspace = x.workspace_for(p);
    CHECK(multiply(x.gpu, p, s, b.data(), device_c.data(), workspace.data()) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(message_has("B points at host memory"));
    CHECK(multiply(x.gpu, p, s, device_b.data(), c.data(), workspace.data()) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(message_has("C points at host memory"));
    magicubeSpMMPlan_t made = nullptr;
    auto on_host = problem;
    on_host.A = x.host.value;
    CHECK(magicubeSpMM_createPlan(x.gpu, &on_host, nullptr, 0, &made) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(message_has("problem->A's row_begin points at host memory"));
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(magicubeSpMM_bufferSize(x.gpu, &on_host, &sizes) == MAGICUBE_STATUS_DEVICE_MISMATCH);
    alignas(256) static char buffer[1 << 20];
    CHECK(magicubeSpMM_createPlan(x.gpu, &problem, buffer, sizeof(buffer), &made) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(message_has("plan_buffer points at host memory"));
    CHECK(multiply(x.gpu, p, s, device_b.data(), device_c.data(), workspace.data()) ==
          MAGICUBE_STATUS_SUCCESS);
    CHECK(device_c.read<int32_t>(x.gpu) == x.expected(b, s));
}

TEST_CASE("issue_03 a pointer of another GPU is refused, and that GPU works beside the first") {
    if (gpu_count() < 2) {
        MESSAGE("skipped: there are not two GPUs");
        return;
    }
    both first(64, 96, 0.3, 10), second(64, 96, 0.3, 11, 1, 1);
    const auto s = first.shape(40);
    const plan p(first.gpu, problem_of(first.device.value, s));
    const plan q(second.gpu, problem_of(second.device.value, s));
    const auto b = first.make_b(s);
    const device_bytes near_b(first.gpu, b), near_c = first.poisoned_c(s);
    const device_bytes far_b(second.gpu, b), far_c = second.poisoned_c(s);
    const device_bytes workspace = first.workspace_for(p), far_workspace = second.workspace_for(q);
    CHECK(multiply(first.gpu, p, s, far_b.data(), near_c.data(), workspace.data()) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(message_has("B points at memory of CUDA device 1; the handle's device is CUDA 0"));
    CHECK(multiply(first.gpu, p, s, near_b.data(), far_c.data(), workspace.data()) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(multiply(second.gpu, p, s, far_b.data(), far_c.data(), far_workspace.data()) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(message_has("plan was made on CUDA device 0"));
    magicubeSpMMPlan_t made = nullptr;
    const auto far = problem_of(second.device.value, s);
    CHECK(magicubeSpMM_createPlan(first.gpu, &far, nullptr, 0, &made) ==
          MAGICUBE_STATUS_DEVICE_MISMATCH);
    int current = -1;
    CHECK(multiply(second.gpu, q, s, far_b.data(), far_c.data(), far_workspace.data()) ==
          MAGICUBE_STATUS_SUCCESS);
    CHECK(far_c.read<int32_t>(second.gpu) == second.expected(b, s));
    CHECK(multiply(first.gpu, p, s, near_b.data(), near_c.data(), workspace.data()) ==
          MAGICUBE_STATUS_SUCCESS);
    CHECK(near_c.read<int32_t>(first.gpu) == first.expected(b, s));
    REQUIRE(cudaGetDevice(&current) == cudaSuccess);
    CHECK(current == 0);
}
