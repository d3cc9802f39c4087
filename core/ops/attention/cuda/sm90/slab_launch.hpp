// SPDX-License-Identifier: Apache-2.0
// What the slab kernels of attention are told, their instances, and their launches.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "core/common/divisor.hpp"
#include "core/ops/attention/cuda/arguments.hpp"
#include "core/ops/spmm/cuda/sm90/slab_format.hpp"

namespace magicube::attention::sm90 {

using spmm::sm90::slab_geometry;
using spmm::sm90::slab_part;

constexpr int warp_bundles = 2;  // of 8 queries each
constexpr float log2_e = 1.44269504f;

// A slab that some bundle of a group gathers from, and its part.
struct slab_visit {
    uint32_t begin;   // of the part, in units of 16 bytes
    uint16_t length;  // the same
    uint16_t slab;    // no_slab after a group's last
};
constexpr uint16_t no_slab = 0xffff;
// The producer reads so many entries past a group's last.
constexpr int visits_read_ahead = 2;

// A tile is one group of bundles of one query head.
struct slab_arguments {
    cuda::kernel_arguments call;
    slab_geometry geometry;
    const slab_visit* visits;    // geometry.slabs + visits_read_ahead a group
    const uint8_t* records;      // row numbers alone
    const int32_t* bundle_rows;  // the first query of each list of keys, -1 for none
    // Of K's rows times the softmax scale and log2(e), by head of K, slabs * slab_rows each; null
    // for floating types.
    const float* key_scales;
    divisor groups;  // of a pattern
    divisor heads;   // of Q
    divisor heads_a_kv_head;
    uint32_t tiles;
    bool shared_keys;  // a warp's bundles are 16 queries with one list of keys
    bool paired_out;   // the output is of 16 bits, and two elements may be stored at once
    float first_log2;  // integers: the exponent of 2 that the first keys' highest score gets
};

struct slab_instance {
    dtype type;
    int32_t dim;
    cudaError_t (*load)();  // and let it have its shared memory
    cudaError_t (*launch)(const CUtensorMap& k, const CUtensorMap& v, const slab_arguments&,
                          int ctas, cudaStream_t);
};

// The instances, one row each: MAGICUBE_ATTENTION_SLAB(type, dim). slab_*.cu compile them,
// slab_plan.cu picks one.
#define MAGICUBE_ATTENTION_SLABS(ROW) \
    ROW(int8, 64)                     \
    ROW(int8, 128)                    \
    ROW(fp16, 64)                     \
    ROW(bf16, 64)

#define MAGICUBE_ATTENTION_SLAB(TYPE, DIM) extern const slab_instance slab_##TYPE##_##DIM;
MAGICUBE_ATTENTION_SLABS(MAGICUBE_ATTENTION_SLAB)
#undef MAGICUBE_ATTENTION_SLAB

}  // namespace magicube::attention::sm90
