// SPDX-License-Identifier: Apache-2.0
#include "core/prune/vnm.hpp"

#include <functional>
#include <limits>
#include <numeric>

#include "core/formats/cases.hpp"
#include "core/formats/vnm/convert.hpp"
#include "core/ops/views.hpp"
#include "core/prune/choose_columns.hpp"
#include "support/aligned_buffer.hpp"

using namespace magicube;
using namespace support;

namespace {

// Calls visit(set) for every set of `size` of the columns 0..width-1, in lexicographic order.
void each_set(int64_t width, int64_t size,
              const std::function<void(const std::vector<int>&)>& visit) {
    std::vector<int> set;
    const std::function<void(int)> grow = [&](int first) {
        if (static_cast<int64_t>(set.size()) == size) return visit(set);
        for (int c = first; c < width; ++c) {
            set.push_back(c);
            grow(c + 1);
            set.pop_back();
        }
    };
    grow(0);
}

struct group_scores {
    int64_t rows;
    int64_t width;
    std::vector<double> numbers;  // row after row

    double at(int64_t r, int c) const { return numbers[static_cast<size_t>(r * width + c)]; }
    // What a row keeps of a set: its n largest, of equal ones those of lowest column.
    std::vector<int> kept(int64_t r, std::vector<int> set, int64_t n) const {
        std::stable_sort(set.begin(), set.end(), [&](int a, int b) { return at(r, a) > at(r, b); });
        set.resize(static_cast<size_t>(n));
        return set;
    }
    double value(const std::vector<int>& set, int64_t n) const {
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r)
            for (const int c : kept(r, set, n)) sum += at(r, c);
        return sum;
    }
    std::vector<int> best_set(int64_t budget, int64_t n) const {
        std::vector<int> best;
        double most = -1;
        each_set(width, budget, [&](const std::vector<int>& set) {
            const double sum = value(set, n);
            if (sum <= most) return;
            most = sum;
            best = set;
        });
        return best;
    }
};

group_scores scores_of(const dense_sample& weight, int64_t batch, int64_t row, int64_t rows,
                       int64_t col, int64_t width, prune_norm norm) {
    group_scores scores{rows, width, {}};
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c) {
            const double x = weight.at(batch, row + r, col + c);
            scores.numbers.push_back(norm == prune_norm::l2 ? x * x : std::fabs(x));
        }
    return scores;
}

// Calls visit(batch, first row, rows, first column, width) for every group of every row group.
template <class Visit>
void each_group(const dense_shape& shape, const vnm_pattern& p, const Visit& visit) {
    for (int64_t b = 0; b < shape.batch; ++b)
        for (int64_t row = 0; row < shape.rows; row += p.vector_length)
            for (int64_t col = 0; col < shape.cols; col += p.m)
                visit(b, row, std::min<int64_t>(p.vector_length, shape.rows - row), col,
                      std::min<int64_t>(p.m, shape.cols - col));
}

dense_shape mask_shape_of(const dense_sample& weight, bool col_major) {
    const auto& shape = weight.shape();
    return {kind::uint8, shape.rows, shape.cols, col_major, 3, shape.batch};
}

void prune_into(const context& ctx, dense_sample& weight, const vnm_pattern& pattern,
                prune_norm norm, dense_sample& mask) {
    const dense_view view = view_of(weight);
    const aligned_buffer workspace(prune_vnm_workspace(ctx, view, pattern));
    prune_vnm(ctx, view, pattern, norm, view_of(mask), workspace.data(), workspace.size());
    CHECK(workspace.guard_intact());
}

