// SPDX-License-Identifier: Apache-2.0
//
// Sparse softmax on any GPU, for every problem: the last resort of CUDA, slow and right.
//
// Computes  as the reference of the CPU, with its functions: exponentials and sums in double.
// Layout    scores, bias and output in the pattern's layout, as the caller has them.
// Mapping   a warp takes two rows of a block row (V = 1: one), so that also with a stride of 1 the
//           two int4 of a byte are one warp's; its lanes take slots. Each row is read three times,
//           for the largest x, the sum and the result, so that the output may lie on the scores.
// Shared    none. Any architecture, any alignment of elements.
// Bound     exponentials in double, two an element.
#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/ops/cuda/elements.cuh"
#include "core/ops/reference.hpp"
#include "core/ops/softmax/cuda/scores.hpp"
#include "core/ops/softmax/probability.hpp"

namespace magicube::softmax {
namespace cuda {
namespace {

constexpr int block_warps = 4;
constexpr int warp_rows = 2;

int64_t tasks_of(const problem& p) {
    const int64_t parts = ceil_div(p.pattern.vector_length, warp_rows);
    return checked_mul(checked_mul(p.pattern.block_rows(), parts, "problem's block rows"),
                       p.batch_count, "problem->batch_count");
}

// One row, as a warp sees it.
template <class Value>
struct warp_row {
    const score_arguments& s;
    int64_t batch;
    int64_t v;
    int64_t end;
    float factor;
    bool inside;  // not past the matrix's last row, nor past the vector

    __device__ bool exists(int64_t slot) const {
        return inside && slot < end && s.pattern.exists(slot, v);
    }

