// SPDX-License-Identifier: Apache-2.0
#include "core/ops/operands.hpp"

#include <doctest/doctest.h>

#include <set>
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
    return view_of(type, storage, rows, cols, ld, memory.data() + pick(0, 40) * 2);
}

}  // namespace

TEST_CASE("overlap of matrices without gaps, or with the same pitch, is found exactly") {
    std::vector<char> memory(4096);
    support::generator random(1);
    int shared = 0;
    for (int i = 0; i < 20000; ++i) {
        const bool solid = i % 2 == 0;
        const auto output = random_view(random, memory, solid);
        const auto input = random_view(random, memory, solid);
        const bool truth = share_bytes(output, input);
        shared += truth;
        const bool same_pitch =
            output.ld * storage_bits(output.type) == input.ld * storage_bits(input.type);
        if (solid || same_pitch) {
            REQUIRE(refused(output, input) == truth);
        } else {
            REQUIRE((!refused(output, input) || truth));  // never a false alarm
        }
    }
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
