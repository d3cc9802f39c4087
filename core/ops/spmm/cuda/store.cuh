// SPDX-License-Identifier: Apache-2.0
// What kernels of SpMM do with their sums: the epilogue of core/ops/epilogue.hpp and the store, for
// any output type, order, alignment and tail. A lane holds squares: the sums of rows i, i + 1
// (first index) and columns j, j + 1 (second). Along whichever of the two is contiguous in C, two
// elements are stored at once.
#pragma once

#include <cuda_runtime.h>

#include "core/ops/spmm/cuda/store_arguments.hpp"

namespace magicube::spmm::cuda {

__device__ __forceinline__ float to_float(int32_t sum) {
    return __int2float_rn(sum);
}
__device__ __forceinline__ float to_float(int64_t sum) {
    // Most sums are short, and short ones are converted many times faster.
    const auto low = static_cast<int32_t>(sum);
    return sum == low ? __int2float_rn(low) : __ll2float_rn(sum);
}
__device__ __forceinline__ float to_float(float sum) {
    return sum;
}

// y in the type of C; sums of int32 pass as they are.
template <class Storage>
__device__ __forceinline__ Storage round_to(float y) {
    if constexpr (std::is_same_v<Storage, int8_t>) {
        return static_cast<Storage>(round_saturate(y, -128.0f, 127.0f));
    } else {
        return Storage(y);
    }
}

// Out of line, since few kernels' time is spent here and its code is long.
__device__ __noinline__ inline float activate_apart(activation function, float y) {
    return activate(function, y);
}

// The epilogue of one tile for the two rows that a lane owns; all that does not depend on the
// column is read once.
class lane_epilogue {
  public:
    __device__ lane_epilogue(const store_arguments& s, int64_t batch, int64_t row) {
        beta = s.beta_pointer ? *s.beta_pointer : s.beta;
        const float alpha = s.alpha_pointer ? *s.alpha_pointer : s.alpha;
        const scale_reader a_scale = s.a_scale.at(batch), bias = s.bias.at(batch);
#pragma unroll
        for (int a = 0; a < 2; ++a) {
            const int64_t i = min(row + a, s.rows - 1);
            scale_[a] = mul_rn(alpha, a_scale[i]);
            bias_[a] = bias[i];
        }
        b_scale_ = s.b_scale.at(batch);
        function_ = s.function;
        reciprocal_ = div_rn(1.0f, s.c_scale.at(batch)[0]);
    }

    __device__ __forceinline__ float b_scale(int64_t j) const {
        return b_scale_[j];
    }

    // The lane's second row or its first. c counts only with beta.
    __device__ __forceinline__ float operator()(bool second, float b_scale, float sum,
                                                float c) const {
        const float scale = second ? scale_[1] : scale_[0];
        const float bias = second ? bias_[1] : bias_[0];
        const float y = fma_rn(mul_rn(scale, b_scale), sum, fma_rn(beta, c, bias));
        return mul_rn(function_ == activation::none ? y : activate_apart(function_, y),
                      reciprocal_);
    }

    float beta;

  private:
    float scale_[2];
    float bias_[2];
    scale_reader b_scale_;
    activation function_;
    float reciprocal_;
};

// One square, all of it inside C, its pairs aligned to their size. `lines` is the distance between
// its two pairs; by rows, a pair is two columns of one row.
template <class Storage, class Sum>
__device__ __forceinline__ void store_whole(const lane_epilogue& e, Storage* c, int64_t lines,
                                            bool by_rows, const float (&b_scale)[2],
                                            const Sum (&sums)[2][2]) {
    struct alignas(2 * sizeof(Storage)) pair {
        Storage first, second;
    };
#pragma unroll
    for (int line = 0; line < 2; ++line) {
        auto* target = reinterpret_cast<pair*>(c + line * lines);
        const Sum x0 = line == 0 ? sums[0][0] : by_rows ? sums[1][0] : sums[0][1];
        const Sum x1 = line == 1 ? sums[1][1] : by_rows ? sums[0][1] : sums[1][0];
        pair before{};
        if (e.beta != 0) before = *target;
        pair y;
        if constexpr (std::is_same_v<Storage, int32_t>) {
            y.first = static_cast<int32_t>(static_cast<uint32_t>(x0) +
                                           static_cast<uint32_t>(before.first));
            y.second = static_cast<int32_t>(static_cast<uint32_t>(x1) +
                                            static_cast<uint32_t>(before.second));
        } else {
            const float scale0 = line == 0 || by_rows ? b_scale[0] : b_scale[1];
            const float scale1 = line == 1 || by_rows ? b_scale[1] : b_scale[0];
            y.first = round_to<Storage>(
                e(line == 1 && by_rows, scale0, to_float(x0), static_cast<float>(before.first)));
            y.second = round_to<Storage>(
                e(line == 1 || !by_rows, scale1, to_float(x1), static_cast<float>(before.second)));
        }
        *target = y;
    }
}

// One square of which any part may lie outside.
template <class Storage, class Sum>
__device__ __forceinline__ void store_part(const store_arguments& s, const lane_epilogue& e,
                                           Storage* c, int64_t rows, int64_t cols,
                                           const float (&b_scale)[2], const Sum (&sums)[2][2]) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
        const int a = q >> 1, b = q & 1;
        if (a >= rows || b >= cols) continue;
        Storage& target = c[a * s.row_stride + b * s.col_stride];
        if constexpr (std::is_same_v<Storage, int32_t>) {
            target = static_cast<int32_t>(static_cast<uint32_t>(sums[a][b]) +
                                          (e.beta != 0 ? static_cast<uint32_t>(target) : 0u));
        } else {
            const float before = e.beta != 0 ? static_cast<float>(target) : 0.0f;
            target = round_to<Storage>(e(a == 1, b_scale[b], to_float(sums[a][b]), before));
        }
    }
}

