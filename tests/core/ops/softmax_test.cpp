// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "core/ops/softmax_case.hpp"

using namespace magicube;
using support::kind;
using support::run;
using support::softmax_case;

namespace {

constexpr kind inputs[] = {kind::fp32, kind::fp16, kind::int32};
constexpr kind outputs[] = {kind::fp32, kind::fp16,  kind::bf16, kind::int16,
                            kind::int8, kind::uint8, kind::int4};

softmax_case case_of(kind in, kind out) {
    softmax_case test;
    test.in = in;
    test.out = out;
    if (in == kind::int32) test.alpha = 1.0f / 67108864;
    return test;
}

}  // namespace

TEST_CASE("SparseSoftmax: every type in and out with every vector length and stride") {
    uint64_t seed = 0;
    for (const kind in : inputs) {
        for (const kind out : outputs) {
            for (const int64_t v : {1, 2, 4, 8, 16, 32, 64}) {
                for (const int64_t s : {1, 8, 16, 32}) {
                    if (out == kind::int4 && s < 8 && v % 2 == 1) continue;
                    auto test = case_of(in, out);
                    test.v = v;
                    test.s = s;
                    test.m = 2 * v + v / 2 + 1;
                    test.mask = seed % 2 == 0;
                    test.seed = ++seed;
                    CHECK(run(test) == "");
                }
            }
        }
    }
}

TEST_CASE("SparseSoftmax: scales of rows and columns, and a bias") {
    uint64_t seed = 1000;
    for (const kind in : inputs) {
        for (const kind out : outputs) {
            for (const bool tensor : {false, true}) {
                auto test = case_of(in, out);
                test.row_scale = tensor ? granularity::tensor : granularity::row;
                test.col_scale = tensor ? granularity::tensor : granularity::col;
                test.bias = true;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SparseSoftmax: rows of -infinity are 0, rows with NaN or +infinity are NaN") {
    for (const kind in : {kind::fp32, kind::fp16}) {
        for (const kind out : outputs) {
            for (const bool mask : {false, true}) {
                auto test = case_of(in, out);
                test.special_rows = true;
                test.mask = mask;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("SparseSoftmax: the output may be the scores' array") {
    for (const kind type : {kind::fp32, kind::fp16}) {
        auto test = case_of(type, type);
        test.in_place = true;
        test.special_rows = true;
        CHECK(run(test) == "");
        test.batch = 3;
        test.stride_gap = 5;
        CHECK(run(test) == "");
    }
}

TEST_CASE("SparseSoftmax: rows longer than registers, and arrays off their alignment") {
    uint64_t seed = 1500;
    for (const kind out : outputs) {
        for (const int64_t n : {200, 700, 1500, 2600}) {
            for (const int64_t s : {8, 32}) {
                auto test = case_of(inputs[seed % 3], out);
                test.m = 9;
                test.n = n;
                test.s = s;
                test.v = seed % 4 == 0 ? 1 : 4;
                test.density = 0.8;
                test.mask = seed % 3 == 0;
                test.bias = seed % 2 == 0;
                test.batch = 2;
                test.stride_gap = seed % 5 < 2 ? 2 : 0;
                test.special_rows = test.in != kind::int32 && seed % 7 == 0;
                test.in_place = test.in == out;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}

TEST_CASE("issue_20_softmax_every_tail_of_m_and_n") {
    uint64_t seed = 2000;
    for (int64_t size = 1; size <= 70; ++size) {
        for (const bool rows : {false, true}) {
            auto test = case_of(inputs[seed % 3], outputs[seed % 7]);
            test.m = rows ? size : 9;
            test.n = rows ? 21 : size;
            test.seed = ++seed;
            CHECK(run(test) == "");
        }
    }
}

TEST_CASE("issue_06_softmax_empty_rows_and_matrices") {
    for (const kind out : outputs) {
        auto test = case_of(kind::fp32, out);
        test.density = 0;
        CHECK(run(test) == "");
        test.density = 0.3;
        test.n = 0;
        CHECK(run(test) == "");
        test.n = 70;
        test.m = 0;
        CHECK(run(test) == "");
        test.m = 37;
        test.batch = test.pattern_batch = 0;
        CHECK(run(test) == "");
    }
}

TEST_CASE("issue_19_softmax_batches_of_one_pattern_and_of_different_patterns") {
    uint64_t seed = 3000;
    for (const kind out : outputs) {
        for (const int64_t pattern_batch : {int64_t{1}, int64_t{5}}) {
            for (const bool different : {false, true}) {
                if (pattern_batch == 1 && different) continue;
                auto test = case_of(inputs[seed % 3], out);
                test.batch = 5;
                test.pattern_batch = pattern_batch;
                test.batching = different ? support::batch_kind::different_patterns
                                          : support::batch_kind::one_pattern;
                test.stride_gap = different || seed % 2 ? 0 : 6;
                test.per_matrix = seed % 3 != 0;
                test.row_scale = granularity::row;
                test.bias = true;
                test.mask = seed % 2 == 0;
                test.seed = ++seed;
                CHECK(run(test) == "");
            }
        }
    }
}
