// SPDX-License-Identifier: Apache-2.0
// SpMM on operands written by hand: the public layout, wrapping, special numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/ops/every_implementation.hpp"
#include "core/ops/spmm/spmm.hpp"
#include "core/ops/views.hpp"

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

// A column b and the type of the products with it.
struct column {
    kind type;
    std::vector<double> b;
    kind c_type;
    float alpha = 1;
};

dense_view view_on(support::mirror& device, support::packed_array& array, int64_t rows) {
    dense_view view;
    view.rows = rows;
    view.cols = 1;
    view.ld = rows + rows % 2;
    view.values = support::put_array(device, array);
    view.type = static_cast<dtype>(array.type());
    view.storage = order::col;
    return view;
}

// The products of one implementation; empty if it declines.
std::vector<double> multiply(const implementation<spmm::operation>& row, const sr_bcrs_view& a,
                             const column& x) {
    context ctx;
    ctx.device = row.device;
    support::mirror device(ctx);
    spmm::problem p;
    p.pattern = support::move_pattern(device, a);
    p.pattern.values =
        device.put(a.values, static_cast<size_t>((a.value_count() * storage_bits(a.type) + 7) / 8));
    p.b_type = static_cast<dtype>(x.type);
    p.b_order = p.c_order = order::col;
    p.c_type = static_cast<dtype>(x.c_type);
    p.implementation = row.name;
    if (!row.decline(ctx, p).empty()) return {};

    support::packed_array b_array(x.type, a.cols + a.cols % 2);
    for (size_t i = 0; i < x.b.size(); ++i) b_array.set(static_cast<int64_t>(i), x.b[i]);
    support::packed_array c_array(x.c_type, a.rows + a.rows % 2);
    support::operation_memory<spmm::operation> memory(device, ctx, p);
    spmm::arguments args;
    args.alpha = &x.alpha;
    args.b = view_on(device, b_array, a.cols);
    args.c = view_on(device, c_array, a.rows);
    memory.lend_workspace(args);
    spmm::execute(ctx, memory.plan(), args);
    support::fetch_array(device, c_array);
    CHECK(memory.check() == "");
    std::vector<double> c;
    for (int64_t i = 0; i < a.rows; ++i) c.push_back(c_array.get(i));
    return c;
}

// Hands test the products of each implementation of each device that takes them.
template <class Test>
void each_product(one_block_row& a, const column& x, const Test& test) {
    for (const auto* row : spmm::operation::implementations()) {
        if (device_count(row->device) == 0) continue;
        CAPTURE(std::string(row->name));
        const auto c = multiply(*row, a.view(), x);
        REQUIRE((!row->reference || !c.empty()));
        if (!c.empty()) test(c);
    }
}

void gives(one_block_row& a, const column& x, const std::vector<double>& right) {
    each_product(a, x, [&](const std::vector<double>& c) { CHECK(c == right); });
}

}  // namespace

TEST_CASE("SpMM reads the layout that the formats' document shows") {
    // V = 2, S = 8: (10, 11) at column 1, (20, 21) at 5, (30, 31) at 9.
    one_block_row a(kind::int16, 12, {1, 5, 9}, {{10, 20, 30}, {11, 21, 31}});
    gives(a, {kind::int8, {0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 100}, kind::int32},
          {10 + 40 + 90, 11 + 42 + 93});
}

TEST_CASE("SpMM: int32 outputs wrap modulo 2^32, others see the whole sum") {
    one_block_row a(kind::int16, 5, {0, 1, 2, 3, 4}, {{-32768, -32768, -32768, -32768, -32768}});
    const std::vector<double> b(5, -32768);  // the sum is 5 * 2^30
    gives(a, {kind::int16, b, kind::int32}, {1073741824.0});
    gives(a, {kind::int16, b, kind::fp32}, {5368709120.0});
    gives(a, {kind::int16, b, kind::fp16}, {infinity});
    gives(a, {kind::int16, b, kind::int8}, {127});
}

