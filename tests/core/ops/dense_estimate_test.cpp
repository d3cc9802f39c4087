// SPDX-License-Identifier: Apache-2.0
#include "core/ops/dense_estimate.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace magicube;

namespace {

constexpr gpu_speed h200{90, 132, 1980, 4.8e6};

struct measured {
    int64_t m, k, n;
    dtype type;
    double us;
};

// cuBLASLt, best of 16 heuristics, on one H200.
constexpr measured products[] = {
    {2048, 2048, 256, dtype::int8, 6.5},  {2048, 2048, 1024, dtype::int8, 12.7},
    {4096, 1024, 4096, dtype::int8, 40},  {4096, 4096, 512, dtype::int8, 15.5},
    {4096, 4096, 4096, dtype::int8, 107}, {11008, 4096, 2048, dtype::int8, 142},
    {2048, 2048, 256, dtype::fp16, 5.8},  {2048, 2048, 1024, dtype::fp16, 14.3},
    {4096, 1024, 4096, dtype::fp16, 59},  {4096, 4096, 512, dtype::fp16, 29.7},
    {4096, 4096, 4096, dtype::fp16, 213}, {11008, 4096, 2048, dtype::fp16, 232},
    {4096, 4096, 16, dtype::fp16, 11},    {28672, 8192, 16, dtype::fp16, 116}};

dense_product product_of(const measured& p) {
    return {p.m, p.n, p.k, 1, {p.type, p.type}, is_integer(p.type) ? dtype::int32 : p.type};
}

double estimate(precision_pair pair) {
    return estimate_dense(h200, {4096, 4096, 4096, 1, pair, dtype::fp32}).us;
}

}  // namespace

TEST_CASE("estimates of dense products are within a third of what was measured") {
    for (const auto& p : products) {
        const double us = estimate_dense(h200, product_of(p)).us;
        CAPTURE(text(p.m, " x ", p.k, " x ", p.n, ": ", us, " for ", p.us));
        CHECK(us > p.us * 0.75);
        CHECK(us < p.us * 1.33);
    }
}

TEST_CASE("an estimate names the product, and knows that wide integers take several") {
    const auto library = [](dtype type, const gpu_speed& gpu) -> std::string {
        return estimate_dense(gpu, {64, 64, 64, 1, {type, type}, dtype::fp32}).library;
    };
    CHECK(library(dtype::int8, h200) == "cuBLASLt int8");
    CHECK(library(dtype::int4, h200) == "cuBLASLt int8");
    CHECK(library(dtype::fp16, h200) == "cuBLASLt fp16");
    CHECK(library(dtype::bf16, h200) == "cuBLASLt bf16");
    CHECK(library(dtype::fp32, h200) == "cuBLASLt tf32");
    CHECK(library(dtype::e4m3, h200) == "cuBLASLt fp8");
    CHECK(library(dtype::e4m3, {80, 108, 1410, 1.5e6}) == "cuBLASLt fp16");
    const double bytes = estimate({dtype::int8, dtype::int8});
    CHECK(estimate({dtype::int16, dtype::int8}) > 1.5 * bytes);
    CHECK(estimate({dtype::int16, dtype::int16}) > 3 * bytes);
    CHECK(estimate({dtype::int8, dtype::int4}) == bytes);
    CHECK(estimate({dtype::fp16, dtype::fp16}) > 1.5 * bytes);
}

TEST_CASE("a batch costs its work but one launch; of an unknown GPU nothing is known") {
    dense_product p{256, 256, 256, 1, {dtype::int8, dtype::int8}, dtype::int32};
    const double one = estimate_dense(h200, p).us;
    p.batch_count = 100;
    CHECK(estimate_dense(h200, p).us > 2 * one);
    CHECK(estimate_dense(h200, p).us < 50 * one);
    CHECK(estimate_dense(gpu_speed{}, p).us == 0);
    CHECK(estimate_dense({75, 40, 1590, 3e5}, p).us == 0);
    CHECK(estimate_dense(context(), p).us == 0);
}
