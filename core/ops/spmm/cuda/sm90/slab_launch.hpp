// SPDX-License-Identifier: Apache-2.0
// Launches of the slab kernel, one function an instance.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "core/common/divisor.hpp"
#include "core/ops/spmm/cuda/sm90/slab_format.hpp"
#include "core/ops/spmm/cuda/sm90/slab_instances.hpp"
#include "core/ops/spmm/cuda/store_arguments.hpp"

namespace magicube::spmm::sm90 {

// How sums reach C.
enum class store_path : int32_t {
    engine,   // through shared memory and the tensor map of C
    warp,     // through shared memory, element by element
    squares,  // straight from the registers, with everything that an epilogue may have
};

// A line is a column tile, of one matrix of the batch if all have one pattern; otherwise it holds
// the batch.
struct slab_arguments {
    slab_geometry geometry;
    tile_order order;
    const slab_part* parts;  // by group and slab
    const uint8_t* records;
    const int32_t*
        bundle_rows;  // first row of A of each bundle, -1 for none; by group, warp, bundle
    divisor groups;   // of all patterns
    divisor groups_a_matrix;
    divisor column_tiles;
    divisor lines;
    divisor ctas;
    bool one_pattern;
    bool b_batched;  // false: one B serves the batch
    store_path store_by;
    cuda::store_arguments store;
};

using slab_load = cudaError_t (*)();
using slab_launch = cudaError_t (*)(const CUtensorMap& b, const CUtensorMap& c,
                                    const slab_arguments&, int ctas, cudaStream_t);

#define MAGICUBE_SLAB(OPERANDS, BUNDLES, SETS, PLANES)       \
    cudaError_t load_slab_##OPERANDS##_##BUNDLES##_##SETS(); \
    cudaError_t launch_slab_##OPERANDS##_##BUNDLES##_##SETS( \
        const CUtensorMap&, const CUtensorMap&, const slab_arguments&, int ctas, cudaStream_t);
MAGICUBE_SLABS(MAGICUBE_SLAB)
#undef MAGICUBE_SLAB

}  // namespace magicube::spmm::sm90
