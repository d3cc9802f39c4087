// SPDX-License-Identifier: Apache-2.0
// Memory of the device while a plan is made.
#pragma once

#include <cstdint>
#include <exception>

#include "core/device/device.hpp"

namespace magicube::spmm::cuda {

class scratch {
  public:
    scratch(const context& ctx, int64_t bytes)
        : ordinal_(ctx.ordinal),
          data_(allocate(device_kind::cuda, ordinal_, static_cast<size_t>(bytes))) {}
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    ~scratch() {
        try {
            deallocate(device_kind::cuda, ordinal_, data_);
        } catch (const std::exception&) {
            // Whatever broke the device has been or will be reported by another call.
        }
    }
    // The array that starts so many bytes from the beginning.
    template <class T>
    T* as(int64_t offset = 0) const {
        return reinterpret_cast<T*>(static_cast<char*>(data_) + offset);
    }

  private:
    int ordinal_;
    void* data_;
};

}  // namespace magicube::spmm::cuda
