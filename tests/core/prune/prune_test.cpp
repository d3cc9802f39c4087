// SPDX-License-Identifier: Apache-2.0
#include "core/prune/prune.hpp"

#include <limits>
#include <numeric>

#include "core/formats/cases.hpp"
#include "core/ops/views.hpp"
#include "support/aligned_buffer.hpp"

using namespace magicube;
using namespace support;

namespace {

// The keep-mask of one matrix by a stable sort of all norms, straight from the definition.
std::vector<uint8_t> wanted_mask(const dense_sample& weight, int64_t batch,
                                 const prune_params& params, int64_t keep) {
    const int64_t rows = weight.shape().rows;
    const int64_t cols = weight.shape().cols;
    const int64_t v = params.vector_length;
    const int64_t block_rows = (rows + v - 1) / v;
    std::vector<double> norms(static_cast<size_t>(block_rows * cols), 0);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) {
            const double x = weight.at(batch, i, j);
            norms[static_cast<size_t>(i / v * cols + j)] +=
                params.norm == prune_norm::l2 ? x * x : std::fabs(x);
        }
    std::vector<uint8_t> mask(static_cast<size_t>(rows * cols), 0);
    const bool by_row = params.scope == prune_scope::row;
    const int64_t scopes = by_row ? block_rows : 1;
    const int64_t in_scope = by_row ? cols : block_rows * cols;
    for (int64_t scope = 0; scope < scopes; ++scope) {
        std::vector<int64_t> order(static_cast<size_t>(in_scope));
        std::iota(order.begin(), order.end(), scope * in_scope);
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            return norms[static_cast<size_t>(a)] > norms[static_cast<size_t>(b)];
        });
        for (int64_t k = 0; k < keep; ++k) {
            const int64_t vector = order[static_cast<size_t>(k)];
            for (int64_t i = vector / cols * v; i < std::min(rows, (vector / cols + 1) * v); ++i)
                mask[static_cast<size_t>(i * cols + vector % cols)] = 1;
        }
    }
    return mask;
}

// Into a mask of the host's, with a workspace of exactly the bytes asked for.
void prune_on(const context& ctx, dense_sample& weight, const prune_params& params,
              dense_sample& mask) {
    mirror device(ctx);
    const dense_view view = view_on(device, weight);
    aligned_buffer workspace(prune_workspace(ctx, view, params));
    void* scratch = device.put(workspace.data(), workspace.size_with_guard());
    prune(ctx, view, params, view_on(device, mask), scratch, workspace.size());
    fetch_array(device, mask.array());
    device.fetch(workspace.data());
    CHECK(workspace.guard_intact());
}

void check_prune(dense_sample& weight, bool mask_col_major, const prune_params& params,
                 int64_t keep, generator& random) {
    const auto& shape = weight.shape();
    CAPTURE(static_cast<int>(shape.type));
    CAPTURE(shape.rows);
    CAPTURE(shape.cols);
    CAPTURE(params.vector_length);
    CAPTURE(static_cast<int>(params.scope));
    CAPTURE(keep);
    const dense_shape mask_shape{kind::uint8,    shape.rows, shape.cols,
                                 mask_col_major, 3,          shape.batch};
    dense_sample wanted(mask_shape, random);
    for (int64_t b = 0; b < shape.batch; ++b) {
        const auto mask = wanted_mask(weight, b, params, keep);
        for (int64_t i = 0; i < shape.rows; ++i)
            for (int64_t j = 0; j < shape.cols; ++j)
                wanted.set(b, i, j, mask[static_cast<size_t>(i * shape.cols + j)]);
    }
    for (const auto& ctx : all_contexts()) {
        CAPTURE(name_of(ctx.device));
        dense_sample result(mask_shape, random);
        prune_on(ctx, weight, params, result);
        CHECK(result.array().bytes() == wanted.array().bytes());
    }
}

}  // namespace

