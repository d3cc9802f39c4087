// SPDX-License-Identifier: Apache-2.0
//
// Sparse softmax, a warp a row, each score read once where the row fits in registers.
//
// Computes  p = exp(x - largest x) / sum, x = fma((alpha * row_scale) * col_scale, score, bias).
// Layout    scores, bias and output in the pattern's layout with a stride of at least 8, so that
//           four neighbouring slots of a row are neighbours in memory: a lane's load and store.
// Mapping   a warp takes a row; lane l takes slots 4l to 4l + 3 of each 128. Up to 128 * Quads
//           slots stay in registers; longer rows are read twice, with running statistics the first
//           time.
// Numbers   fp32: x - largest with its rounding error, so that exponentials are right to 2 units in
//           the last place. An integer whose fraction lies that near to one half, and a float below
//           1e-34, is computed again in double as the reference does, so that integers are its own.
// Shared    none. Any architecture; arrays aligned to four elements are faster.
// Bound     bytes of scores, bias and output. 8192 x 8192, 90 %, fp32 to fp16: 40 MB, 9.4 us.
#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/ops/cuda/elements.cuh"
#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/softmax/cuda/scores.hpp"
#include "core/ops/softmax/probability.hpp"

namespace magicube::softmax {
namespace cuda {
namespace {

constexpr int block_warps = 4;
constexpr int warp_slots = 128;  // four a lane

struct row_arguments {
    score_arguments s;
    int64_t tasks;
    bool in_aligned;  // four elements may be loaded at once. So for the next two
    bool bias_aligned;
    bool out_aligned;
};

template <class T>
struct alignas(4 * sizeof(T)) four {
    T x[4];
};

template <class T>
__device__ __forceinline__ four<T> load_four(const void* array, int64_t at, bool aligned) {
    const T* from = static_cast<const T*>(array) + at;
    if (aligned) return *reinterpret_cast<const four<T>*>(from);
    four<T> loaded;
#pragma unroll
    for (int i = 0; i < 4; ++i) loaded.x[i] = from[i];
    return loaded;
}

template <class T>
__device__ __forceinline__ void store_four(void* array, int64_t at, bool aligned,
                                           const four<T>& y) {
    T* to = static_cast<T*>(array) + at;
    if (aligned) {
        *reinterpret_cast<four<T>*>(to) = y;
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = y.x[i];
    }
}

// exp(x - largest); 0 also for x = -infinity.
__device__ __forceinline__ float exponential(float x, float largest) {
    const float d = x - largest;
    if (!(d >= -104.0f)) return 0.0f;
    const float back = d - x;
    const float error = (x - (d - back)) - (largest + back);
    const float e = expf(d);
    return fma_rn(e, error, e);
}

template <class In>
class warp_row {
  public:
    __device__ warp_row(const row_arguments& args, int64_t task) : args_(args) {
        const auto& pattern = args.s.pattern;
        const int64_t block_rows = pattern.block_rows();
        const int64_t rest = task / pattern.vector_length, block_row = rest % block_rows;
        v_ = static_cast<int32_t>(task % pattern.vector_length);
        batch_ = rest / block_rows;
        row_ = block_row * pattern.vector_length + v_;
        const int64_t index = pattern.block_row_index(pattern.matrix_for(batch_), block_row);
        begin_ = pattern.row_begin[index];
        inside_ = row_ < pattern.rows;
        end_ = inside_ ? static_cast<int32_t>(pattern.row_end[index] - begin_) : 0;
        padded_ = static_cast<int32_t>(round_up(pattern.row_end[index], pattern.stride) - begin_);
        cols_ = args.s.col_scale.at(batch_);
        const float scale = inside_ ? args.s.row_scale.at(batch_)[row_] : 1.0f;
        factor_ = mul_rn(args.s.alpha.get(), scale);
        first_ = pattern.value_index(0, begin_, v_);
    }

    __device__ bool inside() const { return inside_; }
    __device__ int32_t padded() const { return padded_; }
    __device__ int64_t scale_index() const { return batch_ * args_.s.out_scale_stride + row_; }

