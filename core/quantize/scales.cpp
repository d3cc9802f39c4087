// SPDX-License-Identifier: Apache-2.0
#include "core/quantize/scales.hpp"

#include <array>
#include <cmath>
#include <mutex>

#include "core/common/checked.hpp"
#include "core/quantize/scale_rules.hpp"
#include "core/quantize/tiles.hpp"

namespace magicube {
namespace {

constexpr int candidates = scale_candidates;

// maxima[i] = the larger of itself and |number i| of a run; NaN is passed over.
class run_maxima {
  public:
    static constexpr int64_t length = 256;

    void add(const dense_view& matrix, int64_t first, int64_t count) {
        std::array<float, length> numbers;
        load_run(matrix.type, matrix.values, first, count, numbers.data());
        for (int64_t i = 0; i < count; ++i) {
            const float magnitude = std::fabs(numbers[i]);
            maxima_[i] = magnitude > maxima_[i] ? magnitude : maxima_[i];
        }
    }
    float operator[](int64_t i) const { return maxima_[i]; }
    float largest() const { return *std::max_element(maxima_.begin(), maxima_.end()); }

  private:
    std::array<float, length> maxima_{};
};

// Largest magnitude of every stored line.
template <class Store>
void absmax_of_lines(const context& ctx, const dense_view& matrix, int64_t batch,
                     const Store& store) {
    ctx.parallel(matrix.outer(), 16, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
            run_maxima maxima;
            const int64_t first = batch * matrix.batch_stride + line * matrix.ld;
            for (int64_t i = 0; i < matrix.inner(); i += run_maxima::length) {
                maxima.add(matrix, first + i, std::min(run_maxima::length, matrix.inner() - i));
            }
            store(line, maxima.largest());
        }
    });
}

// Largest magnitude across the stored lines, at every place along them.
void absmax_across_lines(const context& ctx, const dense_view& matrix, int64_t batch, float* out) {
    const int64_t runs = ceil_div(matrix.inner(), run_maxima::length);
    ctx.parallel(runs, 1, [&](int64_t begin, int64_t end) {
        for (int64_t run = begin; run < end; ++run) {
            const int64_t i = run * run_maxima::length;
            const int64_t count = std::min(run_maxima::length, matrix.inner() - i);
            run_maxima maxima;
            for (int64_t line = 0; line < matrix.outer(); ++line) {
                maxima.add(matrix, batch * matrix.batch_stride + line * matrix.ld + i, count);
            }
            for (int64_t k = 0; k < count; ++k) out[i + k] = maxima[k];
        }
    });
}

void find_absmax(const context& ctx, const dense_view& matrix, int64_t batch, granularity per,
                 float* out) {
    if (per == granularity::tensor) {
        std::mutex mutex;
        out[0] = 0;
        absmax_of_lines(ctx, matrix, batch, [&](int64_t, float magnitude) {
            std::lock_guard lock(mutex);
            out[0] = std::max(out[0], magnitude);
        });
    } else if ((per == granularity::row) == (matrix.storage == order::row)) {
        absmax_of_lines(ctx, matrix, batch,
                        [&](int64_t line, float magnitude) { out[line] = magnitude; });
    } else {
        absmax_across_lines(ctx, matrix, batch, out);
    }
}

// Copies one matrix so that the members of every group are neighbours, group after group.
template <class Op>
void gather_groups(const context& ctx, const dense_view& real, int64_t batch, granularity per,
                   float* scratch, const Op& op) {
    const group_copy copy(real, batch, per, scratch);
    transform(ctx, copy.from, copy.to, scale_array(), op);
}

float percentile_scale(float* magnitudes, int64_t count, double percentile, dtype target) {
    if (count == 0) return 1.0f;
    const int64_t k = percentile_rank(percentile, count);
    std::nth_element(magnitudes, magnitudes + k - 1, magnitudes + count);
    if (*std::max_element(magnitudes + k - 1, magnitudes + count) == 0) return 1.0f;
    return scale_for(magnitudes[k - 1], target);
}

