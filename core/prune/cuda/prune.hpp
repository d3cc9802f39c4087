// SPDX-License-Identifier: Apache-2.0
// Magnitude pruning on CUDA. Arguments are checked but for where pointers lie.
#pragma once

#include "core/prune/prune.hpp"

namespace magicube::cuda {

// Bytes of scratch, for a matrix that is not empty.
size_t prune_workspace(const dense_view& weight, const prune_params& params);

// Keeps `keep` vectors of every scope. Stream-ordered.
void prune(const context& ctx, const dense_view& weight, const prune_params& params, int64_t keep,
           const dense_view& mask, void* workspace);

}  // namespace magicube::cuda
