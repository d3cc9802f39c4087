// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/ops/views.hpp"
#include "core/project/matrices.hpp"

using namespace magicube;
using namespace support;

namespace {

// Two factors, with d > 1, ranks of more than 1 and rectangles; low rank; a pair that is no
// restriction; one factor; three; five; six factors of which d falls in steps.
const shapes chains[] = {
    {{1, 24, 6, 2}, {2, 6, 24, 1}},
    {{1, 6, 12, 4}, {6, 8, 5, 1}},
    {{2, 3, 4, 6}, {4, 6, 5, 2}},
    {{1, 20, 3, 1}, {1, 3, 13, 1}},
    {{1, 5, 8, 1}, {1, 8, 6, 1}},
    {{2, 5, 3, 4}},
    {{1, 5, 8, 6}, {4, 6, 4, 2}, {8, 2, 3, 2}},
    {{1, 2, 2, 16}, {2, 2, 2, 8}, {4, 2, 2, 4}, {8, 2, 2, 2}, {16, 2, 2, 1}},
    {{1, 3, 2, 12}, {2, 1, 1, 12}, {2, 2, 2, 6}, {4, 3, 2, 2}, {4, 4, 4, 1}, {8, 2, 3, 1}},
};

struct result {
    chain_values chain;
    projection_report report;

    explicit result(const shapes& list) : chain(list) {}
};

result project(const shapes& list, const wide& w, const column_weights& weights = {},
               int threads = 0) {
    result made(list);
    stored<float> source(w);
    context ctx;
    ctx.threads = threads;
    made.report = project_chain(ctx, source.view(), weights, made.chain.view());
    return made;
}

}  // namespace

TEST_SUITE_BEGIN("project");

TEST_CASE("Projection: products are recovered") {
    std::mt19937_64 random(2);
    for (const auto& list : chains) {
        CAPTURE(list.size());
        chain_values exact(list);
        exact.fill(random);
        const wide w = exact.product();
        const result found = project(list, w);
        CHECK(norm(sum(w, -1, found.chain.product())) <= 1e-5 * norm(w));
        CHECK(found.report.relative_error() < 1e-5);
        CHECK(found.report.norm == doctest::Approx(norm(w)));
    }
}

TEST_CASE("Projection: the error is the told one, within the bound, and no worse than noise") {
    std::mt19937_64 random(3);
    for (const auto& list : chains) {
        for (const double size : {0.01, 1.0, 30.0}) {
            CAPTURE(list.size());
            CAPTURE(size);
            chain_values exact(list);
            exact.fill(random);
            const wide noise = normal(list.front().rows(), list.back().cols(), random);
            const wide w = sum(exact.product(), size, noise);
            const auto found = project(list, w);
            const auto& report = found.report;
            const double rest = norm(sum(w, -1, found.chain.product()));
            CHECK(rest == doctest::Approx(report.error()).epsilon(1e-4).scale(1e-3 * norm(w)));
            CHECK(report.lost.size() == std::max<size_t>(list.size() - 1, 1));
            CHECK(report.error() <= report.bound() * (1 + 1e-12));
            // The chain that w was made of is one whose error is the noise.
            CHECK(report.least_error() <= size * norm(noise) * (1 + 1e-6));
            CHECK(report.least_error() <= report.error() * (1 + 1e-12));
        }
    }
}

TEST_CASE("Projection: two factors of a matrix with known singular values") {
    std::mt19937_64 random(4);
    const wide u = orthonormal(30, 8, random), v = orthonormal(22, 8, random);
    wide w(30, 22);
    for (int64_t s = 0; s < 8; ++s)
        for (int64_t i = 0; i < 30; ++i)
            for (int64_t j = 0; j < 22; ++j)
                w.at(i, j) += static_cast<double>(8 - s) * u.at(i, s) * v.at(j, s);
    const auto found = project({{1, 30, 5, 1}, {1, 5, 22, 1}}, w);
    CHECK(found.report.error() == doctest::Approx(std::sqrt(9.0 + 4 + 1)));
    CHECK(found.report.bound() == doctest::Approx(found.report.error()));
}

