// SPDX-License-Identifier: Apache-2.0
// SpMM whose values of A come with each call, on a GPU through the C ABI: capture, and replay with
// others at the same address, aligned or not.
#include <cuda_runtime.h>

#include <algorithm>
#include <memory>

#include "gpu/spmm_both.hpp"

using support::both;
using support::device_bytes;
using support::plan;
using support::product_shape;

namespace {

magicubeStatus_t multiply_values(const both& x, const plan& p, const product_shape& s,
                                 const void* values, const void* b, void* c, void* workspace) {
    magicubeConstDnMatDescr_t B = nullptr;
    magicubeDnMatDescr_t C = nullptr;
    REQUIRE(magicubeCreateConstDnMat(&B, s.k, s.n, s.n, b, MAGICUBE_INT8, MAGICUBE_ORDER_ROW) ==
            MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeCreateDnMat(&C, s.m, s.n, s.n, c, MAGICUBE_INT32, MAGICUBE_ORDER_ROW) ==
            MAGICUBE_STATUS_SUCCESS);
    magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
    args.a_values = values;
    const auto status =
        magicubeSpMM(x.gpu, p.value, nullptr, B, nullptr, C, &args, workspace, p.workspace_bytes);
    magicubeDestroyDnMat(B);
    magicubeDestroyDnMat(C);
    return status;
}

void capture_and_replay(both& x, CUstream_st* stream, size_t shift) {
    const auto s = x.shape(200);
    const auto per_call = [](magicubeSpMMProblem_t& p) { p.value_mode = MAGICUBE_VALUES_PER_CALL; };
    x.each_implementation(s, per_call, [&](const char*, const plan& p) {
        const auto b = x.make_b(s);
        std::vector<unsigned char> shifted(x.a.values.size() + shift);
        device_bytes device_b(x.gpu, b), values(x.gpu, shifted);
        const device_bytes c = x.poisoned_c(s), workspace = x.workspace_for(p);
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        auto ended = std::make_unique<device_bytes>(x.gpu, b);
        REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
        ended.reset();  // as a garbage collector may
        CHECK(multiply_values(x, p, s, static_cast<const char*>(values.data()) + shift,
                              device_b.data(), c.data(),
                              workspace.data()) == MAGICUBE_STATUS_SUCCESS);
        REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
        REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
        for (int replay = 0; replay < 3; ++replay) {
            // In place: the host's descriptor points there.
            const auto fresh = support::random_bytes(x.a.values.size(), x.random);
            std::copy(fresh.begin(), fresh.end(), x.a.values.begin());
            std::copy(fresh.begin(), fresh.end(), shifted.begin() + static_cast<long>(shift));
            values.write(x.gpu, shifted.data());
            REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
            CHECK(c.read<int32_t>(x.gpu) == x.expected(b, s));
        }
        cudaGraphExecDestroy(executable);
        cudaGraphDestroy(graph);
    });
}

}  // namespace

TEST_CASE("issue_07 a captured product with values of the call replays with others") {
    both x(300, 500, 0.15, 21);
    CUstream_st* stream = nullptr;
    REQUIRE(magicubeStreamCreate(MAGICUBE_DEVICE_CUDA, 0, &stream) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeSetStream(x.gpu, stream) == MAGICUBE_STATUS_SUCCESS);
    for (const size_t shift : {0, 1}) capture_and_replay(x, stream, shift);
    REQUIRE(magicubeSetStream(x.gpu, nullptr) == MAGICUBE_STATUS_SUCCESS);
    magicubeStreamDestroy(MAGICUBE_DEVICE_CUDA, 0, stream);
}
