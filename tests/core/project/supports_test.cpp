// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "core/project/matrices.hpp"

using namespace magicube;
using namespace support;

namespace {

struct pair_result {
    stored<float> left, right;
    projection_report report;

    wide product() const { return times(left.numbers(), right.numbers()); }
};

pair_result project(const wide& w, const wide& left_support, const wide& right_support,
                    const column_weights& weights = {}) {
    stored<float> source(w);
    stored<uint8_t> first(left_support), second(right_support);
    pair_result result{
        stored<float>(w.rows, left_support.cols), stored<float>(right_support.rows, w.cols), {}};
    std::fill(result.left.values.begin(), result.left.values.end(), NAN);
    std::fill(result.right.values.begin(), result.right.values.end(), NAN);
    support_operands o;
    o.weight = source.view();
    o.left_support = first.view();
    o.right_support = second.view();
    o.left = result.left.view();
    o.right = result.right.view();
    result.report = project_supports(context(), o, weights);
    return result;
}

wide support_of(const kronecker_shape& k) {
    chain_values ones({k});
    std::fill(ones.values[0].begin(), ones.values[0].end(), 1.0f);
    return ones.factor(0);
}

std::vector<int64_t> shuffled(int64_t n, std::mt19937_64& random) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    return order;
}

wide permuted(const wide& from, const std::vector<int64_t>& rows,
              const std::vector<int64_t>& cols) {
    wide result(from.rows, from.cols);
    for (int64_t i = 0; i < from.rows; ++i)
        for (int64_t j = 0; j < from.cols; ++j)
            result.at(i, j) = from.at(rows[static_cast<size_t>(i)], cols[static_cast<size_t>(j)]);
    return result;
}

bool zero_outside(const stored<float>& factor, const wide& support) {
    for (size_t i = 0; i < factor.values.size(); ++i)
        if (support.values[i] == 0 && factor.values[i] != 0) return false;
    return true;
}

}  // namespace

TEST_SUITE_BEGIN("project");

TEST_CASE("Projection onto two supports: those of a chain in any order of rows, k and columns") {
    std::mt19937_64 random(11);
    const shapes list = {{2, 3, 4, 6}, {4, 6, 5, 2}};
    const wide w = normal(list[0].rows(), list[1].cols(), random);
    const wide left = support_of(list[0]), right = support_of(list[1]);
    chain_values chain(list);
    stored<float> source(w);
    const double expected = project_chain(context(), source.view(), {}, chain.view()).error();

    const auto rows = shuffled(w.rows, random), inner = shuffled(left.cols, random),
               cols = shuffled(w.cols, random);
    const wide first = permuted(left, rows, inner), second = permuted(right, inner, cols);
    const wide moved = permuted(w, rows, cols);
    const auto found = project(moved, first, second);
    CHECK(found.report.error() == doctest::Approx(expected));
    CHECK(norm(sum(moved, -1, found.product())) == doctest::Approx(expected).epsilon(1e-5));
    CHECK(found.report.bound() == found.report.error());
    CHECK(zero_outside(found.left, first));
    CHECK(zero_outside(found.right, second));
}

