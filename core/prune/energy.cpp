// SPDX-License-Identifier: Apache-2.0
// How much of a weight pruning kept, and how gradual pruning proceeds.
#include <array>
#include <cmath>
#include <numeric>

#include "core/formats/validate.hpp"
#include "core/prune/vnm.hpp"
#include "core/types/runs.hpp"

namespace magicube {
namespace {

// The sum of one stored line.
double sum_of_line(const dense_view& m, const dense_view* mask, int64_t batch, int64_t line) {
    constexpr int64_t step = 256;
    const bool by_row = m.storage == order::row;
    std::array<double, step> run;
    double sum = 0;
    for (int64_t start = 0; start < m.inner(); start += step) {
        const int64_t length = std::min(step, m.inner() - start);
        const int64_t first = m.index(batch, by_row ? line : start, by_row ? start : line);
        load_run(m.type, m.values, first, length, run.data());
        for (int64_t i = 0; i < length; ++i) {
            const double x = run[static_cast<size_t>(i)];
            if (mask) {
                const int64_t at = by_row ? mask->index(batch, line, start + i)
                                          : mask->index(batch, start + i, line);
                if (!static_cast<const uint8_t*>(mask->values)[at]) continue;
            }
            sum += x * x;
        }
    }
    return sum;
}

}  // namespace

double sum_of_squares(const context& ctx, const dense_view& matrix, const dense_view* mask) {
    if (matrix.empty()) return 0;
    // Parts of a number that does not depend on the threads, so that the sum does not either.
    constexpr int64_t parts = 64;
    std::array<double, parts> sums = {};
    const int64_t lines = checked_mul(matrix.outer(), matrix.batch_count, "lines");
    const int64_t length = ceil_div(lines, parts);
    ctx.parallel(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part) {
            const int64_t first = std::min(part * length, lines);
            for (int64_t i = first; i < std::min(first + length, lines); ++i) {
                sums[static_cast<size_t>(part)] +=
                    sum_of_line(matrix, mask, i / matrix.outer(), i % matrix.outer());
            }
        }
    });
    return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double kept_energy(const context& ctx, const dense_view& weight, const dense_view& mask) {
    require_cpu(ctx, "the kept energy");
    require_value(mask.type == dtype::uint8, "mask is of type ", name_of(mask.type),
                  "; it must be uint8");
    require_same_shape(shape_of(mask), "mask", shape_of(weight), "weight");
    if (ctx.validates()) require_finite(ctx, weight, "weight");
    const double all = sum_of_squares(ctx, weight);
    return all == 0 ? 1 : sum_of_squares(ctx, weight, &mask) / all;
}

void vnm_schedule(int32_t m, int32_t n, int32_t steps, int32_t* schedule) {
    require_value(m >= 4 && m <= 65536, "m is ", m, "; it must be from 4 to 65536");
    require_value(n >= 1 && n <= m, "n is ", n, "; it must be from 1 to m, which is ", m);
    require_value(steps >= 1, "steps is ", steps, "; it must be at least 1");
    require_value(schedule != nullptr, "schedule is null; it must hold ", steps, " numbers");
    const double ratio = static_cast<double>(n) / m;
    for (int32_t i = 0; i < steps; ++i) {
        const double kept = m * std::pow(ratio, (i + 1.0) / steps);
        schedule[i] = std::clamp(static_cast<int32_t>(std::lround(kept)), n, m);
    }
}

}  // namespace magicube
