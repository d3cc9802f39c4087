// SPDX-License-Identifier: Apache-2.0

#include "magicube/handle.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "magicube/memory.h"
#include "support/capi.hpp"

using support::message_has;

TEST_CASE("a CPU handle keeps its settings") {
    magicubeHandle_t handle = nullptr;
    REQUIRE(magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0) == MAGICUBE_STATUS_SUCCESS);
    magicubeDevice_t device{};
    int32_t number = -1;
    CHECK(magicubeGetDevice(handle, &device, &number) == MAGICUBE_STATUS_SUCCESS);
    CHECK(device == MAGICUBE_DEVICE_CPU);
    CHECK(number == 0);

    magicubePointerMode_t mode = MAGICUBE_POINTER_MODE_DEVICE;
    CHECK(magicubeGetPointerMode(handle, &mode) == MAGICUBE_STATUS_SUCCESS);
    CHECK(mode == MAGICUBE_POINTER_MODE_HOST);
    CHECK(magicubeSetPointerMode(handle, MAGICUBE_POINTER_MODE_DEVICE) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeGetPointerMode(handle, &mode) == MAGICUBE_STATUS_SUCCESS);
    CHECK(mode == MAGICUBE_POINTER_MODE_DEVICE);

    CHECK(magicubeSetDeterministic(handle, 1) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeGetDeterministic(handle, &number) == MAGICUBE_STATUS_SUCCESS);
    CHECK(number == 1);
    CHECK(magicubeSetNumThreads(handle, 3) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeGetNumThreads(handle, &number) == MAGICUBE_STATUS_SUCCESS);
    CHECK(number == 3);

    magicubeValidation_t level = MAGICUBE_VALIDATION_BASIC;
    CHECK(magicubeGetValidation(handle, &level) == MAGICUBE_STATUS_SUCCESS);
    CHECK(level == MAGICUBE_VALIDATION_FULL);
    CHECK(magicubeSetValidation(handle, MAGICUBE_VALIDATION_BASIC) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeGetValidation(handle, &level) == MAGICUBE_STATUS_SUCCESS);
    CHECK(level == MAGICUBE_VALIDATION_BASIC);

    CUstream_st* stream = reinterpret_cast<CUstream_st*>(16);
    CHECK(magicubeGetStream(handle, &stream) == MAGICUBE_STATUS_SUCCESS);
    CHECK(stream == nullptr);
    CHECK(magicubeSynchronize(handle) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeDestroy(handle) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeDestroy(nullptr) == MAGICUBE_STATUS_SUCCESS);
}

TEST_CASE("bad settings name the argument, its value and the rule") {
    magicubeHandle_t handle = nullptr;
    REQUIRE(magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeSetNumThreads(handle, -1) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("magicubeSetNumThreads: count is -1; it must be at least 0"));
    CHECK(magicubeSetDeterministic(handle, 2) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("enabled is 2; it must be 0 or 1"));
    CHECK(magicubeSetPointerMode(handle, static_cast<magicubePointerMode_t>(7)) ==
          MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("mode is 7; it must be a magicubePointerMode_t"));
    CHECK(magicubeSetValidation(handle, static_cast<magicubeValidation_t>(9)) ==
          MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(magicubeSetStream(handle, reinterpret_cast<CUstream_st*>(16)) ==
          MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("a CPU handle has no stream"));
    CHECK(magicubeSetStream(handle, nullptr) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeGetStream(handle, nullptr) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("stream is null"));
    CHECK(magicubeSynchronize(nullptr) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("magicubeSynchronize: handle is null; it is required"));
    magicubeDestroy(handle);
}

TEST_CASE("devices that do not exist give a plain sentence") {
    magicubeHandle_t handle = reinterpret_cast<magicubeHandle_t>(16);
    CHECK(magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 1) == MAGICUBE_STATUS_NO_DEVICE);
    CHECK(message_has("ordinal is 1; it must be in [0, 1) for CPU devices"));
    CHECK(handle == nullptr);
    CHECK(magicubeCreate(&handle, static_cast<magicubeDevice_t>(0), 0) ==
          MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("device is 0; it must be a magicubeDevice_t"));
    CHECK(magicubeCreate(nullptr, MAGICUBE_DEVICE_CPU, 0) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("handle is null"));
}