TEST_CASE("Projection onto two supports: rectangles of several ranks, gaps, empty ones") {
    // k:        0 1 | 2     | 3 has no rows | 4 has no columns
    // rows:     0 2 | 1 3 4 |               | 0
    // columns:  1 4 | 0 2 5 | 3             |
    wide left(6, 5), right(5, 6);
    for (const int k : {0, 1}) {
        for (const int row : {0, 2}) left.at(row, k) = 1;
        for (const int col : {1, 4}) right.at(k, col) = 1;
    }
    for (const int row : {1, 3, 4}) left.at(row, 2) = 255;
    for (const int col : {0, 2, 5}) right.at(2, col) = 1;
    right.at(3, 3) = 1;
    left.at(0, 4) = 1;
    std::mt19937_64 random(12);
    wide w(6, 6);
    const double two[] = {1, 2, 3, 4}, one[] = {1, 2, 3, 2, 4, 6, -1, -2, -3};
    size_t at = 0;
    for (const int row : {0, 2})
        for (const int col : {1, 4}) w.at(row, col) = two[at++];
    at = 0;
    for (const int row : {1, 3, 4})
        for (const int col : {0, 2, 5}) w.at(row, col) = one[at++];
    auto found = project(w, left, right);
    CHECK(found.report.relative_error() < 1e-12);
    CHECK(norm(sum(w, -1, found.product())) < 1e-5);
    CHECK(zero_outside(found.left, left));
    CHECK(zero_outside(found.right, right));

    w.at(5, 5) = 3;  // outside every rectangle
    w.at(0, 3) = -4;
    found = project(w, left, right);
    CHECK(found.report.error() == doctest::Approx(5));
    CHECK(found.report.least_error() == doctest::Approx(5));

    const auto empty = project(wide(0, 6), wide(0, 5), right);
    CHECK(empty.report.error() == 0);
    CHECK(project(wide(6, 0), left, wide(5, 0)).report.relative_error() == 0);
    CHECK(project(w, wide(6, 0), wide(0, 6)).report.relative_error() == doctest::Approx(1));
}

TEST_CASE("Projection onto two supports: weights") {
    std::mt19937_64 random(13);
    const wide w = normal(9, 7, random), left = support_of({1, 9, 2, 1}),
               right = support_of({1, 2, 7, 1});
    stored<float> columns(1, 7);
    for (size_t j = 0; j < 7; ++j) columns.values[j] = static_cast<float>(j + 1);
    const dense_view given = columns.view();
    const auto found = project(w, left, right, {weighting::columns, &given});
    const auto scale = columns.numbers().values;
    CHECK(norm(sum(w, -1, found.product()), scale) ==
          doctest::Approx(found.report.error()).epsilon(1e-5));
    CHECK(found.report.error() < norm(sum(w, -1, project(w, left, right).product()), scale));
}

TEST_CASE("Projection onto two supports: what is refused") {
    const wide w(4, 4);
    wide left(4, 2), right(2, 4);
    left.at(0, 0) = left.at(1, 0) = left.at(1, 1) = left.at(2, 1) = 1;
    right.at(0, 0) = right.at(0, 1) = right.at(1, 1) = right.at(1, 2) = 1;
    CHECK(refuses([&] { project(w, left, right); },
                  "the rectangles of k = 0 and k = 1 meet at [1, 1] and differ"));
    CHECK(refuses([&] { project(w, wide(3, 2), right); }, "left_support has 3 rows; weight has 4"));
    CHECK(refuses([&] { project(w, left, wide(3, 4)); },
                  "left_support has 2 columns; it must have 3, the rows of right_support"));

    stored<float> source(w), first(4, 2), second(2, 4);
    stored<uint8_t> masks(4, 2), other(2, 4);
    support_operands good;
    good.weight = source.view();
    good.left_support = masks.view();
    good.right_support = other.view();
    good.left = first.view();
    good.right = second.view();
    const auto run = [](const support_operands& o) {
        return [&o] { project_supports(context(), o, {}); };
    };
    auto wrong = good;
    wrong.left_support.type = dtype::int8;
    CHECK(refuses(run(wrong), "left_support is of type int8; it must be uint8"));
    wrong = good;
    wrong.right.type = dtype::int32;
    CHECK(refuses(run(wrong), "right is of type int32; it must be a floating type"));
    wrong = good;
    wrong.left = wrong.right;
    CHECK(refuses(run(wrong), "left"));
    wrong = good;
    wrong.right.values = wrong.left.values;
    CHECK(refuses(run(wrong), "right"));
    source.values[5] = -INFINITY;
    CHECK(refuses(run(good), "weight[1, 1] (batch 0) is -inf; it must be finite"));
}