TEST_CASE("Projection: columns of one block are orthonormal in all factors but the last") {
    std::mt19937_64 random(5);
    for (const size_t which : {size_t{0}, size_t{2}, size_t{6}, size_t{7}}) {
        const auto& list = chains[which];
        const auto found = project(list, normal(list.front().rows(), list.back().cols(), random));
        for (size_t f = 0; f + 1 < list.size(); ++f) {
            const auto& k = list[f];
            const int64_t rank = pair_of(k, list[f + 1]).rank;
            const wide factor = found.chain.factor(f);
            for (int64_t x = 0; x < factor.cols; ++x)
                for (int64_t y = 0; y <= x; ++y) {
                    // Columns (i c + u rank + .) d + l of the same i, u and l.
                    if (x / k.d / rank != y / k.d / rank || x % k.d != y % k.d) continue;
                    double dot = 0;
                    for (int64_t i = 0; i < factor.rows; ++i)
                        dot += factor.at(i, x) * factor.at(i, y);
                    CHECK(std::fabs(dot - (x == y ? 1 : 0)) < 1e-5);
                }
        }
    }
}

TEST_CASE("Projection: any number of threads gives the same bits") {
    std::mt19937_64 random(6);
    for (const auto& list : chains) {
        const wide w = normal(list.front().rows(), list.back().cols(), random);
        const auto one = project(list, w, {}, 1), many = project(list, w, {}, 4);
        for (size_t i = 0; i < list.size(); ++i)
            CHECK(std::memcmp(one.chain.values[i].data(), many.chain.values[i].data(),
                              4 * one.chain.values[i].size()) == 0);
        CHECK(one.report.error() == many.report.error());
    }
}

TEST_CASE("Projection: weights of columns and of activations") {
    std::mt19937_64 random(7);
    const auto& list = chains[1];
    const wide w = normal(24, 30, random);
    wide samples = normal(50, 30, random);
    for (int64_t i = 0; i < 50; ++i)
        for (int64_t j = 0; j < 30; ++j)
            samples.at(i, j) *= j == 3 ? 0 : 0.01 + static_cast<double>(j);
    stored<float> activations(samples), columns(1, 30);
    double largest = 0;
    for (int64_t j = 0; j < 30; ++j) {
        double square = 0;
        for (int64_t i = 0; i < 50; ++i) square += std::pow(activations.numbers().at(i, j), 2) / 50;
        columns.values[static_cast<size_t>(j)] = static_cast<float>(std::sqrt(square));
        largest = std::max(largest, std::sqrt(square));
    }
    columns.values[3] = static_cast<float>(1e-6 * largest);  // never active
    const dense_view by_samples = activations.view(), by_columns = columns.view();
    const auto plain = project(list, w);
    const auto aware = project(list, w, {weighting::activations, &by_samples});
    const auto weighted = project(list, w, {weighting::columns, &by_columns});
    const auto scale = columns.numbers().values;
    const double told = aware.report.error();
    CHECK(norm(sum(w, -1, aware.chain.product()), scale) == doctest::Approx(told).epsilon(1e-4));
    CHECK(weighted.report.error() == doctest::Approx(told).epsilon(1e-5));
    CHECK(told < norm(sum(w, -1, plain.chain.product()), scale) * (1 - 1e-3));
    CHECK(aware.report.norm == doctest::Approx(norm(w, scale)).epsilon(1e-5));

    SUBCASE("Samples may be a batch; a layer that never was active is weighted evenly") {
        dense_view batch = by_samples;
        batch.rows = 10;
        batch.batch_count = 5;
        batch.batch_stride = 300;
        CHECK(project(list, w, {weighting::activations, &batch}).report.error() ==
              doctest::Approx(told));
        stored<float> zeros(3, 30);
        const dense_view silent = zeros.view();
        CHECK(project(list, w, {weighting::activations, &silent}).report.error() ==
              plain.report.error());
    }
}

TEST_CASE("Projection: types, orders and leading dimensions") {
    support::generator random(8);
    const auto& list = chains[1];
    for (const kind type :
         {kind::int4, kind::int8, kind::int32, kind::fp16, kind::bf16, kind::fp32, kind::e4m3}) {
        for (const bool col_major : {false, true}) {
            CAPTURE(static_cast<int>(type));
            CAPTURE(col_major);
            dense_shape shape;
            shape.type = type;
            shape.rows = 24;
            shape.cols = 30;
            shape.col_major = col_major;
            shape.gap = 3;
            dense_sample source(shape, random);
            wide w(24, 30);
            for (int64_t i = 0; i < 24; ++i)
                for (int64_t j = 0; j < 30; ++j) w.at(i, j) = source.at(0, i, j);
            result found(list);
            found.report = project_chain(context(), view_of(source), {}, found.chain.view());
            CHECK(norm(sum(w, -1, found.chain.product())) ==
                  doctest::Approx(found.report.error()).epsilon(1e-4));
        }
    }
}

