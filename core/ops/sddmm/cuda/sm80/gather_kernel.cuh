// SPDX-License-Identifier: Apache-2.0
//
// SDDMM on Tensor Cores since sm_80: each warp gathers rows of B's transpose from global memory.
//
// Computes  values[i, j] = epilogue(A[i, :] * B[:, j]) wherever the pattern has an element; padding
//           and absent elements become 0.
// Layout    A and B's transpose in rows along K, padded to 16 bytes; pattern and values in the
//           public layout. In a step, lane (g, t) has slots 4g to 4g + 3 and, of each 8 rows of A,
//           2t and 2t + 1: four neighbouring values of a row are one store, and a row's 32 slots
//           of int32 one line of memory.
// Mapping   a warp takes every ways-th step of 32 slots of a block row, or of 8 * Sets of its rows.
//           The gathered rows are the MMA's A, rows of A its B, so that V = 8 fills it; of V < 8
//           the other columns are 0. Fragments come straight from memory (gather_operands.cuh).
// Shared    none: occupancy hides latency. Architecture sm_80, e4m3 sm_89. Rows on 16 bytes.
// Bound     the gathered rows: slots * bytes of K * ceil(V / (8 * Sets)) from L2, which gives a
//           multiprocessor of Hopper at most 37 bytes a clock; and the output's bytes. int8, V = 8,
//           8192 x 8192, K = 128, 90 %: 107 MB gathered, 12.4 us at 1.77 GHz; 27 MB written, 6 us.
// Source    the vector-sparse format and its row-major strides: Magicube, SC'22.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/ops/cuda/elements.cuh"
#include "core/ops/sddmm/cuda/sm80/gather_launch.hpp"
#include "core/ops/sddmm/cuda/sm80/gather_operands.cuh"

namespace magicube::sddmm::sm80 {

// What a warp computes: a block row, or 8 * Sets of its rows, of one matrix of the batch. Slots
// count from the block row's first.
struct gather_task {
    int64_t batch;
    int64_t row;          // its first of the matrix
    int64_t begin;        // the block row's first slot
    int32_t v0;           // its first row of the block row
    int32_t v_end;        // the block row's rows
    int32_t end, padded;  // slots, and those with padding
    int32_t step;         // its first step's first slot

    __device__ gather_task(const gather_arguments& args, int64_t task, int part_rows) {
        const auto& pattern = args.out.pattern;
        const int64_t way = task % args.ways, part = task / args.ways % args.parts;
        const int64_t rest = task / args.ways / args.parts, block_rows = pattern.block_rows();
        const int64_t block_row = rest % block_rows;
        batch = rest / block_rows;
        row = block_row * pattern.vector_length;
        v0 = static_cast<int32_t>(part) * part_rows;
        v_end = static_cast<int32_t>(min(int64_t{pattern.vector_length}, pattern.rows - row));
        const int64_t index = pattern.block_row_index(pattern.matrix_for(batch), block_row);
        begin = pattern.row_begin[index];
        end = static_cast<int32_t>(pattern.row_end[index] - begin);
        padded = static_cast<int32_t>(round_up(end, pattern.stride));
        step = static_cast<int32_t>(way) * step_slots;
    }
};

__device__ __forceinline__ uint4 load_chunk(const uint8_t* row, bool real) {
    return real ? __ldg(reinterpret_cast<const uint4*>(row)) : make_uint4(0, 0, 0, 0);
}

// The columns of a lane's four slots, -1 where there is none.
__device__ __forceinline__ void load_columns(const gather_arguments& args, const int32_t* row,
                                             const gather_task& at, int32_t slot,
                                             int32_t (&cols)[4]) {
    if (args.quads) {
        int4 c = make_int4(-1, -1, -1, -1);
        if (slot < at.padded) c = __ldg(reinterpret_cast<const int4*>(row + slot));
        cols[0] = c.x, cols[1] = c.y, cols[2] = c.z, cols[3] = c.w;
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) cols[i] = slot + i < at.end ? __ldg(row + slot + i) : -1;
    }
}

// Writes a lane's sums: those of four slots and one row at a time.
class lane_output {
  public:
    __device__ lane_output(const gather_arguments& args, const gather_task& at)
        : args_(args),
          at_(at),
          b_scale_(args.out.b_scale.at(at.batch)),
          reciprocal_(div_rn(1.0f, args.out.out_scale.at(at.batch)[0])) {
        const auto& pattern = args.out.pattern;
        first_ = pattern.value_index(at.batch, at.begin, 0);
    }

    // The factor of a row's sums that does not depend on the column.
    __device__ __forceinline__ float row_factor(int32_t v) const {
        const int64_t row = at_.row + min(v, at_.v_end - 1);
        return mul_rn(args_.out.alpha.get(), args_.out.a_scale.at(at_.batch)[row]);
    }