    // x of four slots and, a bit each, whether they exist.
    __device__ __forceinline__ uint32_t load(int32_t slot, float (&x)[4]) const {
        const auto& s = args_.s;
        uint32_t exists = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (slot + i < end_ && s.pattern.exists(begin_ + slot + i, v_)) exists |= 1u << i;
        if (exists == 0) return 0;
        const int64_t at = place(slot);
        const auto scores = load_four<In>(s.scores, batch_ * s.in_stride + at, args_.in_aligned);
        four<float> bias{};
        if (s.bias)
            bias = load_four<float>(s.bias, batch_ * s.bias_stride + at, args_.bias_aligned);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const bool scaled = cols_.data != nullptr && (exists >> i & 1);
            const float col = scaled ? cols_[s.pattern.col_indices[begin_ + slot + i]] : 1.0f;
            x[i] = scaled_score(factor_, col, static_cast<float>(scores.x[i]), bias.x[i]);
        }
        return exists;
    }

    // Index of a slot's value in the first matrix's arrays.
    __device__ __forceinline__ int64_t place(int32_t slot) const {
        const int32_t inside = slot & (args_.s.pattern.stride - 1);
        return first_ + int64_t{slot - inside} * args_.s.pattern.vector_length + inside;
    }

    // Bits of the exponentials from which fp32 may not give the reference's result.
    __device__ __forceinline__ uint32_t uncertain(uint32_t exists, const float (&e)[4],
                                                  float highest) const {
        uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float y = mul_rn(e[i], highest), distance = fabsf(y - floorf(y) - 0.5f);
            const bool wrong = highest > 0 ? distance <= y * 5e-7f : e[i] > 0 && e[i] < 1e-34f;
            if (wrong) bits |= 1u << i;
        }
        return bits & exists;
    }

    // Writes one element as the reference computes it.
    __device__ __forceinline__ void store_exact(int32_t slot, const row_sum& sum) const {
        const auto& s = args_.s;
        const int64_t at = place(slot);
        const auto score =
            static_cast<float>(static_cast<const In*>(s.scores)[batch_ * s.in_stride + at]);
        const float bias = s.bias ? s.bias[batch_ * s.bias_stride + at] : 0.0f;
        const float col = cols_[s.pattern.col_indices[begin_ + slot]];
        const float x = scaled_score(factor_, col, score, bias);
        const auto highest = static_cast<double>(range_of(s.out_type).highest);
        if (highest > 0) {
            store_integer(batch_ * s.out_stride + at, sum.quantised(x, highest));
        } else {
            magicube::cuda::store_element(s.out, s.out_type, batch_ * s.out_stride + at,
                                          sum.probability(x));
        }
    }

    // Writes four slots, whose exponentials are known, but for those in `skipped`.
    __device__ __forceinline__ void store(int32_t slot, uint32_t exists, uint32_t skipped,
                                          const float (&e)[4], const row_sum& sum,
                                          float factor) const {
        const auto& s = args_.s;
        const int64_t at = batch_ * s.out_stride + place(slot);
        float y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) y[i] = exists >> i & 1 ? mul_rn(e[i], factor) : 0.0f;
        if (is_floating(s.out_type)) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (sum.invalid() && (exists >> i & 1)) y[i] = sum.largest;
            if (skipped == 0) return store_floats(at, y);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (!(skipped >> i & 1))
                    magicube::cuda::store_element(s.out, s.out_type, at + i, y[i]);
        } else {
            int32_t z[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) z[i] = sum.regular() ? __float2int_rn(y[i]) : 0;
            if (skipped == 0) return store_integers(at, z);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (!(skipped >> i & 1)) store_integer(at + i, z[i]);
        }
    }

  private:
    // The lane alone writes the byte of an int4.
    __device__ __forceinline__ void store_integer(int64_t at, int32_t y) const {
        if (args_.s.out_type == dtype::int4) {
            store_int4(static_cast<uint8_t*>(args_.s.out), at, y);
        } else if (args_.s.out_type == dtype::int16) {
            static_cast<int16_t*>(args_.s.out)[at] = static_cast<int16_t>(y);
        } else {
            static_cast<uint8_t*>(args_.s.out)[at] = static_cast<uint8_t>(y);
        }
    }

    template <class T, class Number>
    __device__ __forceinline__ void store_as(int64_t at, const Number (&y)[4]) const {
        four<T> z;
#pragma unroll
        for (int i = 0; i < 4; ++i) z.x[i] = static_cast<T>(y[i]);
        store_four<T>(args_.s.out, at, args_.out_aligned, z);
    }

    __device__ __forceinline__ void store_floats(int64_t at, const float (&p)[4]) const {
        if (args_.s.out_type == dtype::fp16) {
            store_as<half>(at, p);
        } else if (args_.s.out_type == dtype::bf16) {
            store_as<bfloat16>(at, p);
        } else {
            store_as<float>(at, p);
        }
    }

    __device__ __forceinline__ void store_integers(int64_t at, const int32_t (&y)[4]) const {
        if (args_.s.out_type == dtype::int16) {
            store_as<int16_t>(at, y);
        } else if (args_.s.out_type == dtype::int4) {
            auto* bytes = static_cast<uint8_t*>(args_.s.out) + at / 2;
            bytes[0] = static_cast<uint8_t>(y[0] | y[1] << 4);
            bytes[1] = static_cast<uint8_t>(y[2] | y[3] << 4);
        } else {
            store_as<uint8_t>(at, y);
        }
    }

    const row_arguments& args_;
    int64_t batch_, row_;
    int64_t begin_;  // the block row's first slot
    int64_t first_;  // index of its first value of this row
    int32_t v_;
    int32_t end_, padded_;  // slots from the first one on
    bool inside_;           // not past the matrix's last row
    scale_reader cols_;
    float factor_;
};

