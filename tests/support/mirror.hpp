// SPDX-License-Identifier: Apache-2.0
// Arrays as a context's device sees them: the host's own on the CPU, copies on a GPU.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "core/device/device.hpp"

namespace support {

class mirror {
  public:
    explicit mirror(const magicube::context& ctx) : ctx_(ctx) {}
    ~mirror() {
        for (const auto& [host, copy] : copies_) {
            magicube::deallocate(ctx_.device, ctx_.ordinal, copy.first);
        }
    }
    mirror(const mirror&) = delete;
    mirror& operator=(const mirror&) = delete;

    // The device's address of a host array, whose bytes are copied on the first call.
    template <class T>
    T* put(T* host, size_t bytes) {
        return static_cast<T*>(put_bytes(host, bytes));
    }

    // Brings an array back to the host once the stream's work is done.
    void fetch(void* host) {
        const auto copy = copies_.find(host);
        if (copy == copies_.end()) return;
        magicube::copy_memory(ctx_, host, copy->second.first, copy->second.second);
        magicube::synchronize(ctx_);
    }

  private:
    void* put_bytes(const void* host, size_t bytes) {
        if (ctx_.on_cpu() || host == nullptr || bytes == 0) return const_cast<void*>(host);
        auto& copy = copies_[host];
        if (copy.first == nullptr) {
            copy = {magicube::allocate(ctx_.device, ctx_.ordinal, bytes), bytes};
            magicube::copy_memory(ctx_, copy.first, host, bytes);
            magicube::synchronize(ctx_);
        }
        return copy.first;
    }

    const magicube::context& ctx_;
    std::map<const void*, std::pair<void*, size_t>> copies_;
};

}  // namespace support
