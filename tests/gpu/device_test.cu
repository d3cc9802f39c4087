// SPDX-License-Identifier: Apache-2.0
// The device layer and the element-wise kernel on a real GPU.
#include <cuda_runtime.h>

#include <doctest/doctest.h>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"

using support::cuda_handle;
using support::device_bytes;
using support::message_has;
using support::random_bytes;

namespace {

constexpr magicubeDevice_t cuda = MAGICUBE_DEVICE_CUDA;

struct shape {
    int64_t rows, cols, q_ld, r_ld, batch;
    magicubeOrder_t q_order, r_order;
};

struct dequantize_case {
    shape s;
    magicubeDataType_t q_type, r_type;
    magicubeGranularity_t granularity;
};

// Runs one dequantisation with the given pointers and returns its status.
magicubeStatus_t dequantize(magicubeHandle_t handle, const dequantize_case& c, const void* q,
                            const float* scales, void* r) {
    magicubeConstDnMatDescr_t quantized = nullptr;
    magicubeDnMatDescr_t real = nullptr;
    const shape& s = c.s;
    const auto lines = [&](magicubeOrder_t o) { return o == MAGICUBE_ORDER_ROW ? s.rows : s.cols; };
    REQUIRE(magicubeCreateConstDnMat(&quantized, s.rows, s.cols, s.q_ld, q, c.q_type, s.q_order) ==
            MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeCreateDnMat(&real, s.rows, s.cols, s.r_ld, r, c.r_type, s.r_order) ==
            MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeDnMatSetStridedBatch(quantized, s.batch, lines(s.q_order) * s.q_ld) ==
            MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeDnMatSetStridedBatch(real, s.batch, lines(s.r_order) * s.r_ld) ==
            MAGICUBE_STATUS_SUCCESS);
    magicubeQuantizeParams_t params = MAGICUBE_QUANTIZE_PARAMS_INIT;
    params.granularity = c.granularity;
    const magicubeStatus_t status = magicubeDequantize(handle, quantized, &params, scales, real);
    magicubeDestroyDnMat(quantized);
    magicubeDestroyDnMat(real);
    return status;
}

}  // namespace