    template <class Sum>
    __device__ __forceinline__ void store(int32_t slot, int32_t v, float factor,
                                          const int32_t (&cols)[4], const Sum (&sums)[4]) const {
        const int32_t v_count = args_.out.pattern.vector_length;
        const int32_t count = (args_.quads ? at_.padded : at_.end) - slot;
        if (v >= v_count || count <= 0) return;
        // By stride - 1, the bits of a slot's place in its chunk.
        const int32_t inside = slot & (args_.out.pattern.stride - 1);
        const int64_t index =
            first_ + (slot - inside) * v_count + v * args_.out.pattern.stride + inside;
        const int32_t step = args_.quads ? 1 : v_count;
        bool exists[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) exists[i] = slot + i < at_.end && v < at_.v_end;
        if (args_.out.pattern.element_mask) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                exists[i] = exists[i] && args_.out.pattern.exists(at_.begin + slot + i, v);
        }
        if (args_.out.type == dtype::int32) {
            int32_t y[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) y[i] = exists[i] ? static_cast<int32_t>(sums[i]) : 0;
            return store_four(index, step, count, y);
        }
        float y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            // As epilogue.hpp has it without beta, bias and activation.
            const float scale = mul_rn(factor, exists[i] ? b_scale_[cols[i]] : 1.0f);
            const float sum = static_cast<float>(sums[i]);
            y[i] = exists[i] ? mul_rn(fma_rn(scale, sum, 0.0f), reciprocal_) : 0.0f;
        }
        round_four(index, step, count, y);
    }

  private:
    // `step` elements apart unless they may be stored at once.
    template <class Storage>
    __device__ __forceinline__ void store_four(int64_t index, int32_t step, int32_t count,
                                               const Storage (&y)[4]) const {
        struct alignas(4 * sizeof(Storage)) four {
            Storage y[4];
        };
        Storage* target = static_cast<Storage*>(args_.out.pattern.values) + index;
        if (args_.aligned) {
            *reinterpret_cast<four*>(target) = {{y[0], y[1], y[2], y[3]}};
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (i < count) target[i * step] = y[i];
        }
    }

    template <class Storage>
    __device__ __forceinline__ void store_rounded(int64_t index, int32_t step, int32_t count,
                                                  const float (&y)[4]) const {
        Storage rounded[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) rounded[i] = magicube::cuda::round_element<Storage>(y[i]);
        store_four(index, step, count, rounded);
    }

    __device__ __forceinline__ void round_four(int64_t index, int32_t step, int32_t count,
                                               const float (&y)[4]) const {
        switch (args_.out.type) {
            case dtype::fp16:
                return store_rounded<half>(index, step, count, y);
            case dtype::bf16:
                return store_rounded<bfloat16>(index, step, count, y);
            case dtype::int16:
                return store_rounded<int16_t>(index, step, count, y);
            case dtype::int8:
                return store_rounded<int8_t>(index, step, count, y);
            default:
                return store_four(index, step, count, y);
        }
    }

    const gather_arguments& args_;
    const gather_task& at_;
    scale_reader b_scale_;
    float reciprocal_;
    int64_t first_;  // index of the block row's first value
};

// The chunks that a lane multiplies: of a set's row g of A, at 16t of each segment.
template <int Sets>
struct left_rows {
    const uint8_t* first;
    int64_t pitch;
    int32_t count;  // rows there are, from the lane's first

    __device__ left_rows(const gather_arguments& args, const gather_task& at) {
        const int v = at.v0 + (threadIdx.x & 31) / 4;
        count = at.v_end - v;
        pitch = args.a_pitch;
        first = args.a + at.batch * args.a_apart + (count > 0 ? at.row + v : 0) * pitch;
    }
    __device__ __forceinline__ uint4 load(int set, int32_t offset, bool inside) const {
        return load_chunk(first + set * 8 * pitch + offset, inside && set * 8 < count);
    }
};

// The sums of one step: acc[set][pair of slots].
template <class Operands, int Sets, bool Kept>
__device__ __forceinline__ void multiply_step(
    const gather_arguments& args, const uint8_t* b, const int32_t (&cols)[4],
    const left_rows<Sets>& left, const uint4 (&kept)[Kept ? kept_segments : 1][Sets],
    typename Operands::accumulator (&acc)[Sets][2][Operands::planes][4]) {
    const int32_t lane_offset = (threadIdx.x & 3) * 16;
    const auto segment = [&](int32_t offset, const auto& a_of) {
        const bool inside = offset < args.row_bytes;
        uint4 rows[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const bool real = inside && cols[i] >= 0;
            const int64_t at = int64_t{args.b_pitch} * static_cast<uint32_t>(cols[i]) + offset;
            rows[i] = load_chunk(b + (real ? at : 0), real);
        }
#pragma unroll
        for (int set = 0; set < Sets; ++set) {
            const uint4 a = a_of(set, inside);
#pragma unroll
            for (int pair = 0; pair < 2; ++pair)
                Operands::multiply(acc[set][pair], rows[2 * pair], rows[2 * pair + 1], a);
        }
    };
    if constexpr (Kept) {
#pragma unroll
        for (int s = 0; s < kept_segments; ++s)
            segment(s * segment_bytes + lane_offset, [&](int set, bool) { return kept[s][set]; });
    } else {
#pragma unroll 2
        for (int32_t s = 0; s < args.row_bytes; s += segment_bytes) {
            const int32_t offset = s + lane_offset;
            segment(offset, [&](int set, bool inside) { return left.load(set, offset, inside); });
        }
    }
}

