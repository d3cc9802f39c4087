// SPDX-License-Identifier: Apache-2.0
#include "core/prune/obs.hpp"

#include <limits>

#include "core/formats/cases.hpp"
#include "core/ops/views.hpp"
#include "core/prune/obs_oracle.hpp"
#include "support/aligned_buffer.hpp"

using namespace magicube;
using namespace support;

namespace {

constexpr double update_tolerance = 1e-5;

void fill_normal(dense_sample& sample, generator& random, double correlation = 0) {
    std::normal_distribution<double> normal;
    const auto& shape = sample.shape();
    for (int64_t b = 0; b < shape.batch; ++b)
        for (int64_t i = 0; i < shape.rows; ++i) {
            double last = normal(random);
            for (int64_t j = 0; j < shape.cols; ++j) {
                last = correlation * last + normal(random);
                sample.set(b, i, j, last);
            }
        }
}

std::vector<numbers> rows_of(const dense_sample& sample) {
    std::vector<numbers> rows;
    for (int64_t i = 0; i < sample.shape().rows; ++i) {
        rows.emplace_back();
        for (int64_t j = 0; j < sample.shape().cols; ++j) rows.back().push_back(sample.at(0, i, j));
    }
    return rows;
}

void add_damping(square& m, double lambda) {
    for (int i = 0; i < m.n; ++i) m.at(i, i) += lambda;
}

// X^T X of all samples of the batch, damped.
square hessian_of(const dense_sample& x, double damping) {
    square h(static_cast<int>(x.shape().cols));
    double trace = 0;
    for (int i = 0; i < h.n; ++i)
        for (int j = 0; j < h.n; ++j)
            for (int64_t b = 0; b < x.shape().batch; ++b)
                for (int64_t t = 0; t < x.shape().rows; ++t)
                    h.at(i, j) += x.at(b, t, i) * x.at(b, t, j);
    for (int i = 0; i < h.n; ++i) trace += h.at(i, i);
    add_damping(h, damping * trace / h.n);
    return h;
}

// The damped Fisher information of each row in diagonal blocks.
std::vector<square> fishers_of(const dense_sample& g, double damping, int64_t block) {
    const auto& shape = g.shape();
    double squares = 0;
    std::vector<square> result;
    for (int64_t r = 0; r < shape.rows; ++r) {
        square f(static_cast<int>(shape.cols));
        for (int i = 0; i < f.n; ++i)
            for (int j = 0; j < f.n; ++j)
                for (int64_t b = 0; b < shape.batch && i / block == j / block; ++b)
                    f.at(i, j) += g.at(b, r, i) * g.at(b, r, j) / static_cast<double>(shape.batch);
        for (int i = 0; i < f.n; ++i) squares += f.at(i, i);
        result.push_back(f);
    }
    for (auto& f : result)
        add_damping(f, damping * squares / static_cast<double>(shape.rows * shape.cols));
    return result;
}

struct pruned {
    dense_sample mask;
    dense_sample updated;
};

// Into poisoned outputs, with a poisoned workspace of exactly the bytes asked for.
pruned prune_with(dense_sample& weight, dense_sample& curvature, const obs_params& params,
                  generator& random, int threads = 0, bool col_major = false,
                  validation level = validation::full) {
    const auto& shape = weight.shape();
    context ctx;
    ctx.threads = threads;
    ctx.level = level;
    pruned result{dense_sample({kind::uint8, shape.rows, shape.cols, !col_major, 2}, random),
                  dense_sample({shape.type, shape.rows, shape.cols, col_major, 1}, random)};
    const dense_view w = view_of(weight);
    const dense_view c = view_of(curvature);
    const aligned_buffer workspace(prune_obs_workspace(ctx, w, c, params));
    prune_obs(ctx, {w, c, view_of(result.mask), view_of(result.updated)}, params, workspace.data(),
              workspace.size());
    CHECK(workspace.guard_intact());
    return result;
}

void check_result(const pruned& got, const obs_result& wanted) {
    double largest = 0, error = 0;
    bool same_mask = true, zeros = true;
    for (size_t r = 0; r < wanted.weights.size(); ++r) {
        indices kept;
        for (size_t c = 0; c < wanted.weights[r].size(); ++c) {
            const auto i = static_cast<int64_t>(r), j = static_cast<int64_t>(c);
            const double flag = got.mask.at(0, i, j);
            CHECK((flag == 0 || flag == 1));
            if (flag == 1) kept.push_back(static_cast<int>(c));
            if (flag == 0) zeros = zeros && got.updated.at(0, i, j) == 0;
            largest = std::max(largest, std::fabs(wanted.weights[r][c]));
            error = std::max(error, std::fabs(got.updated.at(0, i, j) - wanted.weights[r][c]));
        }
        same_mask = same_mask && kept == wanted.kept[r];
    }
    CHECK(same_mask);
    CHECK(zeros);
    CHECK(error <= update_tolerance * largest);
}

obs_params params_of(const obs_case& c, curvature_kind kind, double damping, int32_t block = 16) {
    obs_params params;
    params.pattern = {c.v, c.n, c.m};
    params.curvature = kind;
    params.selection = c.pairwise ? obs_selection::pairwise : obs_selection::exhaustive;
    params.damping = damping;
    params.fisher_block = block;
    params.refit = c.refit;
    return params;
}

void check_layer_form(const obs_case& c, int64_t rows, int64_t cols, generator& random) {
    CAPTURE(c.v);
    CAPTURE(c.n);
    CAPTURE(c.m);
    CAPTURE(c.pairwise);
    CAPTURE(c.refit);
    CAPTURE(cols);
    const bool col_major = cols % 2 == 0;
    dense_sample weight({kind::fp32, rows, cols, col_major, 1}, random);
    dense_sample inputs({kind::fp32, 45, cols, !col_major, 2, 2}, random);
    fill_normal(weight, random);
    fill_normal(inputs, random, 0.8);
    const square hessian = hessian_of(inputs, 0.02);
    const auto wanted = obs_oracle(c, {hessian}, rows_of(weight));
    for (const int threads : {0, 1}) {
        check_result(prune_with(weight, inputs, params_of(c, curvature_kind::inputs, 0.02), random,
                                threads, col_major),
                     wanted);
    }
    // The same from the Hessian, of which nothing below the diagonal counts.
    dense_sample given({kind::fp32, cols, cols, col_major, 1}, random);
    for (int i = 0; i < hessian.n; ++i)
        for (int j = 0; j < hessian.n; ++j) given.set(0, i, j, j < i ? -1e30 : hessian.at(i, j));
    check_result(prune_with(weight, given, params_of(c, curvature_kind::hessian, 0), random),
                 wanted);
}

void check_fisher_form(const obs_case& c, int64_t rows, int64_t cols, int32_t block,
                       generator& random) {
    CAPTURE(c.n);
    CAPTURE(c.m);
    CAPTURE(c.pairwise);
    CAPTURE(cols);
    CAPTURE(block);
    const bool col_major = cols % 2 == 0;
    dense_sample weight({kind::fp32, rows, cols, col_major, 1}, random);
    dense_sample gradients({kind::fp32, rows, cols, !col_major, 2, 30}, random);
    fill_normal(weight, random);
    fill_normal(gradients, random, 0.8);
    const auto fishers = fishers_of(gradients, 0.05, block);
    obs_case free = c;
    free.one_curvature = false;
    const auto wanted = obs_oracle(free, fishers, rows_of(weight));
    const auto params = params_of(c, curvature_kind::gradients, 0.05, block);
    for (const int threads : {0, 1}) {
        const pruned got = prune_with(weight, gradients, params, random, threads, col_major);
        check_result(got, wanted);
        // One step after the other ends where pruning all at once does.
        obs_result at_once = wanted;
        const auto before = rows_of(weight);
        for (size_t r = 0; r < before.size(); ++r) {
            const indices p = without(static_cast<int>(cols), wanted.kept[r]);
            at_once.weights[r] = closed_form(fishers[r], before[r], p);
        }
        check_result(got, at_once);
    }
}

}  // namespace

