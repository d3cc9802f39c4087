// SPDX-License-Identifier: Apache-2.0
// What the GPU suites share: a CUDA handle, and device memory that mirrors host bytes.
#pragma once

#include <doctest/doctest.h>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "magicube/magicube.h"
#include "support/capi.hpp"

namespace support {

struct cuda_handle {
    magicubeHandle_t value = nullptr;
    explicit cuda_handle(int32_t ordinal = 0) {
        REQUIRE(magicubeCreate(&value, MAGICUBE_DEVICE_CUDA, ordinal) == MAGICUBE_STATUS_SUCCESS);
    }
    ~cuda_handle() { magicubeDestroy(value); }
    cuda_handle(const cuda_handle&) = delete;
    cuda_handle& operator=(const cuda_handle&) = delete;
    operator magicubeHandle_t() const { return value; }
};

// Memory of a handle's device that starts as a copy of host bytes and can be written and read back.
class device_bytes {
  public:
    // Its bytes are unknown.
    device_bytes(magicubeHandle_t handle, size_t bytes) : size_(bytes) {
        magicubeDevice_t device{};
        REQUIRE(magicubeGetDevice(handle, &device, &ordinal_) == MAGICUBE_STATUS_SUCCESS);
        REQUIRE(magicubeMalloc(MAGICUBE_DEVICE_CUDA, ordinal_, bytes, &data_) ==
                MAGICUBE_STATUS_SUCCESS);
    }
    device_bytes(magicubeHandle_t handle, const void* host, size_t bytes)
        : device_bytes(handle, bytes) {
        write(handle, host);
    }
    template <class T>
    device_bytes(magicubeHandle_t handle, const std::vector<T>& host)
        : device_bytes(handle, host.data(), host.size() * sizeof(T)) {}
    ~device_bytes() { magicubeFree(MAGICUBE_DEVICE_CUDA, ordinal_, data_); }
    device_bytes(const device_bytes&) = delete;
    device_bytes& operator=(const device_bytes&) = delete;

    void* data() const { return data_; }
    size_t size() const { return size_; }
    void write(magicubeHandle_t handle, const void* host) {
        REQUIRE(magicubeMemcpy(handle, data_, host, size_) == MAGICUBE_STATUS_SUCCESS);
        REQUIRE(magicubeSynchronize(handle) == MAGICUBE_STATUS_SUCCESS);
    }
    template <class T>
    std::vector<T> read(magicubeHandle_t handle) const {
        std::vector<T> host(size_ / sizeof(T));
        REQUIRE(magicubeMemcpy(handle, host.data(), data_, size_) == MAGICUBE_STATUS_SUCCESS);
        REQUIRE(magicubeSynchronize(handle) == MAGICUBE_STATUS_SUCCESS);
        return host;
    }

  private:
    int32_t ordinal_ = 0;
    void* data_ = nullptr;
    size_t size_;
};

inline std::vector<unsigned char> random_bytes(size_t count, std::mt19937& random) {
    std::vector<unsigned char> bytes(count);
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
    return bytes;
}

}  // namespace support
