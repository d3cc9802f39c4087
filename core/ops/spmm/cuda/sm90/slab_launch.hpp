// SPDX-License-Identifier: Apache-2.0
// Launches of the slab kernel, one function an instance.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "core/ops/spmm/cuda/sm90/slab_format.hpp"
#include "core/ops/spmm/cuda/sm90/slab_instances.hpp"
#include "core/ops/spmm/cuda/store_arguments.hpp"

namespace magicube::spmm::sm90 {

struct slab_arguments {
    const slab_group* groups;
    const uint32_t* offsets;
    const uint8_t* records;
    const int32_t*
        bundle_rows;      // first row of A of each bundle, -1 for none; by group, warp, bundle
    int32_t group_count;  // of one matrix
    int32_t column_tiles;
    int64_t groups_apart;  // between the groups of neighbours in the batch; 0: one pattern for all
    int64_t tiles;
    int32_t b_batched;  // 0: one B serves the batch
    cuda::store_arguments store;
};

using slab_launch = cudaError_t (*)(const CUtensorMap&, const slab_arguments&, int ctas,
                                    cudaStream_t);

#define MAGICUBE_SLAB(OPERANDS, BUNDLES, SETS, PLANES)       \
    cudaError_t launch_slab_##OPERANDS##_##BUNDLES##_##SETS( \
        const CUtensorMap&, const slab_arguments&, int ctas, cudaStream_t);
MAGICUBE_SLABS(MAGICUBE_SLAB)
#undef MAGICUBE_SLAB

}  // namespace magicube::spmm::sm90
