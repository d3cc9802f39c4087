// SPDX-License-Identifier: Apache-2.0
#include "core/ops/plan_buffer.hpp"

#include <utility>

#include "core/common/log.hpp"
#include "core/common/pointers.hpp"
#include "core/device/device.hpp"

namespace magicube {

plan_buffer::plan_buffer(const context& ctx, void* given, size_t given_size, int64_t needed)
    : device_(ctx.device),
      ordinal_(ctx.ordinal),
      data_(static_cast<char*>(given)),
      owned_(given == nullptr) {
    if (owned_) {
        data_ = static_cast<char*>(allocate(device_, ordinal_, static_cast<size_t>(needed)));
    } else {
        require_workspace(given, given_size, static_cast<size_t>(needed), buffer_alignment,
                          "plan_buffer");
        if (needed > 0) require_reachable(ctx, given, "plan_buffer");
    }
}

plan_buffer::plan_buffer(plan_buffer&& other) noexcept
    : device_(other.device_),
      ordinal_(other.ordinal_),
      data_(std::exchange(other.data_, nullptr)),
      owned_(other.owned_) {}

plan_buffer::~plan_buffer() {
    if (!owned_ || !data_) return;
    try {
        deallocate(device_, ordinal_, data_);
    } catch (const std::exception& e) {
        // A destructor has nobody to report to.
        log::message(log::level::error, "a plan's buffer could not be freed: ", e.what());
    }
}

}  // namespace magicube