TEST_CASE("pruning keeps what a stable sort of the norms keeps: every V, type, scope, norm") {
    generator random(40);
    for (const kind type : kinds)
        for (const int64_t v : vector_lengths)
            for (const auto scope : {prune_scope::matrix, prune_scope::row})
                for (const auto norm : {prune_norm::l2, prune_norm::l1}) {
                    dense_sample weight({type, 67, 71, v % 3 == 1, 2}, random);
                    prune_params params{static_cast<int32_t>(v), scope, norm, 0, -1};
                    const int64_t count = scope == prune_scope::row ? 71 : 71 * ((67 + v - 1) / v);
                    params.keep = uniform(random, 0, count);
                    check_prune(weight, v % 4 == 0, params, params.keep, random);
                }
}

TEST_CASE("pruning: ties go to the lowest block row, then the lowest column") {
    generator random(41);
    for (const auto scope : {prune_scope::matrix, prune_scope::row})
        for (const int64_t v : {1, 2, 8}) {
            dense_sample weight({kind::int8, 40, 90, false, 0}, random);
            for (int64_t i = 0; i < 40; ++i)
                for (int64_t j = 0; j < 90; ++j)
                    weight.set(0, i, j, static_cast<double>(uniform(random, -1, 1)));
            const int64_t count = scope == prune_scope::row ? 90 : 90 * 40 / v;
            for (int64_t keep = 0; keep <= count; keep += count / 10) {
                check_prune(weight, false,
                            {static_cast<int32_t>(v), scope, prune_norm::l2, 0, keep}, keep,
                            random);
            }
        }
}

TEST_CASE("pruning: the target from a sparsity is exact, halves are dropped") {
    generator random(42);
    dense_sample weight({kind::fp32, 16, 5, false, 0}, random);
    const auto check = [&](double sparsity, prune_scope scope, int64_t keep) {
        check_prune(weight, false, {8, scope, prune_norm::l2, sparsity, -1}, keep, random);
    };
    check(0, prune_scope::matrix, 10);
    check(0.5, prune_scope::matrix, 5);
    check(0.05, prune_scope::matrix, 9);
    check(0.04999, prune_scope::matrix, 10);
    check(0.96, prune_scope::matrix, 0);
    check(1, prune_scope::matrix, 0);
    check(0.5, prune_scope::row, 2);
    check(0.7, prune_scope::row, 1);
    check(1, prune_scope::row, 0);
}

TEST_CASE("pruning: batches, one by one; matrices with nothing in them") {
    generator random(43);
    for (const auto scope : {prune_scope::matrix, prune_scope::row})
        for (const int64_t batch : {0, 1, 3})
            for (const int64_t rows : {0, 1, 9})
                for (const int64_t cols : {0, 1, 65}) {
                    dense_sample weight({kind::bf16, rows, cols, true, 4, batch}, random);
                    const int64_t count =
                        scope == prune_scope::row ? cols : cols * ((rows + 3) / 4);
                    check_prune(weight, true, {4, scope, prune_norm::l1, 0, count / 2}, count / 2,
                                random);
                }
}

TEST_CASE("pruning: unchecked NaN and infinity crash nothing and keep the target") {
    generator random(44);
    dense_sample weight({kind::fp32, 64, 64, false, 0}, random);
    for (int64_t i = 0; i < 64; i += 3) weight.set(0, i, i, std::nan(""));
    weight.set(0, 5, 5, std::numeric_limits<double>::infinity());
    for (const auto scope : {prune_scope::matrix, prune_scope::row}) {
        const int64_t keep = scope == prune_scope::row ? 20 : 1000;
        std::vector<uint8_t> on_cpu;
        for (auto unchecked : all_contexts()) {
            unchecked.level = validation::basic;
            dense_sample mask({kind::uint8, 64, 64, false, 0}, random);
            prune_on(unchecked, weight, {1, scope, prune_norm::l2, 0, keep}, mask);
            int64_t kept = 0;
            for (int64_t i = 0; i < 64; ++i)
                for (int64_t j = 0; j < 64; ++j) kept += mask.at(0, i, j) == 1;
            CHECK(kept == keep * (scope == prune_scope::row ? 64 : 1));
            if (unchecked.on_cpu()) on_cpu = mask.array().bytes();
            CHECK(mask.array().bytes() == on_cpu);
        }
    }
}