// Every byte of the mask, gaps too, against the best of all sets of columns.
void check_against_all_sets(dense_sample& weight, const vnm_pattern& p, prune_norm norm,
                            bool mask_col_major, generator& random) {
    CAPTURE(static_cast<int>(weight.shape().type));
    CAPTURE(weight.shape().rows);
    CAPTURE(weight.shape().cols);
    CAPTURE(p.vector_length);
    CAPTURE(p.n);
    CAPTURE(p.m);
    const dense_shape mask_shape = mask_shape_of(weight, mask_col_major);
    dense_sample wanted(mask_shape, random);
    each_group(
        weight.shape(), p, [&](int64_t b, int64_t row, int64_t rows, int64_t col, int64_t width) {
            const auto scores = scores_of(weight, b, row, rows, col, width, norm);
            const int64_t n = std::min<int64_t>(p.n, width);
            const auto set = scores.best_set(std::min<int64_t>(p.n > 3 ? p.n + 2 : 4, width), n);
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t c = 0; c < width; ++c) wanted.set(b, row + r, col + c, 0);
                for (const int c : scores.kept(r, set, n)) wanted.set(b, row + r, col + c, 1);
            }
        });
    for (const int threads : {0, 1}) {
        context ctx;
        ctx.threads = threads;
        dense_sample mask(mask_shape, random);
        prune_into(ctx, weight, p, norm, mask);
        CHECK(mask.array().bytes() == wanted.array().bytes());
    }
}

vnm_pattern pattern_of(int64_t v, int64_t n, int64_t m) {
    return {static_cast<int32_t>(v), static_cast<int32_t>(n), static_cast<int32_t>(m)};
}

}  // namespace

TEST_CASE("V:N:M magnitude: the best set of columns, every type, V, norm and order") {
    generator random(50);
    for (const kind type : kinds)
        for (const int64_t v : {1, 16, 32, 64})
            for (const auto norm : {prune_norm::l2, prune_norm::l1}) {
                dense_sample weight({type, 67, 27, v % 3 == 1, 2, 2}, random);
                check_against_all_sets(weight, pattern_of(v, 2, 8), norm, v % 32 == 0, random);
            }
    for (const int64_t v : {128, 256}) {
        dense_sample weight({kind::fp32, 300, 12, false, 1}, random);
        check_against_all_sets(weight, pattern_of(v, 2, 8), prune_norm::l2, false, random);
    }
}

TEST_CASE("V:N:M magnitude: every tail of the columns, every M up to 16, n from 1 to M") {
    generator random(51);
    for (const int64_t m : {4, 5, 7, 8, 10})
        for (int64_t cols = m; cols < 2 * m; ++cols)
            for (const int64_t n :
                 {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{5}, m}) {
                if (n > m) continue;
                dense_sample weight({kind::fp32, 19, cols, false, 0}, random);
                check_against_all_sets(weight, pattern_of(16, n, m), prune_norm::l2, false, random);
            }
    dense_sample weight({kind::int8, 32, 16, false, 0}, random);
    check_against_all_sets(weight, pattern_of(16, 2, 16), prune_norm::l2, false, random);
    for (int64_t cols = 0; cols <= 4; ++cols)
        for (const int64_t rows : {0, 1, 17})
            for (const int64_t batch : {0, 1, 3}) {
                dense_sample few({kind::bf16, rows, cols, true, 1, batch}, random);
                check_against_all_sets(few, pattern_of(16, 2, 8), prune_norm::l1, true, random);
            }
}

TEST_CASE("V:N:M magnitude: ties go to the first set and to the lowest column") {
    generator random(52);
    for (const int64_t n : {1, 2, 3, 4})
        for (int repeat = 0; repeat < 5; ++repeat) {
            dense_sample weight({kind::int8, 35, 21, false, 0}, random);
            for (int64_t i = 0; i < 35; ++i)
                for (int64_t j = 0; j < 21; ++j)
                    weight.set(0, i, j, static_cast<double>(uniform(random, -1, 1)));
            check_against_all_sets(weight, pattern_of(16, n, 8), prune_norm::l2, false, random);
        }
    dense_sample ones({kind::fp32, 16, 8, false, 0}, random);
    for (int64_t i = 0; i < 16; ++i) ones.set_row(i, -0.5);
    dense_sample mask(mask_shape_of(ones, false), random);
    prune_into(context(), ones, pattern_of(16, 2, 8), prune_norm::l2, mask);
    for (int64_t j = 0; j < 8; ++j) CHECK(mask.at(0, 15, j) == (j < 2 ? 1 : 0));
}

