// SPDX-License-Identifier: Apache-2.0
// Truncated decompositions against matrices made of known singular values.
#include "core/project/low_rank.hpp"

#include "core/project/matrices.hpp"

using namespace magicube;
using namespace support;

TEST_SUITE_BEGIN("project");

TEST_CASE("Low rank: known singular values, of tall, wide and square blocks") {
    std::mt19937_64 random(1);
    const int64_t sizes[][2] = {{1, 1},   {1, 9},   {9, 1},   {7, 5},  {5, 7},
                                {40, 40}, {90, 20}, {20, 90}, {33, 31}};
    for (const auto& [rows, cols] : sizes) {
        const int64_t least = std::min(rows, cols);
        const wide u = orthonormal(rows, least, random), v = orthonormal(cols, least, random);
        wide block(rows, cols);
        for (int64_t s = 0; s < least; ++s)
            for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < cols; ++j)
                    block.at(i, j) += std::pow(0.7, s) * u.at(i, s) * v.at(j, s);
        for (const int64_t rank : {int64_t{1}, int64_t{3}, least, least + 2}) {
            CAPTURE(rows);
            CAPTURE(cols);
            CAPTURE(rank);
            wide left(rows, rank), right(rank, cols);
            const double lost = best_low_rank(block.values.data(), rows, cols, rank,
                                              left.values.data(), right.values.data());
            double tail = 0;
            for (int64_t s = rank; s < least; ++s) tail += std::pow(0.49, s);
            CHECK(std::sqrt(lost) == doctest::Approx(std::sqrt(tail)).epsilon(1e-10));
            CHECK(norm(sum(block, -1, times(left, right))) <= std::sqrt(tail) + 1e-12);
            for (int64_t x = 0; x < rank; ++x)
                for (int64_t y = 0; y <= x; ++y) {
                    double dot = 0;
                    for (int64_t i = 0; i < rows; ++i) dot += left.at(i, x) * left.at(i, y);
                    CHECK(std::fabs(dot - (x == y && x < least ? 1 : 0)) < 1e-12);
                }
        }
    }
}

TEST_CASE("Low rank: zeros, and numbers near the ends of the range") {
    for (const double scale : {0.0, 1e-150, 1e150}) {
        const double block[6] = {scale, 0, 0, 0, 2 * scale, 0};
        double left[2], right[3];
        const double lost = best_low_rank(block, 2, 3, 1, left, right);
        CHECK(lost == doctest::Approx(scale * scale));
        CHECK(left[1] * right[1] == doctest::Approx(2 * scale));
        CHECK(std::fabs(left[0] * right[0]) <= 1e-15 * scale);
    }
}
