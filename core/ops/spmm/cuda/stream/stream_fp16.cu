// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cuda/stream/stream_kernel.cuh"

namespace magicube::spmm::stream {

MAGICUBE_DEFINE_STREAMS(fp16)

}  // namespace magicube::spmm::stream