TEST_CASE("Projection: factors of 16 bits, and numbers that they cannot hold") {
    std::mt19937_64 random(9);
    const wide w = normal(24, 30, random);
    stored<float> source(w);
    for (const dtype type : {dtype::fp16, dtype::bf16, dtype::e4m3}) {
        std::vector<packed_array> values;
        kronecker_view chain;
        for (const auto& shape : chains[1]) {
            values.emplace_back(static_cast<kind>(type), shape.value_count());
            chain.factors.emplace_back(shape, nullptr);
        }
        for (size_t i = 0; i < 2; ++i) chain.factors[i].values = values[i].data();
        chain.type = type;
        chain.chain = true;
        const auto report = project_chain(context(), source.view(), {}, chain);
        chain_values back(chains[1]);
        for (size_t i = 0; i < 2; ++i)
            for (int64_t at = 0; at < values[i].count(); ++at)
                back.values[i][static_cast<size_t>(at)] = static_cast<float>(values[i].get(at));
        const double rounding = type == dtype::fp16 ? 1e-3 : type == dtype::bf16 ? 1e-2 : 0.1;
        CHECK(norm(sum(w, -1, back.product())) <= report.error() + rounding * norm(w));

        if (type == dtype::bf16) continue;  // no fp32 matrix of ordinary size is too large
        stored<float> large(sum(w, 1e6, w));
        const auto before = values[0].bytes();
        CHECK(refuses([&] { project_chain(context(), large.view(), {}, chain); },
                      "factors[1] would hold "));
        CHECK(values[0].bytes() == before);
    }
}

TEST_CASE("Projection: what is refused, by name and position") {
    stored<float> w(24, 30), other(30, 24);
    chain_values good(chains[1]);
    const auto run = [&](const dense_view& weight, const kronecker_view& chain,
                         const column_weights& weights = {}, const context& ctx = {}) {
        return [=] { project_chain(ctx, weight, weights, chain); };
    };
    CHECK(refuses(run(other.view(), good.view()), "weight is 30 x 24; it must be 24 x 30"));
    chain_values apart({{1, 6, 12, 4}, {3, 16, 10, 1}, {5, 6, 6, 1}});
    stored<float> wide_one(24, 30);
    CHECK(
        refuses(run(wide_one.view(), apart.view()), "factors[1] = (3, 16, 10, 1) and factors[2]"));
    auto integers = good.view();
    integers.type = dtype::int32;
    CHECK(refuses(run(w.view(), integers), "chain is of type int32"));
    auto pattern = good.view();
    pattern.factors[1].values = nullptr;
    CHECK(refuses(run(w.view(), pattern), "factors[1] has null values"));
    auto twice = good.view();
    twice.factors[1].values = twice.factors[0].values;
    CHECK(refuses(run(w.view(), twice), "chain's values[1]"));
    auto inside = w.view();
    inside.values = good.values[0].data();
    inside.rows = 24;
    CHECK(refuses(run(inside, good.view()), "weight"));
    auto batch = w.view();
    batch.batch_count = 2;
    CHECK(refuses(run(batch, good.view()), "weight is a batch of 2"));
    context cuda;
    cuda.device = device_kind::cuda;
    CHECK(refuses(run(w.view(), good.view(), {}, cuda), "has no CUDA implementation",
                  status::not_supported));

    context basic;
    basic.level = validation::basic;
    for (const float wrong : {NAN, INFINITY}) {
        w.values[31] = wrong;
        CHECK(refuses(run(w.view(), good.view(), {}, basic), "weight[1, 1] (batch 0) is "));
    }
    w.values[31] = 0;
    stored<float> one(1, 30), few(2, 30), narrow(1, 29);
    const dense_view zeros = one.view(), rows = few.view(), short_one = narrow.view();
    CHECK(refuses(run(w.view(), good.view(), {weighting::columns, &zeros}),
                  "weights[0] is 0; it must be positive"));
    CHECK(refuses(run(w.view(), good.view(), {weighting::columns, &rows}), "with 2 rows"));
    CHECK(refuses(run(w.view(), good.view(), {weighting::columns, &short_one}),
                  "weights has 29 columns; weight has 30"));
    CHECK(refuses(run(w.view(), good.view(), {weighting::columns, nullptr}), "weights is null"));
    CHECK(refuses(run(w.view(), good.view(), {weighting::none, &zeros}), "it must be null"));
    dense_view none = rows;
    none.rows = 0;
    CHECK(refuses(run(w.view(), good.view(), {weighting::activations, &none}),
                  "at least one sample"));
    one.values[4] = NAN;
    CHECK(refuses(run(w.view(), good.view(), {weighting::columns, &zeros}),
                  "weights[0, 4] (batch 0) is "));
    for (const float value : good.values[0]) CHECK(std::isnan(value));  // nothing was written
}
