// SPDX-License-Identifier: Apache-2.0
// NVTX behind two functions, so that its headers stay in one file.
#pragma once

namespace magicube::cuda {

void begin_range(const char* name) noexcept;
void end_range() noexcept;

}  // namespace magicube::cuda