// Sum of the squared errors of a group. Eight partial sums, always of the same members, so that the
// compiler may use vectors and the result never varies.
double squared_error(const float* numbers, int64_t count, float scale, const quantizer& quantize) {
    constexpr int64_t lanes = 8;
    std::array<double, lanes> sums{};
    const auto add = [&](int64_t i, int64_t lane) {
        const double error = error_of(numbers[i], scale, quantize);
        sums[static_cast<size_t>(lane)] += error * error;
    };
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        for (int64_t lane = 0; lane < lanes; ++lane) add(i + lane, lane);
    }
    for (; i < count; ++i) add(i, i % lanes);
    double sum = 0;
    for (const double partial : sums) sum += partial;
    return sum;
}

float best_candidate(const std::array<double, candidates>& errors, float absmax, dtype target) {
    // min_element takes the first of equal ones, which is the larger scale.
    const auto best = std::min_element(errors.begin(), errors.end()) - errors.begin();
    return candidate_scale(absmax, static_cast<int>(best), target);
}

// scales holds the largest magnitudes and receives the scales.
void search_scales(const context& ctx, const float* numbers, int64_t groups, int64_t per_group,
                   dtype target, float* scales) {
    const quantizer quantize(target);
    const auto try_candidate = [&](int64_t group, int i) {
        return squared_error(numbers + group * per_group, per_group,
                             candidate_scale(scales[group], i, target), quantize);
    };
    if (groups == 1 && scales[0] != 0) {  // share the candidates rather than the groups
        std::array<double, candidates> errors;
        ctx.parallel(candidates, 1, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                errors[static_cast<size_t>(i)] = try_candidate(0, static_cast<int>(i));
            }
        });
        scales[0] = best_candidate(errors, scales[0], target);
        return;
    }
    ctx.parallel(groups, 1, [&](int64_t begin, int64_t end) {
        std::array<double, candidates> errors;
        for (int64_t group = begin; group < end; ++group) {
            if (scales[group] == 0) {
                scales[group] = 1;
                continue;
            }
            for (int i = 0; i < candidates; ++i) {
                errors[static_cast<size_t>(i)] = try_candidate(group, i);
            }
            scales[group] = best_candidate(errors, scales[group], target);
        }
    });
}

}  // namespace

int64_t percentile_rank(double percentile, int64_t count) {
    const double rank = std::ceil(percentile / 100 * static_cast<double>(count));
    return static_cast<int64_t>(std::min(std::max(rank, 1.0), static_cast<double>(count)));
}

void find_scales(const context& ctx, const dense_view& real, int64_t batch, granularity per,
                 calibration how, double percentile, dtype target, float* scales, float* scratch) {
    const int64_t groups = group_count(per, real.rows, real.cols);
    const int64_t per_group = real.rows * real.cols / groups;
    if (how == calibration::percentile) {
        gather_groups(ctx, real, batch, per, scratch, [](float* x, const float*, int64_t count) {
            for (int64_t i = 0; i < count; ++i) x[i] = rankable_magnitude(x[i]);
        });
        ctx.parallel(groups, 1, [&](int64_t begin, int64_t end) {
            for (int64_t g = begin; g < end; ++g) {
                scales[g] =
                    percentile_scale(scratch + g * per_group, per_group, percentile, target);
            }
        });
        return;
    }
    find_absmax(ctx, real, batch, per, scales);
    if (how == calibration::mse) {
        gather_groups(ctx, real, batch, per, scratch, [](float*, const float*, int64_t) {});
        search_scales(ctx, scratch, groups, per_group, target, scales);
        return;
    }
    for (int64_t g = 0; g < groups; ++g) scales[g] = scale_for_absmax(scales[g], target);
}

}  // namespace magicube