TEST_CASE("pruning: norms that differ in their last bits alone are told apart") {
    generator random(46);
    dense_sample weight({kind::fp32, 1, 4000, false, 0}, random);
    for (int64_t j = 0; j < 4000; ++j) {
        const auto steps = static_cast<double>(uniform(random, 0, 50));
        weight.set(0, 0, j, (uniform(random, 0, 1) ? 1 : -1) * (1 + std::ldexp(steps, -23)));
    }
    for (const auto scope : {prune_scope::matrix, prune_scope::row})
        for (const int64_t keep : {1, 39, 40, 41, 2000, 3999}) {
            check_prune(weight, false, {1, scope, prune_norm::l2, 0, keep}, keep, random);
        }
}

TEST_CASE("pruning refuses bad input") {
    generator random(45);
    dense_sample weight({kind::fp32, 16, 10, false, 0}, random);
    dense_sample mask({kind::uint8, 16, 10, false, 0}, random);
    dense_view weight_view = view_of(weight);
    dense_view mask_view = view_of(mask);
    const auto error = [&](prune_params params, status wanted = status::invalid_value,
                           size_t bytes = 1 << 16, int64_t offset = 0) {
        const aligned_buffer workspace(1 << 16);
        return error_of(
            [&] {
                prune(context(), weight_view, params, mask_view,
                      static_cast<char*>(workspace.data()) + offset, bytes);
            },
            wanted);
    };
    const double nan = std::nan("");
    CHECK(error({}) == "");
    CHECK(has(error({5}), "params->vector_length is 5; it must be 1, 2, 4"));
    CHECK(has(error({8, {}, {}, -0.1}), "params->sparsity is -0.1; it must be from 0 to 1"));
    CHECK(has(error({8, {}, {}, 1.5}), "params->sparsity is 1.5"));
    CHECK(has(error({8, {}, {}, nan}), "params->sparsity is nan"));
    CHECK(error({8, {}, {}, nan, 3}) == "");
    CHECK(has(error({8, {}, {}, 0, -2}), "params->keep is -2; it must be at least 0, or -1"));
    CHECK(has(error({8, {}, {}, 0, 21}), "params->keep is 21; a scope has 20 vectors"));
    CHECK(has(error({8, prune_scope::row, {}, 0, 11}), "params->keep is 11; a scope has 10"));
    CHECK(has(error({}, status::insufficient_workspace, 319),
              "workspace_size is 319; this call needs 320 bytes"));
    CHECK(has(error({}, status::misaligned, 320, 8), "workspace is"));
    CHECK(has(error_of([&] { prune(context(), weight_view, {}, mask_view, nullptr, 320); }),
              "workspace is null; this call needs 320 bytes"));
    weight.set(0, 3, 7, nan);
    CHECK(has(error({}), "weight[3, 7] (batch 0) is nan; it must be finite"));
    weight.set(0, 3, 7, 0);
    mask_view.type = dtype::int8;
    CHECK(has(error({}), "mask is of type int8; it must be uint8"));
    mask_view = view_of(mask);
    mask_view.cols = 9;
    CHECK(has(error({}), "mask is 16 x 9; it must be 16 x 10 as weight is"));
    mask_view = view_of(mask);
    mask_view.batch_count = 2;
    CHECK(has(error({}), "mask is a batch of 2; it must be one of 1 as weight is"));
    mask_view = view_of(mask);
    mask_view.values = weight_view.values;
    CHECK(has(error({}), "mask overlaps weight in memory"));
}
