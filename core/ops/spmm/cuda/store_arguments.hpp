// SPDX-License-Identifier: Apache-2.0
// What every CUDA kernel of a product (core/ops/product.hpp) is told about C and the epilogue.
#pragma once

#include "core/ops/cuda/operands.hpp"
#include "core/ops/product.hpp"

namespace magicube::spmm::cuda {

using magicube::cuda::batched_scales;

struct store_arguments {
    void* c;
    dtype type;
    int64_t row_stride;  // elements
    int64_t col_stride;
    int64_t batch_stride;
    int64_t rows;
    int64_t cols;
    bool paired;   // two elements that lie side by side, the first at an even index, may be stored
                   // at once
    bool aligned;  // C's base, lines and matrices to 16 bytes
    bool direct;   // no beta, activation or output scale
    float alpha;
    float beta;
    const float* alpha_pointer;  // null: the value above
    const float* beta_pointer;
    batched_scales a_scale;
    batched_scales b_scale;
    batched_scales bias;
    batched_scales c_scale;
    activation function;
};

// Throws device_mismatch if an array of the execution lies elsewhere.
store_arguments make_store_arguments(const context& ctx, const product_problem& p,
                                     const product_arguments& args);

}  // namespace magicube::spmm::cuda