TEST_CASE("issue_01_a_cuda_handle_without_a_gpu_gives_no_device") {
    int32_t count = -1;
    REQUIRE(magicubeGetDeviceCount(MAGICUBE_DEVICE_CUDA, &count) == MAGICUBE_STATUS_SUCCESS);
    if (count > 0) return;  // the GPU suite covers machines with one
    magicubeHandle_t handle = nullptr;
    CHECK(magicubeCreate(&handle, MAGICUBE_DEVICE_CUDA, 0) == MAGICUBE_STATUS_NO_DEVICE);
    CHECK(message_has("there is no CUDA device: "));
    void* pointer = nullptr;
    CHECK(magicubeMalloc(MAGICUBE_DEVICE_CUDA, 0, 16, &pointer) == MAGICUBE_STATUS_NO_DEVICE);
    magicubeDeviceInfo_t info = MAGICUBE_DEVICE_INFO_INIT;
    CHECK(magicubeGetDeviceInfo(MAGICUBE_DEVICE_CUDA, 0, &info) == MAGICUBE_STATUS_NO_DEVICE);
    CUstream_st* stream = nullptr;
    CHECK(magicubeStreamCreate(MAGICUBE_DEVICE_CUDA, 0, &stream) == MAGICUBE_STATUS_NO_DEVICE);
}

TEST_CASE("the CPU describes itself") {
    magicubeDeviceInfo_t info = MAGICUBE_DEVICE_INFO_INIT;
    REQUIRE(magicubeGetDeviceInfo(MAGICUBE_DEVICE_CPU, 0, &info) == MAGICUBE_STATUS_SUCCESS);
    CHECK(std::string(info.name) != "");
    CHECK(info.multiprocessors >= 1);
    CHECK(info.memory_bytes > (int64_t{1} << 26));
    CHECK(info.supported == 1);
    for (size_t size : {size_t{0}, size_t{4}, size_t{12}, sizeof(info) - 1, size_t{1} << 40}) {
        info.struct_size = size;
        CHECK(magicubeGetDeviceInfo(MAGICUBE_DEVICE_CPU, 0, &info) ==
              MAGICUBE_STATUS_INVALID_VALUE);
        CHECK(message_has("info->struct_size is " + std::to_string(size)));
    }
    // A caller of an older version, which knew only the name, gets only that.
    magicubeDeviceInfo_t old = MAGICUBE_DEVICE_INFO_INIT;
    old.struct_size = offsetof(magicubeDeviceInfo_t, compute_capability);
    old.multiprocessors = -5;
    CHECK(magicubeGetDeviceInfo(MAGICUBE_DEVICE_CPU, 0, &old) == MAGICUBE_STATUS_SUCCESS);
    CHECK(std::string(old.name) != "");
    CHECK(old.multiprocessors == -5);
}

TEST_CASE("issue_08_exit_with_live_handles_is_clean") {
    std::fflush(stdout);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        static magicubeHandle_t handle = nullptr;  // never destroyed, and reachable: no leak
        static magicubeHandle_t other = nullptr;
        if (magicubeCreate(&handle, MAGICUBE_DEVICE_CPU, 0) != MAGICUBE_STATUS_SUCCESS) _exit(1);
        std::thread([] { magicubeCreate(&other, MAGICUBE_DEVICE_CPU, 0); }).join();
        // Calls may fail before and while the process ends.
        magicubeSynchronize(nullptr);
        std::atexit([] {
            if (magicubeSynchronize(nullptr) != MAGICUBE_STATUS_INVALID_VALUE) _exit(3);
        });
        std::exit(0);
    }
    int state = -1;
    REQUIRE(waitpid(child, &state, 0) == child);
    CHECK(WIFEXITED(state));
    CHECK(WEXITSTATUS(state) == 0);
}

TEST_CASE("the last message belongs to its thread") {
    REQUIRE(magicubeSynchronize(nullptr) == MAGICUBE_STATUS_INVALID_VALUE);
    const std::string mine = magicubeGetLastErrorMessage();
    std::thread([] {
        CHECK(std::string(magicubeGetLastErrorMessage()).empty());
        CHECK(magicubeSetNumThreads(nullptr, 1) == MAGICUBE_STATUS_INVALID_VALUE);
        CHECK(message_has("magicubeSetNumThreads"));
    }).join();
    CHECK(mine == magicubeGetLastErrorMessage());
    // A later success leaves it alone.
    int32_t count = 0;
    CHECK(magicubeGetDeviceCount(MAGICUBE_DEVICE_CPU, &count) == MAGICUBE_STATUS_SUCCESS);
    CHECK(mine == magicubeGetLastErrorMessage());
}
