// SPDX-License-Identifier: Apache-2.0
#include "magicube/memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "support/capi.hpp"

using support::cpu_handle;
using support::message_has;

TEST_CASE("memory is allocated aligned, set, copied and freed") {
    cpu_handle handle;
    void* a = nullptr;
    void* b = nullptr;
    REQUIRE(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, 1001, &a) == MAGICUBE_STATUS_SUCCESS);
    REQUIRE(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, 1001, &b) == MAGICUBE_STATUS_SUCCESS);
    CHECK(reinterpret_cast<uintptr_t>(a) % 256 == 0);
    CHECK(magicubeMemset(handle, a, 0xC3, 1001) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeMemcpy(handle, b, a, 1001) == MAGICUBE_STATUS_SUCCESS);
    CHECK(static_cast<unsigned char*>(b)[0] == 0xC3);
    CHECK(static_cast<unsigned char*>(b)[1000] == 0xC3);
    CHECK(magicubeFree(MAGICUBE_DEVICE_CPU, 0, a) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeFree(MAGICUBE_DEVICE_CPU, 0, b) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeFree(MAGICUBE_DEVICE_CPU, 0, nullptr) == MAGICUBE_STATUS_SUCCESS);
}

TEST_CASE("nothing is allocated for no bytes, and too many are refused") {
    void* pointer = reinterpret_cast<void*>(16);
    CHECK(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, 0, &pointer) == MAGICUBE_STATUS_SUCCESS);
    CHECK(pointer == nullptr);
    CHECK(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, SIZE_MAX - 5, &pointer) ==
          MAGICUBE_STATUS_ALLOC_FAILED);
    CHECK(message_has("bytes is 18446744073709551610"));
    CHECK(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, 1, nullptr) == MAGICUBE_STATUS_INVALID_VALUE);
}

TEST_CASE("bad copies and sets are refused") {
    cpu_handle handle;
    char bytes[16] = {};
    CHECK(magicubeMemcpy(handle, nullptr, bytes, 4) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("destination is null"));
    CHECK(magicubeMemcpy(handle, bytes, nullptr, 4) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(magicubeMemcpy(handle, nullptr, nullptr, 0) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeMemcpy(handle, bytes + 2, bytes, 4) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("overlap"));
    CHECK(magicubeMemcpy(handle, bytes + 2, bytes, SIZE_MAX) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(magicubeMemcpy(handle, bytes + 2, bytes, SIZE_MAX - 1) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(magicubeMemset(handle, bytes, 256, 4) == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(message_has("value is 256; it must be in [0, 255]"));
}

TEST_CASE("the CPU has no streams") {
    CUstream_st* stream = nullptr;
    CHECK(magicubeStreamCreate(MAGICUBE_DEVICE_CPU, 0, &stream) == MAGICUBE_STATUS_NOT_SUPPORTED);
    CHECK(magicubeStreamDestroy(MAGICUBE_DEVICE_CPU, 0, nullptr) == MAGICUBE_STATUS_NOT_SUPPORTED);
}
