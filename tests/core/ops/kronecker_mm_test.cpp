// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <string>

#include "core/ops/kronecker_mm_case.hpp"
#include "core/ops/simd_levels.hpp"
#include "core/ops/views.hpp"
#include "support/mirror.hpp"

using namespace magicube;
using support::kind;
using support::kronecker_mm_case;
using support::run;

namespace {

constexpr kind types[] = {kind::fp32, kind::fp16, kind::bf16, kind::int8};

kronecker_mm_case case_of(kind type, uint64_t seed) {
    kronecker_mm_case test;
    test.type = type;
    test.y = support::is_float(type) ? kind::fp32 : kind::int32;
    test.seed = seed;
    test.batch_last = seed % 2 == 0;
    test.transpose = seed % 3 == 0;
    return test;
}

// At each level that has kernels of its own.
template <class Test>
void each_level(const Test& test) {
    support::each_level([&](uint64_t) { test(); }, simd_level::avx512_vnni);
}

// Of three matrices, against sums in long double.
bool right_gradient(device_kind on, kind type, const kronecker_shape& k, bool last, int64_t n) {
    context ctx;
    ctx.device = on;
    support::mirror device(ctx);
    support::generator random(static_cast<uint64_t>(n + last));
    const auto shape = [&](int64_t features) {
        return support::dense_shape{type, last ? features : n, last ? n : features, false, 2, 3,
                                    false};
    };
    support::dense_sample x(shape(k.cols()), random), dy(shape(k.rows()), random);
    support::packed_array found(kind::fp32, k.value_count(), 0x5c);
    kronecker_view target;
    target.factors.emplace_back(k, support::put_array(device, found));
    kronecker_mm::gradient(
        ctx, support::view_on(device, x), support::view_on(device, dy),
        last ? kronecker_mm::batch_layout::last : kronecker_mm::batch_layout::first, target);
    support::fetch_array(device, found);
    bool right = true;
    for (int64_t at = 0; at < k.value_count(); ++at) {
        const int64_t l = at % k.d, c = at / k.d % k.c, j = at / k.d / k.c % k.b;
        const int64_t i = at / k.d / k.c / k.b;
        const int64_t row = (i * k.b + j) * k.d + l, col = (i * k.c + c) * k.d + l;
        long double sum = 0, size = 0;
        for (int64_t batch = 0; batch < 3; ++batch) {
            for (int64_t v = 0; v < n; ++v) {
                const double product = last ? dy.at(batch, row, v) * x.at(batch, col, v)
                                            : dy.at(batch, v, row) * x.at(batch, v, col);
                sum += product;
                size += std::fabs(product);
            }
        }
        right &= std::fabs(found.get(at) - static_cast<double>(sum)) <=
                 std::ldexp(static_cast<double>(std::fabs(sum)), -23) +
                     std::ldexp(static_cast<double>(size), -45) + std::ldexp(1.0, -149);
    }
    return right;
}

}  // namespace

TEST_SUITE_BEGIN("kronecker");

TEST_CASE("KroneckerMM: random factors with sizes up to 40 of every type, in both layouts") {
    support::generator random(7);
    for (uint64_t seed = 1; seed <= 48; ++seed) {
        auto test = case_of(types[seed % 4], seed);
        // Of the four sizes two are large: all of them would take minutes to check.
        int64_t sizes[4];
        for (auto& size : sizes) size = support::uniform(random, 1, 4);
        sizes[seed % 4] = support::uniform(random, 1, 40);
        sizes[(seed / 4) % 4] = support::uniform(random, 1, 40);
        test.factors = {{sizes[0], sizes[1], sizes[2], sizes[3]}};
        test.n = support::uniform(random, 1, 9) * 2 - 1;
        test.gap = static_cast<int64_t>(seed % 5);
        CHECK(run(test) == "");
    }
}

TEST_CASE("KroneckerMM: every d, with whole blocks, tails and padding, at every level") {
    each_level([] {
        uint64_t seed = 100;
        for (const int64_t d : {1, 2, 3, 4, 5, 8, 12, 16, 20, 32, 48, 64, 96}) {
            for (const int64_t b : {1, 7, 16, 33}) {
                kronecker_mm_case test;
                test.seed = ++seed;
                test.type = seed % 3 == 0 ? kind::fp16 : kind::fp32;
                test.factors = {{2, b, 3, d}};
                test.batch_last = seed % 4 == 0;
                test.n = static_cast<int64_t>(seed % 9) + 1;
                CHECK(run(test) == "");
            }
        }
    });
}