TEST_CASE("layer-wise OBS: selection is the optimum, the update the closed form, every tail") {
    generator random(60);
    for (const bool refit : {true, false})
        for (const bool pairwise : {false, true})
            for (const int n : {1, 2})
                for (int cols = 8; cols < 16; ++cols)
                    check_layer_form({16, n, 8, pairwise, true, refit}, 19, cols, random);
    for (const int cols : {1, 2, 3, 4, 5}) check_layer_form({16, 2, 8}, 5, cols, random);
    check_layer_form({1, 2, 4}, 3, 14, random);
    check_layer_form({32, 2, 5}, 40, 12, random);
    check_layer_form({16, 2, 10}, 17, 30, random);
}

TEST_CASE("layer-wise OBS: wide patterns take columns one by one, then the best of each row") {
    generator random(61);
    for (const bool refit : {true, false})
        for (const int n : {3, 4, 5, 6, 7, 8})
            for (const int cols : {8, 11, 12, 14, 15, 16})
                check_layer_form({16, n, 8, false, true, refit}, 18, cols, random);
    check_layer_form({16, 4, 12, true}, 18, 24, random);
}

TEST_CASE("layer-wise OBS: more columns than one panel of the factor") {
    generator random(62);
    check_layer_form({16, 2, 8}, 16, 135, random);
    check_layer_form({16, 2, 8, false, true, false}, 3, 130, random);
}