// The statistics of the scores so far, the same in all lanes.
struct running_sum {
    float largest = -INFINITY;
    float sum = 0;  // of exponentials
    bool invalid = false;

    __device__ row_sum result() const {
        row_sum row;
        row.largest = invalid ? NAN : largest;
        row.sum = sum;
        return row;
    }
};

// Loads a part of a row, adds it to the statistics and leaves exponentials. Returns what exists.
template <class In, int Quads>
__device__ __forceinline__ uint32_t take_part(const warp_row<In>& row, int32_t first,
                                              running_sum& so_far, float (&e)[Quads][4]) {
    const int lane = threadIdx.x & 31;
    uint32_t exists = 0;
    float largest = so_far.largest, sum = 0;
    bool invalid = false;
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
        const uint32_t bits = row.load(first + q * warp_slots + 4 * lane, e[q]);
        exists |= bits << (4 * q);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (!(bits >> i & 1)) e[q][i] = -INFINITY;
            invalid = invalid || !(e[q][i] < INFINITY);
            largest = fmaxf(largest, e[q][i]);
        }
    }
    for (int step = 16; step > 0; step /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    so_far.invalid = __any_sync(~0u, invalid) || so_far.invalid;
#pragma unroll
    for (int i = 0; i < 4 * Quads; ++i) {
        e[i / 4][i % 4] = exponential(e[i / 4][i % 4], largest);
        sum += e[i / 4][i % 4];
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    so_far.sum = fma_rn(so_far.sum, exponential(so_far.largest, largest), sum);
    so_far.largest = largest;
    return exists;
}

// Writes a part of a row.
template <class In, int Quads>
__device__ __forceinline__ void write_part(const warp_row<In>& row, int32_t first, uint32_t exists,
                                           const float (&e)[Quads][4], const row_sum& sum,
                                           float highest) {
    const int32_t own = first + 4 * (threadIdx.x & 31);
    uint32_t uncertain = 0;
#pragma unroll
    for (int q = 0; q < Quads; ++q)
        uncertain |= row.uncertain(exists >> (4 * q) & 15, e[q], highest) << (4 * q);
    if (!sum.regular()) uncertain = 0;
        // Before the others, for the scores may lie where the output does.
#pragma unroll 1
    for (uint32_t bits = uncertain; bits != 0; bits &= bits - 1) {
        const int i = __ffs(static_cast<int>(bits)) - 1;
        row.store_exact(own + i / 4 * warp_slots + i % 4, sum);
    }
    const float factor = highest > 0     ? highest
                         : sum.regular() ? static_cast<float>(1 / sum.sum)
                                         : 0;
#pragma unroll
    for (int q = 0; q < Quads; ++q) {
        if (own + q * warp_slots < row.padded())
            row.store(own + q * warp_slots, exists >> (4 * q) & 15, uncertain >> (4 * q) & 15, e[q],
                      sum, factor);
    }
}

template <class In, int Quads>
__global__ void __launch_bounds__(block_warps * 32)
    rows_kernel(const __grid_constant__ row_arguments args) {
    constexpr int part = Quads * warp_slots;
    const auto highest = static_cast<float>(range_of(args.s.out_type).highest);  // 0 for floats
    for (int64_t task = int64_t{blockIdx.x} * block_warps + threadIdx.x / 32; task < args.tasks;
         task += int64_t{gridDim.x} * block_warps) {
        const warp_row<In> row(args, task);
        running_sum sums;
        float e[Quads][4];
        uint32_t exists = take_part<In, Quads>(row, 0, sums, e);
        for (int32_t first = part; first < row.padded(); first += part)
            take_part<In, Quads>(row, first, sums, e);
        const row_sum result = sums.result();
        for (int32_t first = 0; first < row.padded(); first += part) {
            if (row.padded() > part) {
                running_sum whole = sums;
                exists = take_part<In, Quads>(row, first, whole, e);
            }
            write_part<In, Quads>(row, first, exists, e, result, highest);
        }
        if (highest > 0 && row.inside() && threadIdx.x % 32 == 0)
            args.s.out_scale[row.scale_index()] = result.scale(static_cast<double>(highest));
    }
}

using kernel_pointer = void (*)(row_arguments);

kernel_pointer kernel_for(dtype in, bool short_rows) {
    switch (in) {
        case dtype::fp16:
            return short_rows ? rows_kernel<half, 2> : rows_kernel<half, 8>;
        case dtype::int32:
            return short_rows ? rows_kernel<int32_t, 2> : rows_kernel<int32_t, 8>;
        default:
            return short_rows ? rows_kernel<float, 2> : rows_kernel<float, 8>;
    }
}

// Slots of a block row on average.
int64_t average_slots(const sr_bcrs_view& pattern) {
    const int64_t matrices = pattern.different_patterns ? pattern.batch_count : 1;
    return pattern.slots / std::max<int64_t>(matrices, 1) /
           std::max<int64_t>(pattern.block_rows(), 1);
}

class rows_plan final : public stored_plan<operation> {
  public:
    rows_plan(const context& ctx, const softmax::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)) {
        const magicube::cuda::device_scope scope(ctx.ordinal);
        magicube::cuda::check(magicube::cuda::load_kernel(kernel()), "rows_kernel");
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const auto& pattern = stored().view();
        row_arguments k{};
        k.s = make_scores(ctx, p, pattern, args);
        k.tasks = checked_mul(checked_mul(pattern.block_rows(), pattern.vector_length, "rows"),
                              p.batch_count, "problem->batch_count");
        const auto aligned = [](const void* array, int64_t stride, dtype type) {
            const auto bytes = static_cast<uintptr_t>(std::max(1, storage_bits(type) / 2));
            return reinterpret_cast<uintptr_t>(array) % bytes == 0 && stride % 4 == 0;
        };
        k.in_aligned = aligned(args.scores, k.s.in_stride, p.in_type);
        k.bias_aligned = aligned(args.bias, k.s.bias_stride, dtype::fp32);
        k.out_aligned = aligned(args.out, k.s.out_stride, p.out_type);
        const int64_t blocks = std::min<int64_t>(ceil_div(k.tasks, block_warps), INT32_MAX);
        magicube::cuda::device_scope scope(ctx.ordinal);
        magicube::cuda::launch_kernel(
            kernel(), {static_cast<unsigned>(blocks), block_warps * 32, 0, ctx.stream}, k);
        magicube::cuda::check(cudaGetLastError(), "rows_kernel");
    }

  private:
    kernel_pointer kernel() const {
        const bool short_rows = average_slots(problem().pattern) <= 2 * warp_slots * 3 / 4;
        return kernel_for(problem().in_type, short_rows);
    }
};

std::string decline(const context&, const problem& p) {
    if (p.pattern.stride < 8)
        return text("the pattern's stride is ", p.pattern.stride, "; it must be at least 8");
    return "";
}

// From the bound above; not fitted.
double cost(const context&, const problem& p) {
    constexpr double launch_us = 3, bytes_per_us = 3e6;
    const double bits = storage_bits(p.in_type) + storage_bits(p.out_type) + (p.bias ? 32 : 0);
    return launch_us + static_cast<double>(p.pattern.value_count()) *
                           static_cast<double>(p.batch_count) * bits / 8 / bytes_per_us;
}

buffer_needs needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, false).bytes(), 0};
}

}  // namespace
}  // namespace cuda

extern const implementation<operation> cuda_rows;
const implementation<operation> cuda_rows = {"rows",
                                             device_kind::cuda,
                                             false,
                                             cuda::decline,
                                             cuda::cost,
                                             cuda::needs,
                                             make_plan<operation, cuda::rows_plan>};

}  // namespace magicube::softmax
