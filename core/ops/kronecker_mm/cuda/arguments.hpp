// SPDX-License-Identifier: Apache-2.0
// What the CUDA kernels of KroneckerMM are told about Y and the epilogue: what those of SpMM are,
// with K as A, X as B and Y as C, their columns being vectors.
#pragma once

#include "core/ops/kronecker_mm/kronecker_mm.hpp"
#include "core/ops/spmm/cuda/store_arguments.hpp"

namespace magicube::kronecker_mm::cuda {

inline spmm::cuda::store_arguments make_store(const context& ctx, const problem& p,
                                              const arguments& args) {
    // By their own names first.
    magicube::cuda::require_operands(ctx, {{args.x.values, "X"},
                                           {args.y.values, "Y"},
                                           {args.k_scale, "args->k_scale"},
                                           {args.x_scale, "args->x_scale"},
                                           {args.bias, "args->bias"},
                                           {args.y_scale, "args->y_scale"}});
    product_problem as_product;
    as_product.a_scale = p.k_scale;
    as_product.b_scale = p.x_scale;
    as_product.bias = p.bias;
    as_product.c_scale = p.y_scale;
    as_product.function = p.function;
    product_arguments operands;
    operands.alpha = args.alpha;
    operands.beta = args.beta;
    operands.c = as_columns(args.y, p.layout);
    operands.a_scale = args.k_scale;
    operands.b_scale = args.x_scale;
    operands.bias = args.bias;
    operands.c_scale = args.y_scale;
    return spmm::cuda::make_store_arguments(ctx, as_product, operands);
}

// The factors' arrays of an execution with values of its own.
inline void require_values_on_device(const context& ctx, const problem& p,
                                     const void* const* values) {
    for (size_t i = 0; i < p.pattern.factors.size(); ++i) {
        magicube::cuda::require_on_device(ctx, values[i], text("args->k_values[", i, ']').c_str());
    }
}

}  // namespace magicube::kronecker_mm::cuda
