// SPDX-License-Identifier: Apache-2.0
// KroneckerMM as its definition reads, for every problem: the oracle of the other implementations.
//
// A task takes 16 vectors through the chain, factor by factor. They lie in the workspace as
// [feature][16] in fp64, which also holds every sum of integers exactly: a product of int8 is at
// most 2^14, so that it would take 2^39 of them to leave 53 bits. Only the last result is rounded.
#include "core/ops/reference.hpp"
#include "core/ops/kronecker_mm/cpu/tiles.hpp"
#include "core/ops/kronecker_mm/stored_factors.hpp"

namespace magicube::kronecker_mm {
namespace {

using namespace cpu;

constexpr int64_t width = 16;  // vectors of a tile

// Doubles of each of a slot's two buffers.
int64_t buffer_length(const problem& p) {
    int64_t features = std::max(p.m(), p.k());
    for (const auto& factor : p.pattern.factors)
        features = std::max({features, factor.rows(), factor.cols()});
    return checked_mul(features, width, "workspace");
}

buffer_needs reference_needs(const context&, const problem& p) {
    const int64_t slot_bytes = checked_mul(buffer_length(p), 2 * sizeof(double), "workspace");
    return {stored_factors(p).bytes, checked_mul(slot_bytes, slot_count(p, width), "workspace")};
}

template <dtype T>
void load_tile(const dense_view& x, int64_t batch, int64_t col, int64_t cols, double* tile) {
    for (int64_t row = 0; row < x.rows; ++row) {
        for (int64_t n = 0; n < width; ++n) {
            tile[row * width + n] =
                n < cols
                    ? static_cast<double>(element<T>::load(x.values, x.index(batch, row, col + n)))
                    : 0;
        }
    }
}

template <dtype T>
void apply(const step& s, const void* values, const double* x, double* y) {
    std::fill_n(y, s.rows() * width, 0);
    for (int64_t i = 0; i < s.a; ++i) {
        for (int64_t j = 0; j < s.b; ++j) {
            for (int64_t k = 0; k < s.c; ++k) {
                for (int64_t l = 0; l < s.d; ++l) {
                    const auto value =
                        static_cast<double>(element<T>::load(values, s.index(i, j, k, l)));
                    const double* from = x + ((i * s.c + k) * s.d + l) * width;
                    double* to = y + ((i * s.b + j) * s.d + l) * width;
                    for (int64_t n = 0; n < width; ++n) to[n] += value * from[n];
                }
            }
        }
    }
}

template <dtype Y>
void store_tile(const epilogue& finish, const dense_view& y, int64_t batch, int64_t col,
                int64_t cols, const double* sums) {
    for (int64_t row = 0; row < y.rows; ++row) {
        for (int64_t n = 0; n < cols; ++n) {
            const int64_t index = y.index(batch, row, col + n);
            const double sum = sums[row * width + n];
            if constexpr (Y == dtype::int32) {
                auto bits = static_cast<uint32_t>(static_cast<int64_t>(sum));  // modulo 2^32
                if (finish.reads_c())
                    bits += static_cast<uint32_t>(element<Y>::load(y.values, index));
                element<Y>::store(y.values, index, static_cast<int32_t>(bits));
            } else {
                float old = 0;
                if (finish.reads_c()) old = static_cast<float>(element<Y>::load(y.values, index));
                store_rounded<Y>(y.values, index,
                                 finish(row, col + n, static_cast<float>(sum), old));
            }
        }
    }
}

class reference_plan final : public plan {
  public:
    reference_plan(const context& ctx, const kronecker_mm::problem& p, plan_resources resources)
        : plan(ctx, p, std::move(resources)), steps_(steps_of(p.pattern, p.transpose)), stored_(p) {
        if (p.values == value_mode::per_call) return;
        reference_plan::pack_values(ctx, value_arrays(p).data());
    }

    void pack_values(const context& ctx, const void* const* values) override {
        stored_.copy(ctx, problem(), values, resources().buffer.data());
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const auto x = as_columns(args.x, p.layout), y = as_columns(args.y, p.layout);
        const int64_t tiles = ceil_div(y.cols, width);
        const int64_t length = buffer_length(p);
        for_each_task(
            ctx, tiles * p.batch_count, slot_count(p, width), [&](int64_t slot, int64_t tile) {
                double* buffer = static_cast<double*>(args.workspace) + slot * 2 * length;
                run_tile(args, x, y, tile / tiles, tile % tiles * width, buffer, buffer + length);
            });
    }

  private:
    const void* values_of(const arguments& args, int64_t factor) const {
        if (problem().values == value_mode::per_call) return args.k_values[factor];
        return resources().buffer.data() + stored_.offsets[static_cast<size_t>(factor)];
    }

    void run_tile(const arguments& args, const dense_view& x, const dense_view& y, int64_t batch,
                  int64_t col, double* from, double* to) const {
        const auto& p = problem();
        const int64_t cols = std::min(width, y.cols - col);
        visit(p.pattern.type, [&](auto type) {
            constexpr dtype T = decltype(type)::value;
            if constexpr (is_floating(T) || T == dtype::int8) {
                load_tile<T>(x, batch, col, cols, from);
                for (const auto& s : steps_) {
                    apply<T>(s, values_of(args, s.first), from, to);
                    std::swap(from, to);
                }
            }
        });
        const auto finish = read_epilogue(p, args, batch);
        visit(p.y_type, [&](auto type) {
            constexpr dtype Y = decltype(type)::value;
            if constexpr (is_product_output(dtype::int8, Y, false))
                store_tile<Y>(finish, y, batch, col, cols, from);
        });
    }

    std::vector<step> steps_;
    stored_factors stored_;
};

double reference_cost(const context&, const problem& p) {
    constexpr double products_per_us = 1000;
    double products = 0;
    for (const auto& factor : p.pattern.factors)
        products += static_cast<double>(factor.value_count());
    return products * static_cast<double>(p.n_max) * static_cast<double>(p.batch_count) /
           products_per_us;
}

}  // namespace

extern const implementation<operation> cpu_reference;
const implementation<operation> cpu_reference = reference_implementation<operation, reference_plan>(
    "reference", device_kind::cpu, reference_cost, reference_needs);

}  // namespace magicube::kronecker_mm
