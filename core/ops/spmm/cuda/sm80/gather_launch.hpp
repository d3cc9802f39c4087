// SPDX-License-Identifier: Apache-2.0
// What the kernels of the gather family are told, their instances, and their launches.
#pragma once

#include <cuda_runtime.h>

#include "core/ops/spmm/cuda/store_arguments.hpp"

namespace magicube::spmm::sm80 {

// Steps after which 32-bit sums are added to 64-bit ones: 1024 steps of 32 slots are 32,768
// products, which also two cross products s8 x u8 in one accumulator may sum (32,896).
constexpr int fold_steps = 1024;
constexpr int64_t longest_sum = int64_t{fold_steps} * 32;

struct gather_arguments {
    // A. Values of 4 bits have been unpacked unless the kernel computes with 4 bits.
    sr_bcrs_view a;
    int32_t blocks;        // block rows of a bundle: 8 / V, at least 1
    int32_t parts;         // bundles of a block row: V / (8 * Sets), at least 1
    int32_t stride_shift;  // log2 of A's stride
    bool copied;           // values may be copied 16 bytes at a time
    int64_t bundles;       // of a matrix
    int64_t bundle_groups;
    // B: rows of `row_bytes` bytes, `pitch` bytes apart, matrices `apart` bytes apart. fp32 goes by
    // strides.
    const uint8_t* b;
    int64_t pitch;
    int64_t apart;
    int64_t row_bytes;
    int64_t col_pitch;
    bool aligned;  // 16 bytes of a row can be loaded at once
    int64_t column_tiles;
    int64_t tiles;
    int64_t* totals;  // 64-bit sums of the resident warps; null if no row is that long
    cuda::store_arguments store;
};

// How a kernel divides its work.
struct gather_shape {
    int32_t warps;  // of a CTA; each computes a bundle, 8 * sets rows, of a tile of columns
    int32_t sets;
    int32_t tile_columns;
    int32_t sums;  // of a lane
};

struct gather_kernel_info {
    cudaError_t code;
    int32_t architecture;  // that its code was compiled for
    int32_t ctas;          // that a multiprocessor holds
};

struct gather_instance {
    const char* operands;
    gather_shape shape;
    gather_kernel_info (*describe)();
    cudaError_t (*launch)(const gather_arguments&, int64_t ctas, cudaStream_t);
};

// The instances, one row each: MAGICUBE_GATHER(operands, sets). gather_*.cu compile them,
// gather_plan.cu picks one.
//
// operands  s8: signed 8-bit values; u8: unsigned; s16s8, s16s16: byte planes of 16-bit operands;
//           s4: native 4-bit; e4m3, fp16, bf16, fp32
// sets      groups of 8 rows that share a gather
#define MAGICUBE_GATHERS_INT8(ROW) ROW(s8, 1) ROW(s8, 2) ROW(s8, 4) ROW(u8, 1) ROW(u8, 2) ROW(u8, 4)
#define MAGICUBE_GATHERS_INT16(ROW) ROW(s16s8, 1) ROW(s16s8, 2) ROW(s16s16, 1) ROW(s16s16, 2)
#define MAGICUBE_GATHERS_FP16(ROW) ROW(fp16, 1) ROW(fp16, 2) ROW(fp16, 4)
#define MAGICUBE_GATHERS_BF16(ROW) ROW(bf16, 1) ROW(bf16, 2) ROW(bf16, 4)
#define MAGICUBE_GATHERS_E4M3(ROW) ROW(e4m3, 1) ROW(e4m3, 2) ROW(e4m3, 4)
#define MAGICUBE_GATHERS_INT4(ROW) ROW(s4, 1) ROW(s4, 2)
#define MAGICUBE_GATHERS_FP32(ROW) ROW(fp32, 1) ROW(fp32, 2)
#define MAGICUBE_GATHERS(ROW)   \
    MAGICUBE_GATHERS_INT8(ROW)  \
    MAGICUBE_GATHERS_INT16(ROW) \
    MAGICUBE_GATHERS_FP16(ROW)  \
    MAGICUBE_GATHERS_BF16(ROW)  \
    MAGICUBE_GATHERS_E4M3(ROW)  \
    MAGICUBE_GATHERS_INT4(ROW)  \
    MAGICUBE_GATHERS_FP32(ROW)

#define MAGICUBE_GATHER(OPERANDS, SETS) extern const gather_instance gather_##OPERANDS##_##SETS;
MAGICUBE_GATHERS(MAGICUBE_GATHER)
#undef MAGICUBE_GATHER

// Loads what unpack_int4 launches, before that can be captured.
void load_unpack_int4(const context& ctx);

// target[i] = the int4 at index i of each array, as int8. Arrays are `source_stride` elements apart
// (even), targets `count`.
void unpack_int4(const context& ctx, const void* source, int64_t source_stride, int64_t count,
                 int64_t arrays, void* target);

}  // namespace magicube::spmm::sm80
