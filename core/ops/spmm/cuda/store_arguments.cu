// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cuda/store_arguments.hpp"

#include <cmath>
#include <utility>

#include "core/device/cuda/check.hpp"

namespace magicube::spmm::cuda {
namespace {

using magicube::cuda::scales_on_device;

// Every array of an execution lies where the handle's device reaches it.
void require_operands_on_device(const context& ctx, const product_arguments& args) {
    const std::pair<const void*, const char*> operands[] = {{args.b.values, "B"},
                                                            {args.c.values, "C"},
                                                            {args.a_values, "args->a_values"},
                                                            {args.a_scale, "args->a_scale"},
                                                            {args.b_scale, "args->b_scale"},
                                                            {args.bias, "args->bias"},
                                                            {args.c_scale, "args->c_scale"}};
    for (const auto& [pointer, name] : operands)
        if (pointer) magicube::cuda::require_on_device(ctx, pointer, name);
    if (ctx.scalars == pointer_mode::host) return;
    if (args.alpha) magicube::cuda::require_on_device(ctx, args.alpha, "alpha");
    if (args.beta) magicube::cuda::require_on_device(ctx, args.beta, "beta");
}

}  // namespace

store_arguments make_store_arguments(const context& ctx, const product_problem& p,
                                     const product_arguments& args) {
    require_operands_on_device(ctx, args);
    const dense_view& c = args.c;
    const bool by_rows = c.storage == order::row;
    const int64_t bytes = storage_bits(c.type) / 8;
    const bool on_device_scalars = ctx.scalars == pointer_mode::device;
    store_arguments s{};
    s.c = c.values;
    s.type = c.type;
    s.row_stride = by_rows ? c.ld : 1;
    s.col_stride = by_rows ? 1 : c.ld;
    s.batch_stride = c.batch_stride;
    s.rows = c.rows;
    s.cols = c.cols;
    s.paired = c.ld % 2 == 0 && c.batch_stride % 2 == 0 &&
               reinterpret_cast<uintptr_t>(c.values) % static_cast<uintptr_t>(2 * bytes) == 0;
    s.aligned = c.ld * bytes % 16 == 0 && c.batch_stride * bytes % 16 == 0 &&
                reinterpret_cast<uintptr_t>(c.values) % 16 == 0;
    s.alpha = on_device_scalars ? 1 : read_scalar(args.alpha, 1);
    s.beta = on_device_scalars ? 0 : read_scalar(args.beta, 0);
    s.alpha_pointer = on_device_scalars ? args.alpha : nullptr;
    s.beta_pointer = on_device_scalars ? args.beta : nullptr;
    s.a_scale = scales_on_device(p.a_scale, args.a_scale);
    s.b_scale = scales_on_device(p.b_scale, args.b_scale);
    s.bias = scales_on_device(p.bias, args.bias, 0);
    s.c_scale = scales_on_device(p.c_scale, args.c_scale);
    s.function = p.function;
    s.direct = s.beta_pointer == nullptr && s.beta == 0 && !std::signbit(s.beta) &&
               p.function == activation::none && !p.c_scale.present();
    return s;
}

}  // namespace magicube::spmm::cuda
