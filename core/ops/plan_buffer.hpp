// SPDX-License-Identifier: Apache-2.0
// The memory that a plan keeps until it is destroyed: given by the caller, or allocated and owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/common/checked.hpp"
#include "core/device/context.hpp"

namespace magicube {

// Of the addresses of plan buffers and workspaces, and of the sections inside them.
constexpr int64_t buffer_alignment = 256;

// What a plan and one of its executions need.
struct buffer_needs {
    int64_t plan_bytes = 0;
    int64_t workspace_bytes = 0;
};

// Divides a buffer into aligned sections: first each is reserved, then found by its offset.
class buffer_layout {
  public:
    int64_t reserve(int64_t count, int64_t element_bytes, const char* what) {
        const int64_t offset = bytes_;
        const int64_t end = checked_add(offset, checked_mul(count, element_bytes, what), what);
        bytes_ = checked_add(end, buffer_alignment - 1, what) / buffer_alignment * buffer_alignment;
        return offset;
    }
    int64_t bytes() const { return bytes_; }

  private:
    int64_t bytes_ = 0;
};

class plan_buffer {
  public:
    // given null: the plan allocates.
    plan_buffer(const context& ctx, void* given, size_t given_size, int64_t needed);
    plan_buffer(plan_buffer&& other) noexcept;
    plan_buffer& operator=(plan_buffer&&) = delete;
    ~plan_buffer();

    char* data() const { return data_; }
    bool owned() const { return owned_; }

  private:
    device_kind device_;
    int ordinal_;
    char* data_;
    bool owned_;
};

// What every plan is made from, whatever the operation.
struct plan_resources {
    const char* implementation;
    std::string reasons;
    buffer_needs needs;
    plan_buffer buffer;
};

}  // namespace magicube