TEST_CASE("the GPU describes itself and this build supports it") {
    int32_t count = 0;
    REQUIRE(magicubeGetDeviceCount(cuda, &count) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(count >= 1);
    magicubeDeviceInfo_t info = MAGICUBE_DEVICE_INFO_INIT;
    REQUIRE(magicubeGetDeviceInfo(cuda, 0, &info) == MAGICUBE_STATUS_SUCCESS);
    CHECK(std::strlen(info.name) > 0);
    CHECK(info.compute_capability >= 80);
    CHECK(info.supported == 1);
    magicubeHandle_t handle = nullptr;
    CHECK(magicubeCreate(&handle, cuda, count) == MAGICUBE_STATUS_NO_DEVICE);
    CHECK(message_has("must be in [0, "));
}

TEST_CASE(
    "issue_02 a GPU that this build holds no code for is refused, naming it and what was built") {
    magicubeDeviceInfo_t info = MAGICUBE_DEVICE_INFO_INIT;
    REQUIRE(magicubeGetDeviceInfo(cuda, 0, &info) == MAGICUBE_STATUS_SUCCESS);
    const std::string build = magicubeGetBuildInfo();
    const auto at = build.find("architectures: ");
    REQUIRE(at != std::string::npos);
    const std::string architectures = build.substr(at + std::strlen("architectures: "));
    magicubeHandle_t handle = nullptr;
    const auto status = magicubeCreate(&handle, cuda, 0);
    if (info.supported) {
        CHECK(status == MAGICUBE_STATUS_SUCCESS);
    } else {
        // So with a library that was built for other architectures alone.
        CHECK(status == MAGICUBE_STATUS_ARCH_MISMATCH);
        CHECK(message_has(info.name));
        CHECK(message_has(("is sm_" + std::to_string(info.compute_capability)).c_str()));
        CHECK(message_has(("was built for " + architectures).c_str()));
    }
    magicubeDestroy(handle);
}

TEST_CASE("memory goes round through a stream") {
    cuda_handle handle;
    CUstream_st* stream = nullptr;
    REQUIRE(magicubeStreamCreate(cuda, 0, &stream) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeSetStream(handle, stream) == MAGICUBE_STATUS_SUCCESS);
    std::mt19937 random(1);
    const auto bytes = random_bytes(100003, random);
    device_bytes memory(handle, bytes);
    CHECK(memory.read<unsigned char>(handle) == bytes);
    REQUIRE(magicubeMemset(handle, memory.data(), 0x5A, 1000) == MAGICUBE_STATUS_SUCCESS);
    const auto changed = memory.read<unsigned char>(handle);
    CHECK(changed[999] == 0x5A);
    CHECK(changed[1000] == bytes[1000]);
    CHECK(magicubeStreamDestroy(cuda, 0, stream) == MAGICUBE_STATUS_SUCCESS);
}

TEST_CASE("too much memory is refused, and the next call works") {
    void* pointer = nullptr;
    CHECK(magicubeMalloc(cuda, 0, size_t{1} << 50, &pointer) == MAGICUBE_STATUS_ALLOC_FAILED);
    CHECK(message_has("bytes is 1125899906842624"));
    CHECK(magicubeMalloc(cuda, 0, 1, &pointer) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeFree(cuda, 0, pointer) == MAGICUBE_STATUS_SUCCESS);
}

TEST_CASE("a host pointer on a CUDA handle is a device mismatch") {
    cuda_handle handle;
    std::vector<unsigned char> host(64);
    CHECK(magicubeMemset(handle, host.data(), 0, 64) == MAGICUBE_STATUS_DEVICE_MISMATCH);
    CHECK(message_has("destination points at host memory"));
}

TEST_CASE("waiting for a stream that is being captured is refused and harms nothing") {
    cuda_handle handle;
    CUstream_st* stream = nullptr;
    REQUIRE(magicubeStreamCreate(cuda, 0, &stream) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeSetStream(handle, stream) == MAGICUBE_STATUS_SUCCESS);
    device_bytes memory(handle, std::vector<unsigned char>(64, 1));
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(magicubeMemset(handle, memory.data(), 7, 64) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeSynchronize(handle) == MAGICUBE_STATUS_CAPTURING);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    CHECK(memory.read<unsigned char>(handle)[0] == 1);
    cudaGraphExec_t executable = nullptr;
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(memory.read<unsigned char>(handle)[63] == 7);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
    magicubeStreamDestroy(cuda, 0, stream);
}

TEST_CASE("dequantisation gives the CPU's bits for every type, order, granularity and batch") {
    cuda_handle gpu;
    support::cpu_handle cpu;
    std::mt19937 random(7);
    const magicubeDataType_t integers[] = {MAGICUBE_INT4,  MAGICUBE_INT8,  MAGICUBE_UINT8,
                                           MAGICUBE_INT12, MAGICUBE_INT16, MAGICUBE_INT32};
    const magicubeDataType_t reals[] = {MAGICUBE_FP32, MAGICUBE_FP16, MAGICUBE_BF16};
    const magicubeOrder_t R = MAGICUBE_ORDER_ROW, C = MAGICUBE_ORDER_COL;
    const shape shapes[] = {{1, 1, 2, 1, 1, R, R},        {3, 257, 258, 260, 2, R, R},
                            {300, 7, 8, 301, 3, R, C},    {65, 129, 66, 130, 1, C, R},
                            {129, 33, 130, 131, 2, C, C}, {70000, 3, 4, 3, 1, R, R},
                            {0, 5, 6, 5, 1, R, R}};
    for (auto q_type : integers)
        for (auto r_type : reals)
            for (int granularity = 1; granularity <= 3; ++granularity)
                for (const shape& s : shapes) {
                    const dequantize_case c{s, q_type, r_type,
                                            static_cast<magicubeGranularity_t>(granularity)};
                    const auto outer = [&](magicubeOrder_t o) { return o == R ? s.rows : s.cols; };
                    const auto q =
                        random_bytes(static_cast<size_t>(s.batch * outer(s.q_order) * s.q_ld *
                                                             magicubeGetDataTypeBits(q_type) / 8 +
                                                         1),
                                     random);
                    std::vector<unsigned char> scales(
                        static_cast<size_t>(s.batch * std::max(s.rows, s.cols) * 4 + 4));
                    for (size_t i = 0; i < scales.size() / 4; ++i) {
                        const float scale = std::ldexp(1.0f + (random() % 1000) / 1000.0f,
                                                       static_cast<int>(random() % 20) - 10);
                        std::memcpy(&scales[4 * i], &scale, 4);
                    }
                    std::vector<unsigned char> expected(
                        static_cast<size_t>(s.batch * outer(s.r_order) * s.r_ld *
                                                magicubeGetDataTypeBits(r_type) / 8 +
                                            16),
                        0xCD);
                    device_bytes device_q(gpu, q), device_scales(gpu, scales);
                    device_bytes device_r(gpu, expected);
                    REQUIRE(dequantize(cpu, c, q.data(),
                                       reinterpret_cast<const float*>(scales.data()),
                                       expected.data()) == MAGICUBE_STATUS_SUCCESS);
                    REQUIRE(dequantize(gpu, c, device_q.data(),
                                       static_cast<const float*>(device_scales.data()),
                                       device_r.data()) == MAGICUBE_STATUS_SUCCESS);
                    REQUIRE(device_r.read<unsigned char>(gpu) == expected);
                }
}