TEST_CASE("V:N:M magnitude: above 2,000 sets at least 98 % of the best set's energy is kept") {
    CHECK(tries_all_sets(16, 4));
    CHECK(!tries_all_sets(17, 4));
    CHECK(!tries_all_sets(65536, 65535 / 2));
    generator random(53);
    std::normal_distribution<double> normal;
    double least = 1;
    for (const auto& p : {pattern_of(64, 2, 17), pattern_of(16, 2, 24), pattern_of(1, 2, 20),
                          pattern_of(16, 1, 20), pattern_of(16, 3, 18), pattern_of(16, 4, 14)})
        for (const double spread : {0.0, 0.5, 1.5}) {
            dense_sample weight({kind::fp32, 64, p.m, false, 0}, random);
            for (int64_t j = 0; j < p.m; ++j) {
                const double scale = std::exp(spread * normal(random));
                for (int64_t i = 0; i < 64; ++i) weight.set(0, i, j, scale * normal(random));
            }
            dense_sample mask(mask_shape_of(weight, false), random);
            prune_into(context(), weight, p, prune_norm::l2, mask);
            each_group(weight.shape(), p,
                       [&](int64_t, int64_t row, int64_t rows, int64_t col, int64_t width) {
                           const auto scores =
                               scores_of(weight, 0, row, rows, col, width, prune_norm::l2);
                           const int64_t budget = p.budget(width);
                           const double best = scores.value(scores.best_set(budget, p.n), p.n);
                           double kept = 0;
                           std::vector<bool> used(static_cast<size_t>(width));
                           for (int64_t r = 0; r < rows; ++r) {
                               int64_t of_row = 0;
                               for (int64_t c = 0; c < width; ++c) {
                                   if (mask.at(0, row + r, col + c) == 0) continue;
                                   kept += scores.at(r, static_cast<int>(c));
                                   used[static_cast<size_t>(c)] = true;
                                   ++of_row;
                               }
                               CHECK(of_row == p.n);
                           }
                           CHECK(std::count(used.begin(), used.end(), true) <= budget);
                           CHECK(kept <= best * (1 + 1e-12));
                           least = std::min(least, kept / best);
                       });
        }
    CAPTURE(least);
    CHECK(least >= 0.98);
}

TEST_CASE("what V:N:M pruning keeps converts to V:N:M, every element of it") {
    generator random(57);
    for (const auto& p : {pattern_of(1, 2, 4), pattern_of(16, 2, 8), pattern_of(64, 2, 300),
                          pattern_of(32, 1, 7), pattern_of(16, 3, 9), pattern_of(16, 6, 16)})
        for (const int64_t cols : {1, 3, 17, 21, 305}) {
            dense_sample weight({kind::fp32, 67, cols, false, 0}, random);
            dense_sample mask(mask_shape_of(weight, true), random);
            prune_into(context(), weight, p, prune_norm::l2, mask);
            const dense_view kept = view_of(mask);
            const dense_source source{view_of(weight), &kept};
            vnm_target target;
            target.vector_length = p.vector_length;
            target.n = p.n;
            target.m = p.m;
            double elements = 0;
            for (int64_t i = 0; i < 67; ++i)
                for (int64_t j = 0; j < cols; ++j) elements += mask.at(0, i, j);
            CHECK(static_cast<double>(count_vnm(context(), source, target)) == elements);
        }
}