    __device__ float x(int64_t slot) const {
        const auto score = static_cast<float>(magicube::cuda::load_element<Value>(
            s.scores, s.in_type, s.index(batch, s.in_stride, slot, v)));
        const float bias = s.bias ? s.bias[s.index(batch, s.bias_stride, slot, v)] : 0.0f;
        return scaled_score(factor, s.col_scale.at(batch)[s.pattern.col_indices[slot]], score,
                            bias);
    }
};

template <class Value>
__device__ row_sum sum_of(const warp_row<Value>& row, int64_t begin) {
    const int lane = threadIdx.x & 31;
    row_sum result;
    bool invalid = false;
    for (int64_t slot = begin + lane; slot < row.end; slot += 32) {
        if (!row.exists(slot)) continue;
        const float x = row.x(slot);
        invalid = invalid || !(x < INFINITY);
        if (x > result.largest) result.largest = x;
    }
    for (int step = 16; step > 0; step /= 2)
        result.largest = fmaxf(result.largest, __shfl_xor_sync(~0u, result.largest, step));
    if (__any_sync(~0u, invalid)) result.largest = NAN;
    if (!result.regular()) return result;
    for (int64_t slot = begin + lane; slot < row.end; slot += 32)
        if (row.exists(slot)) result.sum += result.exponential(row.x(slot));
    for (int step = 16; step > 0; step /= 2) result.sum += __shfl_xor_sync(~0u, result.sum, step);
    return result;
}

// All bytes of the rows: of one slot's two rows, or of two neighbouring slots of each row.
template <class Value>
__device__ void write_int4(const warp_row<Value> (&rows)[warp_rows],
                           const row_sum (&sums)[warp_rows], int64_t begin) {
    const auto& s = rows[0].s;
    const int lane = threadIdx.x & 31;
    const bool across = s.pattern.stride == 1;
    const auto nibble = [&](int r, int64_t slot) {
        return rows[r].exists(slot) ? sums[r].quantised(rows[r].x(slot), 7) & 15 : 0;
    };
    const int64_t padded = round_up(rows[0].end, s.pattern.stride);
    for (int r = 0; r < (across ? 1 : warp_rows); ++r) {
        if (rows[r].v >= s.pattern.vector_length) continue;
        for (int64_t i = lane; i < (padded - begin) / (across ? 1 : 2); i += 32) {
            const int64_t slot = begin + (across ? i : 2 * i);
            const int high = across ? nibble(1, slot) : nibble(r, slot + 1);
            const int64_t at = s.index(rows[r].batch, s.out_stride, slot, rows[r].v);
            static_cast<uint8_t*>(s.out)[at / 2] =
                static_cast<uint8_t>(nibble(r, slot) | high << 4);
        }
    }
}

template <class Value>
__device__ void write_row(const warp_row<Value>& row, const row_sum& sum, int64_t begin) {
    const auto& s = row.s;
    const int64_t padded = round_up(row.end, s.pattern.stride);
    const auto highest = static_cast<double>(range_of(s.out_type).highest);
    for (int64_t slot = begin + (threadIdx.x & 31); slot < padded; slot += 32) {
        const bool exists = row.exists(slot);
        const float x = exists ? row.x(slot) : 0;
        const int64_t at = s.index(row.batch, s.out_stride, slot, row.v);
        if (is_floating(s.out_type)) {
            magicube::cuda::store_element(s.out, s.out_type, at, exists ? sum.probability(x) : 0);
        } else {
            const int32_t y = exists ? sum.quantised(x, highest) : 0;
            if (s.out_type == dtype::int16) {
                static_cast<int16_t*>(s.out)[at] = static_cast<int16_t>(y);
            } else {
                static_cast<uint8_t*>(s.out)[at] = static_cast<uint8_t>(y);
            }
        }
    }
}

template <class Value>
__global__ void __launch_bounds__(block_warps * 32)
    plain_kernel(const __grid_constant__ score_arguments s, int64_t tasks) {
    const auto& pattern = s.pattern;
    const int64_t v_count = pattern.vector_length;
    const int64_t parts = ceil_div(v_count, warp_rows), block_rows = pattern.block_rows();
    for (int64_t task = int64_t{blockIdx.x} * block_warps + threadIdx.x / 32; task < tasks;
         task += int64_t{gridDim.x} * block_warps) {
        const int64_t block_row = task / parts % block_rows, batch = task / parts / block_rows;
        const int64_t index = pattern.block_row_index(pattern.matrix_for(batch), block_row);
        const int64_t begin = pattern.row_begin[index], end = pattern.row_end[index];
        const auto row_of = [&](int r) {
            const int64_t v = task % parts * warp_rows + r, i = block_row * v_count + v;
            const bool inside = v < v_count && i < pattern.rows;
            const float scale = inside ? s.row_scale.at(batch)[i] : 1.0f;
            return warp_row<Value>{s, batch, v, end, mul_rn(s.alpha.get(), scale), inside};
        };
        const warp_row<Value> rows[warp_rows] = {row_of(0), row_of(1)};
        const row_sum sums[warp_rows] = {sum_of(rows[0], begin), sum_of(rows[1], begin)};
        if (s.out_type == dtype::int4) write_int4(rows, sums, begin);
        for (int r = 0; r < warp_rows; ++r) {
            if (rows[r].v < v_count && s.out_type != dtype::int4)
                write_row(rows[r], sums[r], begin);
            if (is_integer(s.out_type) && rows[r].inside && threadIdx.x % 32 == 0) {
                s.out_scale[batch * s.out_scale_stride + block_row * v_count + rows[r].v] =
                    sums[r].scale(static_cast<double>(range_of(s.out_type).highest));
            }
        }
    }
}

class plain_plan final : public stored_plan<operation> {
  public:
    plain_plan(const context& ctx, const softmax::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)) {
        const magicube::cuda::device_scope scope(ctx.ordinal);
        magicube::cuda::check(magicube::cuda::load_kernel(kernel()), "plain_kernel");
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const int64_t tasks = tasks_of(p);
        const auto scores = make_scores(ctx, p, stored().view(), args);
        const int64_t blocks = std::min<int64_t>(ceil_div(tasks, block_warps), INT32_MAX);
        magicube::cuda::device_scope scope(ctx.ordinal);
        magicube::cuda::launch_kernel(
            kernel(), {static_cast<unsigned>(blocks), block_warps * 32, 0, ctx.stream}, scores,
            tasks);
        magicube::cuda::check(cudaGetLastError(), "plain_kernel");
    }

  private:
    auto kernel() const -> decltype(&plain_kernel<float>) {
        return is_integer(problem().in_type) ? plain_kernel<int32_t> : plain_kernel<float>;
    }
};

double plain_cost(const context&, const problem& p) {
    constexpr double elements_per_us = 2e4, launch_us = 3;
    return launch_us + static_cast<double>(p.pattern.value_count()) *
                           static_cast<double>(p.batch_count) / elements_per_us;
}

buffer_needs plain_needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, false).bytes(), 0};
}

}  // namespace
}  // namespace cuda

extern const implementation<operation> cuda_plain;
const implementation<operation> cuda_plain = reference_implementation<operation, cuda::plain_plan>(
    "plain", device_kind::cuda, cuda::plain_cost, cuda::plain_needs);

}  // namespace magicube::softmax
