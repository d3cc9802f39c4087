// SPDX-License-Identifier: Apache-2.0
// The instances of the stream kernel and their launches.
#pragma once

#include <cuda_runtime.h>

#include "core/ops/spmm/cuda/store_arguments.hpp"
#include "core/ops/spmm/cuda/stream/stream_format.hpp"

namespace magicube::spmm::stream {

// How the kernel reads B, by what is contiguous in it.
enum class b_path : int { rows, columns, elements };

struct b_source {
    const uint8_t* data;
    b_path path;
    int vector_bytes;  // of one read along a row
    bool int4;
    int64_t row_stride;  // elements, as all strides
    int64_t col_stride;
    int64_t batch_stride;
    int64_t rows;
    int32_t cols;
};

// The records of a CTA's first unit of work. They come with the launch where there are few CTAs, so
// that the first reads of A wait for no other.
struct first_run {
    uint32_t begin, end;
};
constexpr int most_first_runs = 192;

struct stream_arguments {
    const uint8_t* values;
    const uint8_t* indices;
    const entry* entries;
    int64_t ctas_apart;  // between neighbours in the batch; 0: one A for all
    uint32_t bundles;    // of one matrix
    int32_t tiles_a_cta;
    int32_t tile_bundles;
    int32_t segments;
    int32_t segment_rows;
    bool fixed_values;        // no kernel before this one writes them
    bool overlaps;            // may start while the kernel before ends: its code waits (sm_90)
    int32_t first_run_count;  // 0: only the entries tell
    b_source b;
    cuda::store_arguments store;
    first_run first_runs[most_first_runs];
};

int64_t shared_bytes(operand_kind kind, int chunks, int64_t segment_rows);

struct stream_kernel_info {
    cudaError_t code;
    int32_t architecture;  // that its code was compiled for
};

struct stream_instance {
    // Loads the kernel and lets it have so much shared memory, the same in all calls for a device.
    stream_kernel_info (*load)(int shared_bytes);
    cudaError_t (*launch)(const stream_arguments&, dim3 grid, cudaStream_t);
};

// KINDS(ROW) has a row for each kind of operands; each is compiled for 1, 2 and 4 chunks of 16
// columns.
#define MAGICUBE_STREAM_KINDS(ROW) ROW(s4) ROW(s8) ROW(u8) ROW(s8u8) ROW(e4m3) ROW(fp16) ROW(bf16)

#define MAGICUBE_STREAM(KIND) \
    extern const stream_instance stream_##KIND##_1, stream_##KIND##_2, stream_##KIND##_4;
MAGICUBE_STREAM_KINDS(MAGICUBE_STREAM)
#undef MAGICUBE_STREAM

}  // namespace magicube::spmm::stream