TEST_CASE("issue_20_kronecker_mm_every_tail_of_n_b_and_c") {
    for (int64_t size = 1; size <= 70; ++size) {
        for (int direction = 0; direction < 3; ++direction) {
            auto test = case_of(types[size % 4], static_cast<uint64_t>(size * 3 + direction));
            test.factors = {{2, direction == 0 ? size : 5, direction == 1 ? size : 4, 4}};
            test.n = direction == 2 ? size + 60 : 3;
            test.x_col = size % 5 == 0;
            test.y_col = size % 7 == 0;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("KroneckerMM: every output type with scales, bias, beta and activations") {
    uint64_t seed = 1000;
    for (const kind type : types) {
        for (const kind y : {kind::fp32, kind::fp16, kind::bf16, kind::int8}) {
            for (const auto function : {activation::none, activation::relu, activation::gelu}) {
                auto test = case_of(type, ++seed);
                test.y = y;
                test.factors = {{3, 9, 4, 2}};
                test.alpha = support::is_float(type) ? 0.37f : -0.001953f;
                test.beta = seed % 2 == 0 ? 0.0f : -1.5f;
                test.k_scale = seed % 3 == 0 ? granularity::tensor : granularity::row;
                test.x_scale = seed % 4 == 0 ? granularity::tensor : granularity::col;
                test.bias = true;
                test.y_scale = y == kind::int8;
                test.function = function;
                test.batch = 2;
                test.scales_per_matrix = seed % 2 == 0;
                CHECK(run(test) == "");
            }
        }
    }
    auto exact = case_of(kind::int8, 5);
    exact.beta = 1;
    CHECK(run(exact) == "");
}

TEST_CASE("KroneckerMM: chains, merged or not, chainable or not, and their transposes") {
    using chain = std::vector<kronecker_shape>;
    const chain chains[] = {
        butterfly_shapes(1),
        butterfly_shapes(5),
        butterfly_shapes(8),
        monarch_shapes(64, 96, 4, 8, 3),
        {{1, 12, 5, 1}, {1, 5, 7, 1}},
        {{2, 3, 4, 1}, {1, 4, 2, 2}},  // not chainable
        {{1, 5, 16, 6}, {4, 24, 3, 1}, {4, 3, 20, 1}},
        {{3, 16, 4, 16}, {12, 16, 32, 1}, {6, 64, 2, 1}},
        {{1, 2, 3, 4}, {3, 4, 5, 1}, {15, 1, 1, 1}, {5, 3, 2, 1}},
    };
    each_level([&] {
        uint64_t seed = 2000;
        for (const auto& factors : chains) {
            for (const auto mode :
                 {value_mode::fixed, value_mode::updatable, value_mode::per_call}) {
                for (int way = 0; way < 4; ++way) {
                    kronecker_mm_case test;
                    test.seed = ++seed;
                    test.type = types[seed % 3];
                    test.factors = factors;
                    test.values = mode;
                    test.transpose = way / 2 == 1;
                    test.batch_last = way % 2 == 1;
                    test.n = 5 + static_cast<int64_t>(seed % 60);
                    CHECK(run(test) == "");
                }
            }
        }
    });
}

TEST_CASE("KroneckerMM: neighbours merge where that is less work") {
    context ctx;
    const auto plan_bytes = [&](value_mode mode) {
        kronecker_mm::problem p;
        p.pattern.chain = true;
        for (const auto& shape : butterfly_shapes(8))
            p.pattern.factors.emplace_back(shape, nullptr);
        p.layout = kronecker_mm::batch_layout::last;
        p.n_max = 64;
        p.values = mode;
        p.implementation = "simd";
        return needs_of<kronecker_mm::operation>(ctx, p).plan_bytes;
    };
    // Eight factors of 512 values are two of 4096, four times as many, each on whole cache lines.
    CHECK(plan_bytes(value_mode::fixed) == 2 * 4096 * 4);
    CHECK(plan_bytes(value_mode::per_call) == 0);
}

TEST_CASE("issue_19_kronecker_mm_batches_and_shared_operands") {
    for (uint64_t seed = 3000; seed < 3016; ++seed) {
        auto test = case_of(types[seed % 4], seed);
        test.batch = 4;
        test.n = 9;
        test.x_shared = seed % 3 == 0;
        test.bias = seed % 4 != 3;
        test.scales_per_matrix = seed % 5 == 0;
        CHECK(run(test) == "");
    }
}

TEST_CASE("issue_06_kronecker_mm_no_vectors_and_no_matrices") {
    for (const bool last : {false, true}) {
        kronecker_mm_case test;
        test.batch_last = last;
        test.n = 0;
        test.n_max = 5;
        CHECK(run(test) == "");
        test.n = 5;
        test.batch = 0;
        CHECK(run(test) == "");
    }
}

TEST_CASE("KroneckerMM: X and Y in units of 16 bytes, and not, for every kind of residues") {
    uint64_t seed = 5000;
    for (const kind type : {kind::fp16, kind::bf16}) {
        for (const int64_t d : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) {
            for (int way = 0; way < 6; ++way) {
                kronecker_mm_case test;
                test.seed = ++seed;
                test.type = type;
                test.y = way == 4 ? kind::fp32 : type;
                test.factors = {{d > 8 ? 1 : 2, way == 3 ? 70 : 24, way == 3 ? 33 : 40, d}};
                test.batch_last = way % 2 == 1;
                test.n = way < 2 ? 72 : 41 + way;
                test.batch = way == 2 ? 3 : 1;
                test.transpose = way == 5;
                test.beta = way == 1 ? 0.5f : 0.0f;
                test.bias = way == 5;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("KroneckerMM: sums of 1024 fp16 products are formed in fp32") {
    for (const bool last : {false, true}) {
        kronecker_mm_case test;
        test.type = kind::fp16;
        test.factors = {{1, 3, 1024, 2}};
        test.batch_last = last;
        test.n = 3;
        CHECK(run(test) == "");
    }
}

TEST_CASE("KroneckerMM: gradients are sums over the vectors of all matrices") {
    for (const auto device : {device_kind::cpu, device_kind::cuda}) {
        if (device_count(device) == 0) continue;
        CAPTURE(std::string(name_of(device)));
        for (const kind type : {kind::fp32, kind::fp16, kind::bf16}) {
            for (const bool last : {false, true}) {
                for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{67}})
                    CHECK(right_gradient(device, type, {2, 9, 19, 3}, last, n));
            }
        }
    }
}

TEST_SUITE_END();
