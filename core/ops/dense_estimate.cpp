// SPDX-License-Identifier: Apache-2.0
// Fitted to cuBLASLt's best of 16 heuristics on an H200 in steady state (14 products from 2048 x
// 2048 x 256 to 28672 x 8192 x 16, int8 and fp16: within a third) and scaled by what other GPUs can
// do.
#include "core/ops/dense_estimate.hpp"

#include <algorithm>

namespace magicube {
namespace {

// Operations a clock of one multiprocessor's Tensor Cores on 8-bit operands; half on 16 bits.
double operations_a_clock(int capability) {
    if (capability >= 120) return 2048;
    if (capability >= 100) return 16384;
    if (capability >= 90) return 8192;
    return capability == 80 ? 4096 : 2048;
}

// Which product a dense library offers for a type, and its cost beside one of int8.
struct substitute {
    const char* library;
    double relative_time;
    int operand_bits;
};

// Integers of 12 and 16 bits need two products of 8 bits, or four.
double planes_of(dtype type) {
    return type == dtype::int16 || type == dtype::int12 ? 2 : 1;
}

substitute substitute_for(precision_pair pair, int capability) {
    if (is_integer(pair.lhs))
        return {"cuBLASLt int8", planes_of(pair.lhs) * planes_of(pair.rhs), 8};
    if (pair.lhs == dtype::e4m3 && capability >= 89) return {"cuBLASLt fp8", 1, 8};
    if (pair.lhs == dtype::fp32) return {"cuBLASLt tf32", 4, 32};
    return {pair.lhs == dtype::bf16 ? "cuBLASLt bf16" : "cuBLASLt fp16", 2, 16};
}

}  // namespace

dense_estimate estimate_dense(const gpu_speed& gpu, const dense_product& p) {
    if (gpu.clock_mhz <= 0 || gpu.bytes_per_us <= 0 || gpu.compute_capability < 80) return {};
    constexpr double launch_us = 3;
    constexpr double reached = 0.8;          // of the Tensor Cores' rate
    constexpr double memory_reached = 0.85;  // of the memory's
    const auto kind = substitute_for(p.pair, gpu.compute_capability);
    const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n);
    const auto k = static_cast<double>(p.k), batch = static_cast<double>(p.batch_count);
    const double operations_per_us =
        operations_a_clock(gpu.compute_capability) * gpu.multiprocessors * gpu.clock_mhz;
    const double arithmetic =
        2 * m * n * k * batch * kind.relative_time / (operations_per_us * reached);
    const double bytes = batch * ((m * k + k * n) * kind.operand_bits / 8 +
                                  m * n * static_cast<double>(storage_bits(p.out_type)) / 8);
    const double traffic = bytes / gpu.bytes_per_us;
    return {std::max(launch_us + arithmetic + traffic, traffic / memory_reached), kind.library};
}

dense_estimate estimate_dense(const context& ctx, const dense_product& product) {
    if (ctx.on_cpu()) return {};
    return estimate_dense(speed_of_gpu(ctx.ordinal), product);
}

}  // namespace magicube
