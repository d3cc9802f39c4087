// SPDX-License-Identifier: Apache-2.0
#include "core/ops/operands.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "support/numbers.hpp"

using namespace magicube;

namespace {

dense_view view_of(dtype type, order storage, int64_t rows, int64_t cols, int64_t ld, char* data) {
    dense_view view;
    view.type = type;
    view.storage = storage;
    view.rows = rows;
    view.cols = cols;
    view.ld = ld;
    view.values = data;
    return view;
}

bool refused(const dense_view& output, const dense_view& input) {
    try {
        check_no_overlap(output, "C", input, "B");
    } catch (const error& e) {
        CHECK(e.code() == status::invalid_value);
        return true;
    }
    return false;
}

std::set<const char*> bytes_of(const dense_view& view) {
    std::set<const char*> bytes;
    const int64_t size = storage_bits(view.type) / 8;
    for (int64_t batch = 0; batch < view.batch_count; ++batch)
        for (int64_t i = 0; i < view.rows; ++i)
            for (int64_t j = 0; j < view.cols; ++j)
                for (int64_t b = 0; b < size; ++b)
                    bytes.insert(static_cast<char*>(view.values) + view.index(batch, i, j) * size +
                                 b);
    return bytes;
}

bool share_bytes(const dense_view& a, const dense_view& b) {
    const auto in_b = bytes_of(b);
    for (const char* byte : bytes_of(a))
        if (in_b.count(byte)) return true;
    return false;
}

dense_view random_view(support::generator& random, std::vector<char>& memory, bool solid) {
    const auto pick = [&](int64_t low, int64_t high) {
        return support::uniform(random, low, high);
    };
    const dtype type = pick(0, 1) ? dtype::int8 : dtype::fp16;
    const int64_t size = storage_bits(type) / 8;
    const int64_t rows = pick(1, 4);
    const int64_t cols = pick(1, 6);
    const order storage = pick(0, 1) ? order::row : order::col;
    const int64_t length = storage == order::row ? cols : rows;
    const int64_t ld = solid ? length : std::max<int64_t>(length, 12 / size);
    auto view = view_of(type, storage, rows, cols, ld, memory.data() + pick(0, 40) * 2);
    view.batch_count = pick(1, 3);
    const int64_t dense_stride = view.outer() * ld;
    const int64_t strides[] = {0, length, ld, dense_stride, 2 * dense_stride, pick(0, 40)};
    view.batch_stride = solid ? dense_stride : strides[pick(0, 5)];
    return view;
}

// Whether all stored lines of the batch lie at one distance.
bool is_grid(const dense_view& view) {
    const int64_t step = view.batch_stride;
    return view.batch_count == 1 || step == 0 || view.outer() == 1 ||
           step == view.outer() * view.ld ||
           (step == view.inner() && view.batch_count * view.inner() <= view.ld);
}

}  // namespace

TEST_CASE("overlap is found exactly where lines lie at one distance, never where there is none") {
    std::vector<char> memory(4096);
    support::generator random(1);
    int shared = 0;
    int silent = 0;
    for (int i = 0; i < 20000; ++i) {
        const bool solid = i % 2 == 0;
        const auto output = random_view(random, memory, solid);
        const auto input = random_view(random, memory, solid);
        const bool truth = share_bytes(output, input);
        shared += truth;
        if (is_grid(output) && is_grid(input)) {
            REQUIRE(refused(output, input) == truth);
        } else {
            const bool found = refused(output, input);
            REQUIRE((!found || truth));
            silent += truth && !found;
        }
    }
    CHECK(silent < 4000);
    CHECK(shared > 2000);
    CHECK(shared < 18000);
}

TEST_CASE("overlap of batches and empty matrices") {
    std::vector<char> memory(4096);
    auto input = view_of(dtype::int8, order::row, 2, 4, 4, memory.data());
    input.batch_count = 3;
    input.batch_stride = 8;
    auto output = view_of(dtype::int8, order::row, 1, 4, 4, memory.data() + 20);
    CHECK(refused(output, input));
    output.values = memory.data() + 24;
    CHECK_FALSE(refused(output, input));
    output.values = memory.data() + 20;
    output.rows = 0;
    CHECK_FALSE(refused(output, input));
    output.rows = 1;
    output.values = nullptr;
    output.batch_count = 0;
    CHECK_FALSE(refused(output, input));
}

TEST_CASE("batches that interleave matrix by matrix are apart") {
    std::vector<char> memory(4096);
    auto b = view_of(dtype::int8, order::row, 16, 16, 16, memory.data());
    b.batch_count = 4;
    b.batch_stride = 512;
    auto c = b;
    c.values = memory.data() + 256;
    CHECK_FALSE(refused(c, b));
    c.values = memory.data();
    CHECK(refused(c, b));
}

TEST_CASE("scales of a batch: the product that overflows is named, empty arrays end at once") {
    const auto message = [](int64_t stride, int64_t count) {
        try {
            check_scale_shape({granularity::row, stride}, {granularity::row}, count, "problem->s");
        } catch (const error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    CHECK(message(4, 4).empty());
    CHECK(message(int64_t{1} << 40, int64_t{1} << 40).rfind("problem->s_batch_stride", 0) == 0);
    const float scale = 1;
    check_scales(context(), {granularity::row, 1}, &scale, 0, int64_t{1} << 60, "s");
    check_scales(context(), {granularity::row, 0}, &scale, 1, int64_t{1} << 60, "s");
}
