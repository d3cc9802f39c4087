// SPDX-License-Identifier: Apache-2.0
// Magnitude pruning of column vectors.
#pragma once

#include <cstddef>

#include "core/device/context.hpp"
#include "core/types/view.hpp"

namespace magicube {

// Same numbers as magicubePruneNorm_t and magicubePruneScope_t; capi asserts it.
enum class prune_norm : int { l2 = 0, l1 = 1 };
enum class prune_scope : int { matrix = 0, row = 1 };

struct prune_params {
    int32_t vector_length = 8;
    prune_scope scope = prune_scope::matrix;
    prune_norm norm = prune_norm::l2;
    double sparsity = 0.0;
    int64_t keep = -1;  // -1: sparsity counts
};

// Checks params, and returns the bytes of scratch that prune needs.
size_t prune_workspace(const context& ctx, const dense_view& weight, const prune_params& params);

// mask = 1 in the elements of kept vectors, else 0. Arguments are those of prune_workspace; the
// rest is checked here.
void prune(const context& ctx, const dense_view& weight, const prune_params& params,
           const dense_view& mask, void* workspace, size_t workspace_size);

}  // namespace magicube