// One sum, in the type of C whatever that is.
template <class Sum>
__device__ inline void store_one(const store_arguments& s, int64_t batch, int64_t i, int64_t j,
                                 Sum sum) {
    if (i >= s.rows || j >= s.cols) return;
    const lane_epilogue e(s, batch, i);
    const int64_t at = batch * s.batch_stride + i * s.row_stride + j * s.col_stride;
    const Sum sums[2][2] = {{sum, sum}, {sum, sum}};
    float b_scale[2] = {1.0f, 1.0f};
    if (s.type != dtype::int32) b_scale[0] = e.b_scale(j);
    const auto store = [&](auto* c) { store_part(s, e, c + at, 1, 1, b_scale, sums); };
    switch (s.type) {
        case dtype::int32:
            if constexpr (!std::is_same_v<Sum, float>) store(static_cast<int32_t*>(s.c));
            break;
        case dtype::fp16:
            store(static_cast<half*>(s.c));
            break;
        case dtype::bf16:
            store(static_cast<bfloat16*>(s.c));
            break;
        case dtype::int8:
            store(static_cast<int8_t*>(s.c));
            break;
        default:
            store(static_cast<float*>(s.c));
            break;
    }
}

// Stores `Chunks` squares of rows `row`, row + 1, whose first columns are Step apart, starting at
// `column`. `square(c, sums)` gives the sums of chunk c.
template <class Storage, int Chunks, int Step, class Sum, class Square>
__device__ __forceinline__ void store_squares(const store_arguments& s, int64_t batch, int64_t row,
                                              int64_t column, Square&& square) {
    const lane_epilogue e(s, batch, row);
    auto* c = static_cast<Storage*>(s.c) + batch * s.batch_stride + row * s.row_stride +
              column * s.col_stride;
    const bool by_rows = s.col_stride == 1;
    const int64_t lines = by_rows ? s.row_stride : s.col_stride;
    const bool whole = s.paired && row + 2 <= s.rows && column + (Chunks - 1) * Step + 2 <= s.cols;
    const int64_t step = Step * s.col_stride;
#pragma unroll
    for (int k = 0; k < Chunks; ++k) {
        Sum sums[2][2];
        square(k, sums);
        const int64_t j = column + k * Step;
        float b_scale[2] = {1.0f, 1.0f};
        if constexpr (!std::is_same_v<Storage, int32_t>) {
            b_scale[0] = e.b_scale(min(j, s.cols - 1));
            b_scale[1] = e.b_scale(min(j + 1, s.cols - 1));
        }
        if (whole) {
            store_whole(e, c, lines, by_rows, b_scale, sums);
        } else {
            store_part(s, e, c, s.rows - row, s.cols - j, b_scale, sums);
        }
        c += step;
    }
}

// Two elements that lie side by side, as one word.
template <class Storage>
using pair_bits = std::conditional_t<sizeof(Storage) == 4, uint64_t,
                                     std::conditional_t<sizeof(Storage) == 2, uint32_t, uint16_t>>;

template <class Storage>
__device__ __forceinline__ pair_bits<Storage> pair_of(Storage first, Storage second) {
    constexpr int bits = 8 * sizeof(Storage);
    using element = std::conditional_t<sizeof(Storage) == 4, uint32_t,
                                       std::conditional_t<sizeof(Storage) == 2, uint16_t, uint8_t>>;
    element low, high;
    memcpy(&low, &first, sizeof(low));
    memcpy(&high, &second, sizeof(high));
    return static_cast<pair_bits<Storage>>(low | pair_bits<Storage>{high} << bits);
}

}  // namespace magicube::spmm::cuda