TEST_CASE("SpMM: the longest row whose sum passes 32 bits by one is exact") {
    // 512 products of 2^22 are 2^31.
    std::vector<int32_t> cols;
    for (int32_t i = 0; i < 512; ++i) cols.push_back(i);
    one_block_row a(kind::int16, 512, cols, {std::vector<double>(512, -32768)});
    gives(a, {kind::int8, std::vector<double>(512, -128), kind::fp32}, {2147483648.0});
}

TEST_CASE("SpMM: the left uint8 is unsigned, the right int8 signed") {
    one_block_row a(kind::uint8, 2, {0, 1}, {{255, 128}});
    gives(a, {kind::int8, {-128, 1}, kind::int32}, {-32512});
}

TEST_CASE("SpMM: NaN and infinity count where A has elements, and nowhere else") {
    for (const kind type : {kind::fp32, kind::fp16, kind::bf16}) {
        // Padding slots hold numbers; rows 0 and 5 of B meet no element.
        one_block_row a(type, 6, {1, 3},
                        {{1, 2}, {-1, 0}, {0, 3}, {4, 5}, {1, 1}, {2, 2}, {1, -1}, {3, 0}}, 7);
        gives(a, {type, {nan_value, 1, nan_value, 1, infinity, nan_value}, kind::fp32},
              {3, -1, 3, 9, 2, 4, 0, 3});
        each_product(a, {type, {0, infinity, 0, 1, 0, 0}, kind::fp32}, [](const auto& c) {
            CHECK(c[0] == infinity);
            CHECK(c[1] == -infinity);
            CHECK(std::isnan(c[2]));  // 0 * infinity
        });
        const std::vector<double> b{0, 1, 0, nan_value, 0, 0};
        each_product(a, {type, b, kind::fp32}, [](const auto& c) {
            for (const double x : c) CHECK(std::isnan(x));
        });
        gives(a, {type, b, kind::int8}, std::vector<double>(8, 0));
    }
}

TEST_CASE("SpMM: in the reference an absent element meets nothing") {
    one_block_row a(kind::fp32, 2, {0, 1}, {{1, 0}, {1, 2}});
    a.mask = {3, 2, 0, 0, 0, 0, 0, 0};  // element (0, slot 1) is absent
    for (const auto* row : spmm::operation::implementations()) {
        if (row->device != device_kind::cpu || !row->reference) continue;
        CHECK(multiply(*row, a.view(), {kind::fp32, {1, infinity}, kind::fp32}) ==
              std::vector<double>{1, infinity});
    }
}

TEST_CASE("SpMM: subnormals are kept, in operands, sums and outputs") {
    const double least = std::ldexp(1.0, -149);
    one_block_row a(kind::fp32, 2, {0, 1}, {{least, 3 * least}});
    gives(a, {kind::fp32, {1, 2}, kind::fp32}, {7 * least});
    const double half_least = std::ldexp(1.0, -24);
    one_block_row h(kind::fp16, 2, {0, 1}, {{half_least, 5 * half_least}});
    gives(h, {kind::fp16, {1, 1}, kind::fp16}, {6 * half_least});
    one_block_row i(kind::int8, 1, {0}, {{3}});
    gives(i, {kind::int8, {1}, kind::fp16, std::ldexp(1.0f, -24)}, {3 * half_least});
    gives(i, {kind::int8, {1}, kind::fp32, std::ldexp(1.0f, -149)}, {3 * least});
    one_block_row e(kind::e4m3, 1, {0}, {{std::ldexp(1.0, -9)}});
    gives(e, {kind::e4m3, {1}, kind::fp32}, {std::ldexp(1.0, -9)});
}

TEST_CASE("SpMM: the float that a sum becomes is rounded once") {
    // 2^24 + 1 and 2^24 + 3 lie halfway between two floats.
    one_block_row a(kind::int16, 3, {0, 1, 2}, {{16384, 1, 0}});
    gives(a, {kind::int16, {1024, 1, 0}, kind::fp32}, {16777216.0});
    gives(a, {kind::int16, {1024, 3, 0}, kind::fp32}, {16777220.0});
}
