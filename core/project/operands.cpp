// SPDX-License-Identifier: Apache-2.0
#include "core/project/operands.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/formats/validate.hpp"
#include "core/types/rows.hpp"

namespace magicube {
namespace {

// Columns that one thread sums up at a time.
constexpr int64_t band_cols = 256;

// A feature that was never active still needs a value: this part of the largest weight.
constexpr double least_weight = 1e-6;

void check_given(const dense_view& given, weighting kind, int64_t cols) {
    require_value(given.cols == cols, "weights has ", given.cols, " columns; weight has ", cols);
    if (kind == weighting::activations) {
        require_value(given.rows > 0 && given.batch_count > 0,
                      "weights, of activations, is empty; it must hold at least one sample");
        return;
    }
    require_value(given.rows == 1 && given.batch_count == 1, "weights, of columns, is a batch of ",
                  given.batch_count, " with ", given.rows, " rows; it must be one matrix of 1 x ",
                  cols);
}

std::vector<double> column_numbers(const dense_view& given) {
    std::vector<double> numbers(static_cast<size_t>(given.cols));
    load_row(given, 0, 0, 0, given.cols, numbers.data());
    for (size_t i = 0; i < numbers.size(); ++i)
        require_value(numbers[i] > 0, "weights[", i, "] is ", numbers[i], "; it must be positive");
    return numbers;
}

// The root mean square of each feature.
std::vector<double> feature_sizes(const context& ctx, const dense_view& samples) {
    std::vector<double> sizes(static_cast<size_t>(samples.cols));
    const double count =
        static_cast<double>(samples.rows) * static_cast<double>(samples.batch_count);
    ctx.parallel(samples.cols, band_cols, [&](int64_t begin, int64_t end) {
        std::vector<double> numbers(static_cast<size_t>(end - begin)), sums(numbers.size());
        for (int64_t batch = 0; batch < samples.batch_count; ++batch) {
            for (int64_t row = 0; row < samples.rows; ++row) {
                load_row(samples, batch, row, begin, end - begin, numbers.data());
                for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i] * numbers[i];
            }
        }
        for (size_t i = 0; i < sums.size(); ++i)
            sizes[static_cast<size_t>(begin) + i] = std::sqrt(sums[i] / count);
    });
    const double largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
    const double least = largest > 0 ? least_weight * largest : 1;
    for (double& size : sizes) size = std::max(size, least);
    return sizes;
}

double largest_of(dtype type) {
    switch (type) {
        case dtype::fp16:
            return 65504;
        case dtype::bf16:
            return 0x1.fep127;
        case dtype::e4m3:
            return 448;
        default:
            return 0x1.fffffep127;
    }
}

}  // namespace

void check_weight(const context& ctx, const dense_view& weight) {
    require_value(weight.batch_count == 1, "weight is a batch of ", weight.batch_count,
                  "; it must be one matrix");
    require_finite(ctx, weight, "weight");
}

std::vector<double> read_weights(const context& ctx, const column_weights& weights, int64_t cols) {
    if (weights.kind == weighting::none) {
        require_value(weights.given == nullptr,
                      "weights is given; with MAGICUBE_WEIGHTING_NONE it must be null");
        return std::vector<double>(static_cast<size_t>(cols), 1.0);
    }
    require_value(weights.given != nullptr, "weights is null; the weighting asked for needs it");
    const dense_view& given = *weights.given;
    check_given(given, weights.kind, cols);
    require_finite(ctx, given, "weights");
    return weights.kind == weighting::columns ? column_numbers(given) : feature_sizes(ctx, given);
}

void require_fits(const std::vector<double>& numbers, dtype type, const char* argument) {
    const double largest = largest_of(type);
    for (const double number : numbers) {
        require_value(std::fabs(number) <= largest, argument, " would hold ", number, "; ",
                      name_of(type), " holds at most ", largest,
                      " (scale weight, or choose a wider type)");
    }
}

double sum_of(const std::vector<double>& partial) {
    return std::accumulate(partial.begin(), partial.end(), 0.0);
}

double projection_report::error() const {
    double square = 0;
    for (const double step : lost) square += step * step;
    return std::sqrt(square);
}

double projection_report::relative_error() const {
    return norm > 0 ? error() / norm : 0;
}

double projection_report::least_error() const {
    return *std::max_element(lost.begin(), lost.end());
}

double projection_report::bound() const {
    return std::sqrt(static_cast<double>(lost.size())) * least_error();
}

}  // namespace magicube