TEST_CASE("block Fisher OBS: blocks smaller and larger than groups, astride of them") {
    generator random(63);
    for (const int32_t block : {8, 16, 32, 5, 1, 256})
        for (const bool pairwise : {false, true})
            for (const int cols : {8, 21, 32, 39})
                check_fisher_form({16, 2, 8, pairwise}, 18, cols, block, random);
    for (const int n : {1, 3, 4, 5})
        for (const int m : {6, 8, 12}) check_fisher_form({16, n, m}, 18, 26, 8, random);
}

TEST_CASE("OBS above 2,000 sets of columns: a legal pattern that costs little more than the best") {
    generator random(64);
    dense_sample weight({kind::fp32, 16, 18, false, 0}, random);
    dense_sample inputs({kind::fp32, 60, 18, false, 0}, random);
    fill_normal(weight, random);
    fill_normal(inputs, random, 0.8);
    const obs_case c{16, 2, 18};
    const square hessian = hessian_of(inputs, 0.02);
    const auto wanted = obs_oracle(c, {hessian}, rows_of(weight));
    const pruned got =
        prune_with(weight, inputs, params_of(c, curvature_kind::inputs, 0.02), random);
    const square inverse = inverse_of(hessian);
    double best = 0, cost = 0, all = 0;
    for (size_t r = 0; r < 16; ++r) {
        indices kept;
        for (int j = 0; j < 18; ++j)
            if (got.mask.at(0, static_cast<int64_t>(r), j) == 1) kept.push_back(j);
        REQUIRE(kept.size() == 2);
        const numbers w = rows_of(weight)[r];
        best += saliency(inverse, w, without(18, wanted.kept[r]));
        cost += saliency(inverse, w, without(18, kept));
        all += saliency(inverse, w, without(18, {}));
    }
    CAPTURE(best);
    CAPTURE(cost);
    CHECK(cost >= best * (1 - 1e-9));
    CHECK(all - cost >= 0.98 * (all - best));
}

TEST_CASE("OBS: fp16 and bf16 weights, outputs rounded to them") {
    generator random(65);
    for (const kind type : {kind::fp16, kind::bf16}) {
        dense_sample weight({type, 20, 24, false, 3}, random);
        dense_sample inputs({type, 70, 24, true, 1}, random);
        fill_normal(weight, random);
        fill_normal(inputs, random, 0.5);
        const obs_case c{16, 2, 8};
        const auto wanted = obs_oracle(c, {hessian_of(inputs, 0.02)}, rows_of(weight));
        const pruned got =
            prune_with(weight, inputs, params_of(c, curvature_kind::inputs, 0.02), random);
        for (int64_t i = 0; i < 20; ++i)
            for (int64_t j = 0; j < 24; ++j) {
                const double x = wanted.weights[static_cast<size_t>(i)][static_cast<size_t>(j)];
                CHECK(std::fabs(got.updated.at(0, i, j) - x) <=
                      std::fabs(x) * (type == kind::fp16 ? 1.0 / 2047 : 1.0 / 255) + 1e-6);
            }
    }
}

TEST_CASE("OBS: unchecked NaN ends in an error or a legal pattern") {
    generator random(66);
    dense_sample weight({kind::fp32, 20, 24, false, 0}, random);
    dense_sample inputs({kind::fp32, 70, 24, false, 0}, random);
    fill_normal(weight, random);
    fill_normal(inputs, random);
    weight.set(0, 3, 5, std::nan(""));
    for (const int n : {1, 2, 3, 4, 5}) {
        auto params = params_of({16, n, 8}, curvature_kind::inputs, 0.01);
        const pruned got = prune_with(weight, inputs, params, random, 0, false, validation::basic);
        for (int64_t i = 0; i < 20; ++i)
            for (int64_t col = 0; col < 24; col += 8) {
                double kept = 0;
                for (int64_t j = col; j < col + 8; ++j) kept += got.mask.at(0, i, j);
                CHECK(kept == n);
            }
    }
    inputs.set(0, 7, 7, std::nan(""));
    const auto params = params_of({16, 2, 8}, curvature_kind::inputs, 0.01);
    CHECK(has(
        error_of([&] { prune_with(weight, inputs, params, random, 0, false, validation::basic); }),
        "curvature with params->damping 0.01 is not positive definite"));
}

TEST_CASE("OBS: matrices with nothing in them") {
    generator random(67);
    for (const auto kind_of : {curvature_kind::inputs, curvature_kind::gradients})
        for (const auto& size : {std::pair<int64_t, int64_t>{0, 8}, {8, 0}, {0, 0}}) {
            dense_sample weight({kind::fp32, size.first, size.second, false, 0}, random);
            const int64_t rows = kind_of == curvature_kind::inputs ? 5 : size.first;
            dense_sample curvature({kind::fp32, rows, size.second, false, 0}, random);
            prune_with(weight, curvature, params_of({16, 2, 8}, kind_of, 0.01), random);
        }
}

