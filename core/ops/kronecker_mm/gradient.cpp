// SPDX-License-Identifier: Apache-2.0
// The gradient of a factor's values: its checks, and the CPU's. A task is 8 outputs by 8 inputs of
// one block and residue; the vectors pass in runs of 64, unpacked to the stack, and the 64 sums
// stay there in fp64.
#include <algorithm>

#include "core/formats/kronecker/convert.hpp"
#include "core/formats/validate.hpp"
#include "core/ops/kronecker_mm/cuda/gradient.hpp"
#include "core/types/runs.hpp"

namespace magicube::kronecker_mm {
namespace {

constexpr int64_t side = 8;
constexpr int64_t run_length = 64;

// Vectors [first, first + count) of one feature.
template <dtype T>
void load_feature(const dense_view& view, int64_t batch, int64_t feature, int64_t first,
                  int64_t count, float* out) {
    for (int64_t n = 0; n < count; ++n) {
        out[n] = static_cast<float>(
            element<T>::load(view.values, view.index(batch, feature, first + n)));
    }
}

struct job {
    const dense_view& x;
    const dense_view& dy;
    const kronecker_view& target;
    const kronecker_factor& k;

    int64_t j_blocks() const { return ceil_div(k.b, side); }
    int64_t k_blocks() const { return ceil_div(k.c, side); }
    int64_t tasks() const {
        return checked_mul(checked_mul(k.a * k.d, j_blocks(), "the gradient's tasks"), k_blocks(),
                           "the gradient's tasks");
    }

    template <dtype T>
    void run(int64_t task) const {
        const int64_t k_first = task % k_blocks() * side;
        const int64_t j_first = task / k_blocks() % j_blocks() * side;
        const int64_t l = task / k_blocks() / j_blocks() % k.d;
        const int64_t i = task / k_blocks() / j_blocks() / k.d;
        const int64_t outputs = std::min(side, k.b - j_first);
        const int64_t inputs = std::min(side, k.c - k_first);
        double sums[side][side] = {};
        float from[side][run_length], to[side][run_length];
        for (int64_t batch = 0; batch < x.batch_count; ++batch) {
            for (int64_t first = 0; first < x.cols; first += run_length) {
                const int64_t count = std::min(run_length, x.cols - first);
                for (int64_t e = 0; e < inputs; ++e) {
                    load_feature<T>(x, batch, (i * k.c + k_first + e) * k.d + l, first, count,
                                    from[e]);
                }
                for (int64_t e = 0; e < outputs; ++e) {
                    load_feature<T>(dy, batch, (i * k.b + j_first + e) * k.d + l, first, count,
                                    to[e]);
                }
                for (int64_t j = 0; j < outputs; ++j) {
                    for (int64_t e = 0; e < inputs; ++e) {
                        double sum = 0;
                        for (int64_t n = 0; n < count; ++n)
                            sum += static_cast<double>(to[j][n]) * from[e][n];
                        sums[j][e] += sum;
                    }
                }
            }
        }
        for (int64_t j = 0; j < outputs; ++j) {
            for (int64_t e = 0; e < inputs; ++e) {
                const auto value = static_cast<float>(sums[j][e]);
                store_run(target.type, k.values, k.value_index(i, j_first + j, k_first + e, l), 1,
                          &value);
            }
        }
    }
};

bool is_gradient_type(dtype type) {
    return type == dtype::fp32 || type == dtype::fp16 || type == dtype::bf16;
}

}  // namespace

void gradient(const context& ctx, const dense_view& given_x, const dense_view& given_dy,
              batch_layout layout, const kronecker_view& target) {
    const auto& k = only_factor(target, "gradient");
    require_values(target, "gradient");
    const auto x = as_columns(given_x, layout), dy = as_columns(given_dy, layout);
    require(is_gradient_type(x.type) && is_gradient_type(target.type), status::not_supported,
            "X is ", name_of(x.type), " and gradient ", name_of(target.type),
            "; each must be fp32, fp16 or bf16");
    require_value(dy.type == x.type, "dY is ", name_of(dy.type), "; it must be ", name_of(x.type),
                  " as X is");
    require_value(x.rows == k.cols(), "X has ", x.rows, " features; it must have ", k.cols(),
                  ", the columns of gradient");
    require_value(dy.rows == k.rows(), "dY has ", dy.rows, " features; it must have ", k.rows(),
                  ", the rows of gradient");
    require_value(dy.cols == x.cols && dy.batch_count == x.batch_count, "dY holds ", dy.cols,
                  " vectors in a batch of ", dy.batch_count, "; it must be ", x.cols,
                  " in a batch of ", x.batch_count, " as X");
    const auto values = array_view(k.values, target.type, k.value_count());
    check_no_overlap(values, "gradient's values", x, "X");
    check_no_overlap(values, "gradient's values", dy, "dY");
    if (!ctx.on_cpu()) return cuda::gradient(ctx, x, dy, target.type, k);
    const job work{x, dy, target, k};
    visit(x.type, [&](auto type) {
        constexpr dtype T = decltype(type)::value;
        if constexpr (is_floating(T)) {
            ctx.parallel(work.tasks(), 1, [&work](int64_t begin, int64_t end) {
                for (int64_t task = begin; task < end; ++task) work.run<T>(task);
            });
        }
    });
}

}  // namespace magicube::kronecker_mm