TEST_CASE("V:N:M magnitude: unchecked NaN and infinity crash nothing and keep the pattern") {
    generator random(54);
    dense_sample weight({kind::fp32, 40, 50, false, 0}, random);
    for (int64_t i = 0; i < 40; ++i) {
        weight.set(0, i, i, std::nan(""));
        weight.set(0, i, (i * 7) % 50, -std::numeric_limits<double>::infinity());
    }
    context unchecked;
    unchecked.level = validation::basic;
    for (const auto& p : {pattern_of(16, 2, 8), pattern_of(16, 2, 25), pattern_of(16, 4, 10)}) {
        dense_sample mask(mask_shape_of(weight, false), random);
        prune_into(unchecked, weight, p, prune_norm::l2, mask);
        each_group(weight.shape(), p,
                   [&](int64_t, int64_t row, int64_t rows, int64_t col, int64_t width) {
                       for (int64_t r = row; r < row + rows; ++r) {
                           double kept = 0;
                           for (int64_t c = col; c < col + width; ++c) kept += mask.at(0, r, c);
                           CHECK(kept == std::min<int64_t>(p.n, width));
                       }
                   });
    }
}

TEST_CASE("V:N:M magnitude refuses bad input") {
    generator random(55);
    dense_sample weight({kind::fp32, 20, 20, false, 0}, random);
    dense_sample mask({kind::uint8, 20, 20, false, 0}, random);
    dense_view weight_view = view_of(weight);
    dense_view mask_view = view_of(mask);
    context ctx;
    const auto error = [&](const vnm_pattern& p, status wanted = status::invalid_value,
                           size_t bytes = 1 << 20, int64_t offset = 0) {
        const aligned_buffer workspace(1 << 20);
        return error_of(
            [&] {
                prune_vnm(ctx, weight_view, p, prune_norm::l2, mask_view,
                          static_cast<char*>(workspace.data()) + offset, bytes);
            },
            wanted);
    };
    CHECK(error(pattern_of(16, 2, 8)) == "");
    CHECK(has(error(pattern_of(8, 2, 8)),
              "params->vector_length is 8; it must be 1, 16, 32, 64, 128 or 256"));
    CHECK(has(error(pattern_of(16, 2, 3)), "params->m is 3; it must be from 4 to 65536"));
    CHECK(has(error(pattern_of(16, 2, 65537)), "params->m is 65537"));
    CHECK(has(error(pattern_of(16, 0, 8)), "params->n is 0; it must be from 1 to m, which is 8"));
    CHECK(has(error(pattern_of(16, 9, 8)), "params->n is 9"));
    CHECK(
        has(error(pattern_of(16, 2, 8), status::insufficient_workspace, 8), "workspace_size is 8"));
    CHECK(has(error(pattern_of(16, 2, 8), status::misaligned, 1 << 19, 8), "workspace is"));
    weight.set(0, 3, 7, std::nan(""));
    CHECK(has(error(pattern_of(16, 2, 8)), "weight[3, 7] (batch 0) is nan; it must be finite"));
    weight.set(0, 3, 7, 0);
    mask_view.type = dtype::int8;
    CHECK(has(error(pattern_of(16, 2, 8)), "mask is of type int8; it must be uint8"));
    mask_view = view_of(mask);
    mask_view.rows = 19;
    CHECK(has(error(pattern_of(16, 2, 8)), "mask is 19 x 20; it must be 20 x 20 as weight is"));
    mask_view = view_of(mask);
    mask_view.values = weight_view.values;
    CHECK(has(error(pattern_of(16, 2, 8)), "mask overlaps weight in memory"));
    ctx.device = device_kind::cuda;
    CHECK(has(error(pattern_of(16, 2, 8), status::not_supported),
              "pruning to V:N:M has no CUDA implementation in this version"));
}

TEST_CASE("V:N:M workspaces of huge matrices are counted or refused") {
    dense_view huge;
    huge.rows = int64_t{1} << 40;
    huge.cols = int64_t{1} << 40;
    CHECK(error_of([&] { prune_vnm_workspace(context(), huge, {}); }) ==
          "blocks overflows 64 bits: 17179869184 * 137438953472");
    huge.rows = int64_t{1} << 20;
    CHECK(prune_vnm_workspace(context(), huge, {}) > 0);
}

