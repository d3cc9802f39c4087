// SPDX-License-Identifier: Apache-2.0
// How a warp's sums of wgmma, 16 rows by 256 columns, go to C: 32 columns at a time through its own
// part of shared memory, so that lanes get neighbours in C and the code of the epilogue stands
// once.
#pragma once

#include "core/device/cuda/ptx.cuh"
#include "core/ops/spmm/cuda/store.cuh"

namespace magicube::vnm_mm::sm90 {

constexpr int staged_columns = 32;
// Words; no two lanes meet in a bank, neither of those that write nor of those that read.
constexpr int staged_pitch = 40;
constexpr int staged_rows = 16;
constexpr int staged_bytes = staged_rows * staged_pitch * 4;

// Sums 16 * Block and on: lane g * 4 + t has columns 8 i + 2 t and the next of the rows g and g +
// 8.
template <int Block>
__device__ __forceinline__ void stage_block(const float (&sums)[128], float* staged, int lane) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = lane / 4 + i % 2 * 8, column = i / 2 * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(staged + row * staged_pitch + column) =
            make_float2(sums[Block * 16 + i * 2], sums[Block * 16 + i * 2 + 1]);
    }
}

// Registers have no indices, so each block has its own code.
__device__ __forceinline__ void stage_block(int block, const float (&sums)[128], float* staged,
                                            int lane) {
    switch (block) {
        case 0:
            return stage_block<0>(sums, staged, lane);
        case 1:
            return stage_block<1>(sums, staged, lane);
        case 2:
            return stage_block<2>(sums, staged, lane);
        case 3:
            return stage_block<3>(sums, staged, lane);
        case 4:
            return stage_block<4>(sums, staged, lane);
        case 5:
            return stage_block<5>(sums, staged, lane);
        case 6:
            return stage_block<6>(sums, staged, lane);
        default:
            return stage_block<7>(sums, staged, lane);
    }
}

// Rows that lie in an aligned, row-major C of 16 bits and a direct epilogue: 16 bytes a lane, four
// lanes a row.
template <class Storage>
__device__ __forceinline__ void store_direct(const spmm::cuda::store_arguments& s, int64_t batch,
                                             int64_t row, int64_t column, float* staged, int lane) {
    const scale_reader b_scale = s.b_scale.at(batch), a_scale = s.a_scale.at(batch);
    const scale_reader bias = s.bias.at(batch);
    const float alpha = s.alpha_pointer ? *s.alpha_pointer : s.alpha;
    const int first = lane % 4 * 8;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int in_block = i * 8 + lane / 4;
        if (row + in_block >= s.rows) return;
        float y[8];
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            // Lanes of odd rows begin with the second half.
            const int half = part ^ (in_block & 1);
            const float4 four = *reinterpret_cast<const float4*>(staged + in_block * staged_pitch +
                                                                 first + half * 4);
            y[part * 4] = four.x, y[part * 4 + 1] = four.y;
            y[part * 4 + 2] = four.z, y[part * 4 + 3] = four.w;
        }
        if (in_block & 1) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const float kept = y[j];
                y[j] = y[j + 4];
                y[j + 4] = kept;
            }
        }
        const float scale = mul_rn(alpha, a_scale[row + in_block]);
        const float addend = fma_rn(0.0f, 0.0f, bias[row + in_block]);
        uint32_t words[4];
#pragma unroll
        for (int j = 0; j < 8; ++j)
            y[j] = fma_rn(mul_rn(scale, b_scale[column + first + j]), y[j], addend);
#pragma unroll
        for (int j = 0; j < 4; ++j)
            words[j] = spmm::cuda::pair_of(Storage(y[2 * j]), Storage(y[2 * j + 1]));
        auto* c = static_cast<Storage*>(s.c) + batch * s.batch_stride +
                  (row + in_block) * s.row_stride + column + first;
        *reinterpret_cast<uint4*>(c) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

// Anything else: squares of two rows by two columns, lanes along whichever is contiguous in C.
template <class Storage>
__device__ __forceinline__ void store_any(const spmm::cuda::store_arguments& s, int64_t batch,
                                          int64_t row, int64_t column, float* staged, int lane) {
    const bool by_rows = s.col_stride == 1;
    const int first_row = (by_rows ? lane / 4 : lane % 8) * 2;
    const int first_column = (by_rows ? lane % 4 : lane / 8) * 2;
    if (row + first_row >= s.rows) return;
    spmm::cuda::store_squares<Storage, staged_columns / 8, 8, float>(
        s, batch, row + first_row, column + first_column, [&](int k, float(&square)[2][2]) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const float2 two = *reinterpret_cast<const float2*>(
                    staged + (first_row + i) * staged_pitch + first_column + k * 8);
                square[i][0] = two.x;
                square[i][1] = two.y;
            }
        });
}

