// SPDX-License-Identifier: Apache-2.0
// SpMM on operands written by hand: the public layout, wrapping, special numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/ops/spmm/spmm.hpp"
#include "support/numbers.hpp"

using namespace magicube;
using support::kind;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
const double nan_value = std::nan("");

// One block row of vectors at the given columns, S = 8; values[v][slot].
struct one_block_row {
    kind type;
    int64_t v;
    int64_t k;
    std::vector<int32_t> cols;
    support::packed_array values;
    std::vector<uint8_t> mask;
    int64_t begin = 0;
    int64_t end;

    one_block_row(kind t, int64_t k_, std::vector<int32_t> columns,
                  const std::vector<std::vector<double>>& rows, double padding = 0)
        : type(t),
          v(static_cast<int64_t>(rows.size())),
          k(k_),
          cols(std::move(columns)),
          end(static_cast<int64_t>(cols.size())) {
        while (cols.size() % 8) cols.push_back(-1);
        values = support::packed_array(t, v * static_cast<int64_t>(cols.size()));
        for (int64_t slot = 0; slot < static_cast<int64_t>(cols.size()); ++slot) {
            for (int64_t i = 0; i < v; ++i) {
                const auto& row = rows[static_cast<size_t>(i)];
                values.set(slot / 8 * 8 * v + i * 8 + slot % 8,
                           slot < end ? row[static_cast<size_t>(slot)] : padding);
            }
        }
    }

    sr_bcrs_view view() {
        sr_bcrs_view a;
        a.rows = v;
        a.cols = k;
        a.values = values.data();
        a.type = static_cast<dtype>(type);
        a.vector_length = static_cast<int32_t>(v);
        a.stride = 8;
        a.slots = static_cast<int64_t>(cols.size());
        a.row_begin = {&begin, index_type::int64};
        a.row_end = {&end, index_type::int64};
        a.col_indices = cols.data();
        if (!mask.empty()) a.element_mask = mask.data();
        return a;
    }
};

// The products with a column b.
std::vector<double> multiply(const sr_bcrs_view& a, kind b_type, const std::vector<double>& b,
                             kind c_type, const char* implementation = nullptr, float alpha = 1) {
    support::packed_array b_array(b_type, a.cols + a.cols % 2);
    for (size_t i = 0; i < b.size(); ++i) b_array.set(static_cast<int64_t>(i), b[i]);
    support::packed_array c_array(c_type, a.rows);
    spmm::problem p;
    p.pattern = a;
    p.b_type = static_cast<dtype>(b_type);
    p.b_order = p.c_order = order::col;
    p.c_type = static_cast<dtype>(c_type);
    p.implementation = implementation;
    spmm::arguments args;
    args.alpha = &alpha;
    args.b = {a.cols, 1, a.cols + a.cols % 2, b_array.data(), p.b_type, order::col, true, 1, 0};
    args.c = {a.rows, 1, a.rows, c_array.data(), p.c_type, order::col, false, 1, 0};
    const auto plan = spmm::create(context(), p, nullptr, 0);
    std::vector<char> memory(static_cast<size_t>(plan->resources().needs.workspace_bytes) + 256);
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    args.workspace = memory.data() + (256 - address % 256);
    args.workspace_size = memory.size() - 256;
    spmm::execute(context(), *plan, args);
    std::vector<double> c;
    for (int64_t i = 0; i < a.rows; ++i) c.push_back(c_array.get(i));
    return c;
}

template <class Test>
void each_cpu_implementation(const Test& test) {
    for (const auto* row : spmm::operation::implementations())
        if (row->device == device_kind::cpu) test(row->name);
}

}  // namespace

TEST_CASE("SpMM reads the layout that the formats' document shows") {
    // V = 2, S = 8: (10, 11) at column 1, (20, 21) at 5, (30, 31) at 9.
    one_block_row a(kind::int16, 12, {1, 5, 9}, {{10, 20, 30}, {11, 21, 31}});
    each_cpu_implementation([&](const char* name) {
        const auto c = multiply(a.view(), kind::int8, {0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 100},
                                kind::int32, name);
        CHECK(c == std::vector<double>{10 + 40 + 90, 11 + 42 + 93});
    });
}

TEST_CASE("SpMM: int32 outputs wrap modulo 2^32, others see the whole sum") {
    one_block_row a(kind::int16, 5, {0, 1, 2, 3, 4}, {{-32768, -32768, -32768, -32768, -32768}});
    const std::vector<double> b(5, -32768);  // the sum is 5 * 2^30
    each_cpu_implementation([&](const char* name) {
        CHECK(multiply(a.view(), kind::int16, b, kind::int32, name)[0] == 1073741824.0);
        CHECK(multiply(a.view(), kind::int16, b, kind::fp32, name)[0] == 5368709120.0);
        CHECK(multiply(a.view(), kind::int16, b, kind::fp16, name)[0] == infinity);
        CHECK(multiply(a.view(), kind::int16, b, kind::int8, name)[0] == 127);
    });
}