TEST_CASE("the kept energy is the share of the squares under the mask") {
    generator random(56);
    for (const kind type : kinds)
        for (const bool col_major : {false, true}) {
            dense_sample weight({type, 71, 301, col_major, 2, 2}, random);
            dense_sample mask({kind::uint8, 71, 301, !col_major, 1, 2}, random);
            double kept = 0, all = 0;
            for (int64_t b = 0; b < 2; ++b)
                for (int64_t i = 0; i < 71; ++i)
                    for (int64_t j = 0; j < 301; ++j) {
                        if (uniform(random, 0, 1) == 0) mask.set(b, i, j, 0);
                        const double x = weight.at(b, i, j);
                        all += x * x;
                        if (mask.at(b, i, j) != 0) kept += x * x;
                    }
            context ctx;
            const double share = kept_energy(ctx, view_of(weight), view_of(mask));
            CHECK(share == doctest::Approx(kept / all).epsilon(1e-12));
            ctx.threads = 1;
            CHECK(kept_energy(ctx, view_of(weight), view_of(mask)) == share);
        }
    dense_sample zeros({kind::fp32, 3, 4, false, 0}, random);
    for (int64_t i = 0; i < 3; ++i) zeros.set_row(i, 0);
    dense_sample mask({kind::uint8, 3, 4, false, 0}, random);
    CHECK(kept_energy(context(), view_of(zeros), view_of(mask)) == 1);
    dense_sample empty({kind::fp32, 0, 4, false, 0}, random);
    dense_sample no_mask({kind::uint8, 0, 4, false, 0}, random);
    CHECK(kept_energy(context(), view_of(empty), view_of(no_mask)) == 1);
    CHECK(has(error_of([&] { kept_energy(context(), view_of(zeros), view_of(no_mask)); }),
              "mask is 0 x 4; it must be 3 x 4 as weight is"));
    zeros.set(0, 1, 1, std::nan(""));
    CHECK(has(error_of([&] { kept_energy(context(), view_of(zeros), view_of(mask)); }),
              "weight[1, 1] (batch 0) is nan"));
}

TEST_CASE("the gradual schedule falls in equal ratios and ends at n") {
    const auto schedule = [](int32_t m, int32_t n, int32_t steps) {
        std::vector<int32_t> result(static_cast<size_t>(steps), -1);
        vnm_schedule(m, n, steps, result.data());
        return result;
    };
    CHECK(schedule(16, 2, 3) == std::vector<int32_t>{8, 4, 2});
    CHECK(schedule(32, 2, 4) == std::vector<int32_t>{16, 8, 4, 2});
    CHECK(schedule(8, 2, 1) == std::vector<int32_t>{2});
    CHECK(schedule(10, 2, 4) == std::vector<int32_t>{7, 4, 3, 2});
    CHECK(schedule(4, 4, 3) == std::vector<int32_t>{4, 4, 4});
    for (const int32_t m : {4, 7, 40, 65536})
        for (const int32_t n : {1, 2, 4})
            for (const int32_t steps : {1, 2, 5, 100}) {
                const auto numbers = schedule(m, n, steps);
                CHECK(std::is_sorted(numbers.rbegin(), numbers.rend()));
                CHECK(numbers.front() <= m);
                CHECK(numbers.back() == n);
            }
    int32_t one = 0;
    CHECK(has(error_of([&] { vnm_schedule(3, 2, 1, &one); }), "m is 3; it must be from 4"));
    CHECK(has(error_of([&] { vnm_schedule(8, 0, 1, &one); }), "n is 0; it must be from 1 to m"));
    CHECK(has(error_of([&] { vnm_schedule(8, 2, 0, &one); }), "steps is 0; it must be at least 1"));
    CHECK(has(error_of([&] { vnm_schedule(8, 2, 1, nullptr); }), "schedule is null"));
}
