// SPDX-License-Identifier: Apache-2.0
// NVTX 3 is headers alone: it loads what NVTX_INJECTION64_PATH names, as profilers set it, and is
// otherwise silent.
#include "core/device/cuda/nvtx.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define MAGICUBE_HAS_NVTX
#endif

namespace magicube::cuda {

void begin_range([[maybe_unused]] const char* name) noexcept {
#if defined(MAGICUBE_HAS_NVTX)
    nvtxRangePushA(name);
#endif
}

void end_range() noexcept {
#if defined(MAGICUBE_HAS_NVTX)
    nvtxRangePop();
#endif
}

}  // namespace magicube::cuda
