// SPDX-License-Identifier: Apache-2.0
// Named ranges of host time that profilers show (NVTX). Without a profiler attached, two branches;
// in a build without NVTX's headers, nothing.
#pragma once

#include "core/device/cuda/nvtx.hpp"

namespace magicube {

class profile_range {
  public:
    explicit profile_range(const char* name) noexcept { cuda::begin_range(name); }
    ~profile_range() { cuda::end_range(); }
    profile_range(const profile_range&) = delete;
    profile_range& operator=(const profile_range&) = delete;
};

}  // namespace magicube
