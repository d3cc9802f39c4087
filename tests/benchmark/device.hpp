// SPDX-License-Identifier: Apache-2.0
// The GPU, its memory and the CPU that checks it, through the library's own C ABI.
#pragma once

#include <string>
#include <utility>

#include "common.hpp"
#include "data.hpp"
#include "magicube/magicube.h"

namespace bench {

// Handles on GPU 0 and on the CPU; the GPU's works on a stream of its own.
class session {
  public:
    session();
    ~session();
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    magicubeHandle_t gpu = nullptr, cpu = nullptr;
    cudaStream_t stream = nullptr;

    std::string name;    // of the GPU
    int capability = 0;  // 10 * major + minor
    int multiprocessors = 0;
    int64_t cache_bytes = 0;  // of the L2 cache
    double bytes_per_us = 0;  // read and written by a large copy on the device, measured

    void synchronize() const { check(magicubeSynchronize(gpu), "magicubeSynchronize"); }
};

// Memory of the GPU.
class device_array {
  public:
    device_array() = default;
    explicit device_array(int64_t bytes);
    device_array(device_array&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    device_array& operator=(device_array&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~device_array();

    void* data() const { return data_; }
    int64_t bytes() const { return bytes_; }

  private:
    void* data_ = nullptr;
    int64_t bytes_ = 0;
};

// A copy of host memory, or of another array; both wait until it is there.
device_array upload(const session& s, const void* host, int64_t bytes);
device_array duplicate(const session& s, const device_array& source);

template <class Element>
device_array upload(const session& s, const std::vector<Element>& host) {
    return upload(s, host.data(), static_cast<int64_t>(host.size() * sizeof(Element)));
}

byte_vector download(const session& s, const device_array& source);

// How many copies of something of these bytes must be used in turn so that the L2 cache holds none.
int cold_copies(bool cold, int64_t bytes);

}  // namespace bench