TEST_CASE("SpMM: the longest row whose sum passes 32 bits by one is exact") {
    // 512 products of 2^22 are 2^31.
    std::vector<int32_t> cols;
    for (int32_t i = 0; i < 512; ++i) cols.push_back(i);
    one_block_row a(kind::int16, 512, cols, {std::vector<double>(512, -32768)});
    const std::vector<double> b(512, -128);
    each_cpu_implementation([&](const char* name) {
        CHECK(multiply(a.view(), kind::int8, b, kind::fp32, name)[0] == 2147483648.0);
    });
}

TEST_CASE("SpMM: the left uint8 is unsigned, the right int8 signed") {
    one_block_row a(kind::uint8, 2, {0, 1}, {{255, 128}});
    each_cpu_implementation([&](const char* name) {
        CHECK(multiply(a.view(), kind::int8, {-128, 1}, kind::int32, name)[0] == -32512);
    });
}

TEST_CASE("SpMM: NaN and infinity count where A has elements, and nowhere else") {
    for (const kind type : {kind::fp32, kind::fp16, kind::bf16}) {
        // Padding slots hold numbers; rows 0 and 5 of B meet no element.
        one_block_row a(type, 6, {1, 3},
                        {{1, 2}, {-1, 0}, {0, 3}, {4, 5}, {1, 1}, {2, 2}, {1, -1}, {3, 0}}, 7);
        each_cpu_implementation([&](const char* name) {
            auto c = multiply(a.view(), type, {nan_value, 1, nan_value, 1, infinity, nan_value},
                              kind::fp32, name);
            CHECK(c == std::vector<double>{3, -1, 3, 9, 2, 4, 0, 3});
            c = multiply(a.view(), type, {0, infinity, 0, 1, 0, 0}, kind::fp32, name);
            CHECK(c[0] == infinity);
            CHECK(c[1] == -infinity);
            CHECK(std::isnan(c[2]));  // 0 * infinity
            c = multiply(a.view(), type, {0, 1, 0, nan_value, 0, 0}, kind::fp32, name);
            for (const double x : c) CHECK(std::isnan(x));
            c = multiply(a.view(), type, {0, 1, 0, nan_value, 0, 0}, kind::int8, name);
            CHECK(c == std::vector<double>(8, 0));
        });
    }
}

TEST_CASE("SpMM: in the reference an absent element meets nothing") {
    one_block_row a(kind::fp32, 2, {0, 1}, {{1, 0}, {1, 2}});
    a.mask = {3, 2, 0, 0, 0, 0, 0, 0};  // element (0, slot 1) is absent
    const auto c = multiply(a.view(), kind::fp32, {1, infinity}, kind::fp32, "reference");
    CHECK(c == std::vector<double>{1, infinity});
}

TEST_CASE("SpMM: subnormals are kept, in operands, sums and outputs") {
    each_cpu_implementation([&](const char* name) {
        const double least = std::ldexp(1.0, -149);
        one_block_row a(kind::fp32, 2, {0, 1}, {{least, 3 * least}});
        CHECK(multiply(a.view(), kind::fp32, {1, 2}, kind::fp32, name)[0] == 7 * least);
        const double half_least = std::ldexp(1.0, -24);
        one_block_row h(kind::fp16, 2, {0, 1}, {{half_least, 5 * half_least}});
        CHECK(multiply(h.view(), kind::fp16, {1, 1}, kind::fp16, name)[0] == 6 * half_least);
        one_block_row i(kind::int8, 1, {0}, {{3}});
        CHECK(multiply(i.view(), kind::int8, {1}, kind::fp16, name, std::ldexp(1.0f, -24))[0] ==
              3 * half_least);
        CHECK(multiply(i.view(), kind::int8, {1}, kind::fp32, name, std::ldexp(1.0f, -149))[0] ==
              3 * least);
        one_block_row e(kind::e4m3, 1, {0}, {{std::ldexp(1.0, -9)}});
        CHECK(multiply(e.view(), kind::e4m3, {1}, kind::fp32, name)[0] == std::ldexp(1.0, -9));
    });
}

TEST_CASE("SpMM: the float that a sum becomes is rounded once") {
    // 2^24 + 1 and 2^24 + 3 lie halfway between two floats.
    one_block_row a(kind::int16, 3, {0, 1, 2}, {{16384, 1, 0}});
    each_cpu_implementation([&](const char* name) {
        CHECK(multiply(a.view(), kind::int16, {1024, 1, 0}, kind::fp32, name)[0] == 16777216.0);
        CHECK(multiply(a.view(), kind::int16, {1024, 3, 0}, kind::fp32, name)[0] == 16777220.0);
    });
}