__device__ __forceinline__ uint32_t packed(float first, float second, half) {
    return ptx::pack_fp16(first, second);
}
__device__ __forceinline__ uint32_t packed(float first, float second, bfloat16) {
    return ptx::pack_bf16(first, second);
}

// Of each four lanes, lane i gets word t of all four as its words 0 .. 3; t is its own number.
__device__ __forceinline__ void exchange(uint32_t (&w)[4], int t) {
    const uint32_t a = __shfl_xor_sync(~0u, t & 1 ? w[0] : w[1], 1);
    const uint32_t b = __shfl_xor_sync(~0u, t & 1 ? w[2] : w[3], 1);
    if (t & 1) {
        w[0] = a, w[2] = b;
    } else {
        w[1] = a, w[3] = b;
    }
    const uint32_t c = __shfl_xor_sync(~0u, t & 2 ? w[0] : w[2], 2);
    const uint32_t d = __shfl_xor_sync(~0u, t & 2 ? w[1] : w[3], 2);
    if (t & 2) {
        w[0] = c, w[1] = d;
    } else {
        w[2] = c, w[3] = d;
    }
}

// Straight from registers: all 256 columns lie in an aligned, row-major C of 16 bits, the epilogue
// is direct and has no factors of columns. 16 bytes a lane, four lanes a row.
template <class Storage>
__device__ __forceinline__ void store_whole(const spmm::cuda::store_arguments& s, int64_t batch,
                                            int64_t row, int64_t column, const float (&sums)[128],
                                            int lane) {
    const scale_reader a_scale = s.a_scale.at(batch), bias = s.bias.at(batch);
    const float alpha = s.alpha_pointer ? *s.alpha_pointer : s.alpha;
    const int t = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int64_t i = row + half * 8 + lane / 4;
        const int64_t read = min(i, s.rows - 1);
        const float scale = mul_rn(mul_rn(alpha, a_scale[read]), s.b_scale.absent);
        const float addend = fma_rn(0.0f, 0.0f, bias[read]);
        auto* c =
            static_cast<Storage*>(s.c) + batch * s.batch_stride + i * s.row_stride + column + t * 8;
#pragma unroll
        for (int j = 0; j < 32; j += 4) {
            uint32_t words[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int at = 4 * (j + k) + 2 * half;
                words[k] = packed(fma_rn(scale, sums[at], addend),
                                  fma_rn(scale, sums[at + 1], addend), Storage{});
            }
            exchange(words, t);
            if (i < s.rows)
                *reinterpret_cast<uint4*>(c + j * 8) =
                    make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

// The 16 rows from `row` on and 256 columns from `column` on. Operands are of type Operand.
template <class Operand>
__device__ __forceinline__ void store_sums(const spmm::cuda::store_arguments& s, int64_t batch,
                                           int64_t row, int64_t column, const float (&sums)[128],
                                           float* staged) {
    const int lane = threadIdx.x % 32;
    constexpr dtype operand = std::is_same_v<Operand, half> ? dtype::fp16 : dtype::bf16;
    if (s.type == operand && s.direct && s.aligned && s.col_stride == 1 && !s.b_scale.data &&
        column + 256 <= s.cols)
        return store_whole<Operand>(s, batch, row, column, sums, lane);
#pragma unroll 1
    for (int block = 0; block < 8; ++block, column += staged_columns) {
        if (row >= s.rows || column >= s.cols) return;
        stage_block(block, sums, staged, lane);
        __syncwarp();
        const bool direct =
            s.direct && s.aligned && s.col_stride == 1 && column + staged_columns <= s.cols;
        switch (s.type) {
            case dtype::fp16:
                if (direct) {
                    store_direct<half>(s, batch, row, column, staged, lane);
                } else {
                    store_any<half>(s, batch, row, column, staged, lane);
                }
                break;
            case dtype::bf16:
                if (direct) {
                    store_direct<bfloat16>(s, batch, row, column, staged, lane);
                } else {
                    store_any<bfloat16>(s, batch, row, column, staged, lane);
                }
                break;
            case dtype::int8:
                store_any<int8_t>(s, batch, row, column, staged, lane);
                break;
            default:
                store_any<float>(s, batch, row, column, staged, lane);
                break;
        }
        __syncwarp();
    }
}

}  // namespace magicube::vnm_mm::sm90