template <class Operands, int Sets, bool Kept>
__device__ __forceinline__ void compute_task(const gather_arguments& args, int64_t task) {
    const int lane = threadIdx.x & 31;
    const gather_task at(args, task, 8 * Sets);
    const left_rows<Sets> left(args, at);
    uint4 kept[Kept ? kept_segments : 1][Sets];
    if constexpr (Kept) {
#pragma unroll
        for (int i = 0; i < kept_segments * Sets; ++i) {
            const int32_t offset = i / Sets * segment_bytes + lane % 4 * 16;
            kept[i / Sets][i % Sets] = left.load(i % Sets, offset, offset < args.row_bytes);
        }
    }
    const lane_output output(args, at);
    const int32_t v0 = at.v0 + lane % 4 * 2;
    float factors[Sets][2];
#pragma unroll
    for (int i = 0; i < 2 * Sets; ++i)
        factors[i / 2][i % 2] = output.row_factor(v0 + i / 2 * 8 + i % 2);
    const uint8_t* b = args.b + at.batch * args.b_apart;
    const int32_t* row = args.out.pattern.col_indices + at.begin;
    const int32_t apart = args.ways * step_slots;
    int32_t next[4];
    load_columns(args, row, at, at.step + lane / 4 * 4, next);
    for (int32_t step = at.step; step < at.padded; step += apart) {
        const int32_t slot = step + lane / 4 * 4;
        const int32_t cols[4] = {next[0], next[1], next[2], next[3]};
        load_columns(args, row, at, slot + apart, next);
        typename Operands::accumulator acc[Sets][2][Operands::planes][4] = {};
        multiply_step<Operands, Sets, Kept>(args, b, cols, left, kept, acc);
#pragma unroll
        for (int set = 0; set < Sets; ++set) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const auto sum = [&](int i) {
                    return Operands::sum(acc[set][i / 2], i % 2 * 2 + r);
                };
                const decltype(sum(0)) sums[4] = {sum(0), sum(1), sum(2), sum(3)};
                output.store(slot, v0 + set * 8 + r, factors[set][r], cols, sums);
            }
        }
    }
}

// Blocks that a multiprocessor holds, so that registers suffice.
template <class Operands, int Sets>
constexpr int resident_blocks = Sets == 1   ? (Operands::planes == 1 ? 5 : 4)
                                : Sets == 2 ? 3
                                            : 2;

template <class Operands, int Sets, bool Kept>
__global__ void __launch_bounds__((block_warps * 32), (resident_blocks<Operands, Sets>))
    gather_kernel(const __grid_constant__ gather_arguments args) {
// Older architectures lack the instruction of some operands; the implementation declines them.
#if defined(__CUDA_ARCH__)
    constexpr int lowest = std::is_same_v<Operands, e4m3_operands> ? 890 : 800;
    if constexpr (__CUDA_ARCH__ >= lowest) {
        for (int64_t task = int64_t{blockIdx.x} * block_warps + threadIdx.x / 32; task < args.tasks;
             task += int64_t{gridDim.x} * block_warps)
            compute_task<Operands, Sets, Kept>(args, task);
    }
#endif
}

template <class Operands, int Sets, bool Kept>
gather_kernel_info describe_gather() {
    cudaFuncAttributes attributes{};
    const auto code = cudaFuncGetAttributes(&attributes, gather_kernel<Operands, Sets, Kept>);
    return {code, attributes.binaryVersion};
}

template <class Operands, int Sets, bool Kept>
cudaError_t launch_gather(const gather_arguments& args, int64_t blocks, cudaStream_t stream) {
    magicube::cuda::launch_kernel(gather_kernel<Operands, Sets, Kept>,
                                  {static_cast<unsigned>(blocks), block_warps * 32, 0, stream},
                                  args);
    return cudaGetLastError();
}

#define MAGICUBE_DEFINE_GATHER_INSTANCE(NAME, OPERANDS, SETS, KEPT)                 \
    const gather_instance NAME = {#OPERANDS, SETS, KEPT,                            \
                                  describe_gather<OPERANDS##_operands, SETS, KEPT>, \
                                  launch_gather<OPERANDS##_operands, SETS, KEPT>};
#define MAGICUBE_DEFINE_GATHER(OPERANDS, SETS)                                               \
    MAGICUBE_DEFINE_GATHER_INSTANCE(gather_##OPERANDS##_##SETS##_any, OPERANDS, SETS, false) \
    MAGICUBE_DEFINE_GATHER_INSTANCE(gather_##OPERANDS##_##SETS##_kept, OPERANDS, SETS, true)

}  // namespace magicube::sddmm::sm80