TEST_CASE("OBS refuses bad input") {
    generator random(68);
    dense_sample weight({kind::fp32, 20, 24, false, 0}, random);
    dense_sample inputs({kind::fp32, 30, 24, false, 0}, random);
    dense_sample mask({kind::uint8, 20, 24, false, 0}, random);
    dense_sample updated({kind::fp32, 20, 24, false, 0}, random);
    fill_normal(weight, random);
    fill_normal(inputs, random);
    obs_operands o{view_of(weight), view_of(inputs), view_of(mask), view_of(updated)};
    const obs_operands whole = o;
    obs_params params;
    context ctx;
    const auto error = [&](status wanted = status::invalid_value, size_t bytes = 1 << 22) {
        const aligned_buffer workspace(1 << 22);
        const auto message =
            error_of([&] { prune_obs(ctx, o, params, workspace.data(), bytes); }, wanted);
        o = whole;
        params = {};
        return message;
    };
    CHECK(error() == "");
    params.pattern.vector_length = 2;
    CHECK(has(error(), "params->vector_length is 2"));
    for (const double damping : {-0.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
        params.damping = damping;
        CHECK(has(error(), "it must be finite and not negative"));
    }
    params.curvature = curvature_kind::gradients;
    CHECK(has(error(), "curvature, of gradients, is 30 x 24; it must be 20 x 24 as weight is"));
    params.curvature = curvature_kind::gradients;
    params.damping = 0;
    CHECK(has(error(), "params->damping is 0; with gradients it must be positive"));
    for (const int32_t block : {0, 257}) {
        params.curvature = curvature_kind::gradients;
        params.fisher_block = block;
        CHECK(has(error(), "it must be from 1 to 256"));
    }
    params.curvature = curvature_kind::hessian;
    CHECK(has(error(), "curvature, a Hessian, is 30 x 24; it must be 24 x 24"));
    o.curvature.rows = 24;
    o.curvature.batch_count = 2;
    params.curvature = curvature_kind::hessian;
    CHECK(has(error(), "curvature, a Hessian, is a batch of 2"));
    o.curvature.cols = 23;
    CHECK(has(error(), "curvature, of layer inputs, has 23 columns; weight has 24"));
    o.curvature.rows = 0;
    CHECK(has(error(), "curvature is empty; it must hold at least one sample"));
    o.curvature.type = dtype::int8;
    CHECK(has(error(), "curvature is of type int8; it must be a floating type"));
    o.weight.type = dtype::int32;
    CHECK(has(error(), "weight is of type int32; it must be a floating type"));
    o.weight.batch_count = 2;
    CHECK(has(error(), "weight is a batch of 2; it must be one matrix"));
    o.updated.type = dtype::int16;
    CHECK(has(error(), "updated is of type int16; it must be a floating type"));
    o.updated.cols = 23;
    CHECK(has(error(), "updated is 20 x 23; it must be 20 x 24 as weight is"));
    o.updated.values = o.weight.values;
    CHECK(has(error(), "updated overlaps weight in memory"));
    o.updated.values = o.curvature.values;
    CHECK(has(error(), "updated overlaps curvature in memory"));
    o.mask.type = dtype::fp32;
    CHECK(has(error(), "mask is of type fp32; it must be uint8"));
    CHECK(has(error(status::insufficient_workspace, 100), "workspace_size is 100"));
    // Two samples span two directions of 24: without damping nothing else is determined.
    o.curvature.rows = 2;
    params.damping = 0;
    CHECK(has(error(), "curvature with params->damping 0 is not positive definite at column "));
    inputs.set(0, 4, 2, std::nan(""));
    CHECK(has(error(), "curvature[4, 2] (batch 0) is nan; it must be finite"));
    fill_normal(inputs, random);
    for (int64_t i = 0; i < 30; ++i) inputs.set_row(i, 0);
    CHECK(has(error(), "is not positive definite at column 23; raise params->damping"));
    o.curvature.rows = 20;
    params.curvature = curvature_kind::gradients;
    CHECK(has(error(), "curvature holds gradients that are all 0"));
    ctx.device = device_kind::cuda;
    CHECK(has(error(status::not_supported), "second-order pruning has no CUDA implementation"));
}

TEST_CASE("OBS workspaces of huge matrices are counted or refused") {
    dense_view weight, inputs;
    weight.rows = weight.cols = inputs.cols = int64_t{1} << 40;
    inputs.rows = 1;
    CHECK(has(error_of([&] { prune_obs_workspace(context(), weight, inputs, {}); }),
              "workspace overflows 64 bits"));
    obs_params params;
    params.curvature = curvature_kind::gradients;
    inputs.rows = weight.rows;
    inputs.batch_count = 1;
    params.pattern.m = 65536;
    CHECK(prune_obs_workspace(context(), weight, inputs, params) > 0);
}
