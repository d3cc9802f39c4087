// SPDX-License-Identifier: Apache-2.0
#include "pattern.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common.hpp"

namespace bench {
namespace {

// Lengths that vary as exp(normal) and sum to about `total`, none above `longest`.
std::vector<int64_t> lognormal_lengths(int64_t rows, int64_t longest, double total,
                                       generator& random) {
    std::lognormal_distribution<double> draw(0, 1);
    std::vector<double> weights(static_cast<size_t>(rows));
    for (double& weight : weights) weight = draw(random);
    const auto length = [&](double scale, double weight) {
        return std::min(static_cast<double>(longest), std::round(scale * weight));
    };
    double low = 0, high = 1e3 * static_cast<double>(longest);
    for (int step = 0; step < 100; ++step) {
        const double scale = (low + high) / 2;
        double sum = 0;
        for (double weight : weights) sum += length(scale, weight);
        (sum < total ? low : high) = scale;
    }
    std::vector<int64_t> lengths;
    for (double weight : weights) lengths.push_back(static_cast<int64_t>(length(high, weight)));
    return lengths;
}

std::vector<int64_t> draw_lengths(const pattern_shape& shape, int64_t block_rows,
                                  generator& random) {
    if (shape.lengths == row_lengths::lognormal) {
        const double all = static_cast<double>(block_rows) * static_cast<double>(shape.cols);
        return lognormal_lengths(block_rows, shape.cols, all * shape.density, random);
    }
    std::binomial_distribution<int64_t> draw(shape.cols, shape.density);
    std::vector<int64_t> lengths(static_cast<size_t>(block_rows));
    for (int64_t& length : lengths) length = draw(random);
    return lengths;
}

}  // namespace

void append_columns(int64_t count, int64_t cols, generator& random, std::vector<int32_t>& columns) {
    int64_t wanted = count;
    for (int64_t col = 0; wanted > 0; ++col) {
        const auto left = static_cast<uint64_t>(cols - col);
        if (random() % left >= static_cast<uint64_t>(wanted)) continue;
        columns.push_back(static_cast<int32_t>(col));
        --wanted;
    }
}

int64_t pattern::vectors() const {
    return std::accumulate(row_end.begin(), row_end.end(), int64_t{0}) -
           std::accumulate(row_begin.begin(), row_begin.end(), int64_t{0});
}

pattern make_pattern(const pattern_shape& shape, generator& random) {
    pattern p{shape.rows, shape.cols, shape.vector_length, shape.stride, {}, {}, {}};
    for (int64_t length : draw_lengths(shape, ceil_div(shape.rows, shape.vector_length), random)) {
        p.row_begin.push_back(p.slots());
        append_columns(length, shape.cols, random, p.col_indices);
        p.row_end.push_back(p.slots());
        p.col_indices.resize(static_cast<size_t>(round_up(p.slots(), shape.stride)), -1);
    }
    return p;
}

int64_t shared_gathers(const pattern& p) {
    const int64_t group = std::max(1, 8 / p.vector_length);
    if (group == 1) return p.vectors();
    std::vector<int64_t> last_seen(static_cast<size_t>(p.cols), -1);
    int64_t gathers = 0;
    for (int64_t row = 0; row < p.block_rows(); ++row) {
        for (int64_t slot = p.row_begin[row]; slot < p.row_end[row]; ++slot) {
            int64_t& seen = last_seen[static_cast<size_t>(p.col_indices[slot])];
            gathers += seen != row / group;
            seen = row / group;
        }
    }
    return gathers;
}

}  // namespace bench
