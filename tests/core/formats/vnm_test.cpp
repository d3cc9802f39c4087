// SPDX-License-Identifier: Apache-2.0
// V:n:M: conversions from every format and to every format, against arrays written element by
// element.
#include <algorithm>
#include <set>

#include "cases.hpp"
#include "core/formats/csr/convert.hpp"
#include "core/formats/dense/convert.hpp"
#include "core/formats/row_cursor.hpp"
#include "core/formats/vnm/convert.hpp"

using namespace magicube;
using namespace support;

namespace {

constexpr kind vnm_kinds[] = {kind::int8, kind::fp16, kind::bf16, kind::fp32, kind::e4m3};
constexpr int64_t vnm_lengths[] = {1, 16, 32, 64, 128, 256};

struct vnm_rule {
    int64_t v, n, m;
};

// The existing elements of a sample with their values, zeros among them.
element_grid grid_of(const vnm_sample& sample) {
    const auto& shape = sample.shape();
    element_grid grid(shape.rows, shape.cols, shape.batch);
    for (int64_t b = 0; b < shape.batch; ++b)
        sample.each_element(b, [&](int64_t row, int64_t col, int64_t index, int64_t) {
            grid.put(b, row, col, sample.values().get(b * sample.values_stride() + index));
        });
    return grid;
}

struct vnm_arrays {
    std::vector<int64_t> loc;
    std::vector<uint8_t> metadata;
    std::vector<double> values;
};

// The columns of a group in which rows have elements, the lowest others, the last one again.
std::vector<int64_t> selected(const element_grid& grid, const vnm_rule& rule, int64_t row,
                              int64_t g) {
    const int64_t budget = rule.n > 3 ? rule.n + 2 : 4;
    const int64_t width = std::min(rule.m, grid.cols - g * rule.m);
    std::set<int64_t> columns;
    for (int64_t c = 0; c < width; ++c)
        if (grid.any(0, row, rule.v, g * rule.m + c, 1)) columns.insert(c);
    for (int64_t c = 0; c < width && static_cast<int64_t>(columns.size()) < budget; ++c)
        columns.insert(c);
    std::vector<int64_t> result(columns.begin(), columns.end());
    result.resize(static_cast<size_t>(budget), width - 1);
    return result;
}

vnm_arrays vnm_of(const element_grid& grid, const vnm_rule& rule) {
    vnm_arrays result;
    const int64_t groups = (grid.cols + rule.m - 1) / rule.m;
    const int64_t row_bytes = (groups + 1) / 2;
    if (rule.n == 2) result.metadata.resize(static_cast<size_t>(grid.rows * row_bytes), 0);
    for (int64_t i = 0; i < grid.rows; ++i)
        for (int64_t g = 0; g < groups; ++g) {
            const auto columns = selected(grid, rule, i / rule.v * rule.v, g);
            if (i % rule.v == 0)
                result.loc.insert(result.loc.end(), columns.begin(), columns.end());
            const int64_t width = std::min(rule.m, grid.cols - g * rule.m);
            const auto exists = [&](int64_t place) {
                const int64_t column = g * rule.m + columns[static_cast<size_t>(place)];
                return place < width && grid.exists[grid.at(0, i, column)];
            };
            const auto count = static_cast<int64_t>(columns.size());
            int64_t free = rule.n, kept = 0;
            for (int64_t p = 0; p < count; ++p) free -= exists(p);
            for (int64_t p = 0; p < count; ++p) {
                if (!exists(p) && free-- <= 0) continue;
                const int64_t column = g * rule.m + columns[static_cast<size_t>(p)];
                result.values.push_back(exists(p) ? grid.values[grid.at(0, i, column)] : 0);
                if (rule.n != 2) {
                    result.metadata.push_back(static_cast<uint8_t>(p));
                } else {
                    result.metadata[static_cast<size_t>(i * row_bytes + g / 2)] |=
                        static_cast<uint8_t>(p << (g % 2 * 4 + 2 * kept));
                }
                ++kept;
            }
        }
    return result;
}

// Converts into guarded, poisoned arrays and compares every byte.
template <class Source>
void check_to_vnm(const Source& source, const element_grid& grid, kind type, const vnm_rule& rule) {
    CAPTURE(rule.v);
    CAPTURE(rule.n);
    CAPTURE(rule.m);
    CAPTURE(static_cast<int>(type));
    const auto wanted = vnm_of(grid, rule);
    vnm_target target;
    target.vector_length = static_cast<int32_t>(rule.v);
    target.n = static_cast<int32_t>(rule.n);
    target.m = static_cast<int32_t>(rule.m);
    target.type = dtype_of(type);
    check_source(source, target, conversion_step::count);
    CHECK(count_vnm(context(), source, target) ==
          std::count(grid.exists.begin(), grid.exists.end(), 1));

    const auto places = static_cast<int64_t>(wanted.loc.size());
    guarded_array<uint8_t> narrow(places);
    guarded_array<uint16_t> wide(places);
    guarded_array<uint8_t> metadata(static_cast<int64_t>(wanted.metadata.size()));
    packed_array values(type, static_cast<int64_t>(wanted.values.size()));
    packed_array wanted_values = values;
    for (int64_t i = 0; i < values.count(); ++i)
        wanted_values.set(i, wanted.values[static_cast<size_t>(i)]);
    target.column_loc = rule.m > 256 ? static_cast<void*>(wide.data()) : narrow.data();
    target.metadata = metadata.data();
    target.values = values.data();
    check_source(source, target, conversion_step::fill);
    fill_vnm(context(), source, target);
    for (int64_t i = 0; i < places; ++i)
        REQUIRE((rule.m > 256 ? wide[i] : narrow[i]) == wanted.loc[static_cast<size_t>(i)]);
    CHECK(metadata.items() == wanted.metadata);
    CHECK(values.bytes() == wanted_values.bytes());
    CHECK((narrow.intact() && wide.intact() && metadata.intact()));

    target.values = nullptr;  // the pattern alone
    fill_vnm(context(), source, target);
    CHECK(metadata.items() == wanted.metadata);
}

// Writes into a poisoned matrix and compares all of it, gaps and guards included.
void check_to_dense(const context& ctx, vnm_sample& sample, const element_grid& grid,
                    bool col_major, bool as_mask) {
    const kind target = as_mask ? kind::uint8 : sample.shape().type;
    const dense_shape shape{target, grid.rows, grid.cols, col_major, 3, grid.batch};
    generator same(7), again(7);
    dense_sample wanted(shape, same), result(shape, again);
    for (int64_t b = 0; b < grid.batch; ++b)
        for (int64_t i = 0; i < grid.rows; ++i)
            for (int64_t j = 0; j < grid.cols; ++j) {
                const size_t at = grid.at(b, i, j);
                wanted.set(b, i, j, as_mask ? grid.exists[at] : grid.values[at]);
            }
    mirror device(ctx);
    const sparse_view source = view_on(device, sample);
    if (as_mask) {
        sparse_to_mask(ctx, source, view_on(device, result));
    } else {
        sparse_to_dense(ctx, source, view_on(device, result));
    }
    fetch_array(device, result.array());
    CHECK(result.array().bytes() == wanted.array().bytes());
}

const vnm_rule rules[] = {{1, 2, 4},    {16, 2, 8},   {32, 2, 5},  {64, 2, 8}, {128, 2, 16},
                          {256, 2, 40}, {64, 2, 300}, {16, 1, 4},  {32, 3, 7}, {64, 4, 6},
                          {1, 5, 16},   {128, 7, 9},  {16, 4, 300}};

struct extent {
    int64_t rows, cols;
};
const extent extents[] = {{0, 0},   {0, 9},   {5, 0},     {1, 1},   {3, 2},   {17, 3},
                          {33, 41}, {64, 64}, {130, 301}, {257, 8}, {300, 43}};

}  // namespace

TEST_CASE("V:N:M from dense, masks, CSR, BSR, SR-BCRS and V:N:M: every rule on every shape") {
    generator random(101);
    uint64_t turn = 0;
    for (const auto& rule : rules)
        for (const auto& e : extents) {
            CAPTURE(e.rows);
            CAPTURE(e.cols);
            const kind type = vnm_kinds[++turn % 5];
            vnm_sample sample(
                {type, e.rows, e.cols, rule.v, rule.m, rule.n, static_cast<selection>(turn % 4)},
                random);
            const element_grid grid = grid_of(sample);
            check_to_vnm(sparse_view(view_of(sample)), grid, type, rule);
            const csr_arrays csr = csr_of(grid, type);
            check_to_vnm(sparse_view(csr_view_of(csr, grid)), grid, type, rule);
            const auto sr_bcrs = sr_bcrs_of(grid, type, 8, 16);
            check_to_vnm(sparse_view(sr_bcrs_view_of(sr_bcrs, grid, 8, 16)), grid, type, rule);

            dense_sample dense({type, e.rows, e.cols, turn % 2 == 0, 3}, random);
            dense_sample mask({kind::uint8, e.rows, e.cols, turn % 3 == 0, 1}, random);
            element_grid nonzero(e.rows, e.cols, 1);
            for (int64_t i = 0; i < e.rows; ++i)
                for (int64_t j = 0; j < e.cols; ++j) {
                    const double value = grid.values[grid.at(0, i, j)];
                    dense.set(0, i, j, value == 0 && is_float(type) ? -0.0 : value);
                    mask.set(0, i, j, grid.exists[grid.at(0, i, j)] ? 200 : 0);
                    if (value != 0) nonzero.put(0, i, j, value);
                }
            check_to_vnm(dense_source{view_of(dense), nullptr}, nonzero, type, rule);
            const auto mask_view = view_of(mask);
            element_grid marked = grid;
            for (double& value : marked.values)
                if (value == 0 && is_float(type)) value = -0.0;
            check_to_vnm(dense_source{view_of(dense), &mask_view}, marked, type, rule);
        }
}

TEST_CASE("V:N:M to dense, masks, CSR and SR-BCRS: every V and type, batches") {
    generator random(102);
    uint64_t turn = 0;
    for (const int64_t v : vnm_lengths)
        for (const kind type : vnm_kinds)
            for (const int64_t m : {4, 7, 300}) {
                ++turn;
                const auto batch = static_cast<int64_t>(turn % 3) + 1;
                vnm_sample sample({type, 2 * v + 1 + static_cast<int64_t>(turn % 5), 45, v, m,
                                   turn % 4 ? 2 : 3, selection::random, batch, turn % 2 == 0, 3},
                                  random);
                validate_sizes(view_of(sample));
                validate_pattern(context(), view_of(sample), "A");
                validate_values(context(), sparse_view(view_of(sample)), "A");
                const element_grid grid = grid_of(sample);
                for (const auto& ctx : all_contexts()) {
                    CAPTURE(name_of(ctx.device));
                    for (const bool as_mask : {false, true})
                        check_to_dense(ctx, sample, grid, turn % 2 == 1, as_mask);
                    check_conversion_on(
                        ctx, [&](mirror& device) { return sparse_view(view_on(device, sample)); },
                        sr_bcrs_of(grid, type, 16, 8), type, 16, 8);
                }
            }
}

TEST_CASE("V:N:M to CSR: every stored element that exists, zeros included") {
    generator random(103);
    for (const int64_t m : {4, 6, 300})
        for (const bool narrow : {false, true}) {
            vnm_sample sample({kind::fp16, 70, 303, 32, m}, random);
            const auto grid = grid_of(sample);
            const auto wanted = csr_of(grid, kind::fp16);
            guarded_offsets offsets(71, narrow);
            const context ctx;
            mirror device(ctx);
            csr_target target;
            target.offset_type = offsets.type();
            target.offsets = offsets.put(device);
            target.type = dtype::fp16;
            const int64_t nnz = count_csr(context(), view_of(sample), target);
            REQUIRE(nnz == static_cast<int64_t>(wanted.columns.size()));
            CHECK(offsets.items() == wanted.offsets);
            guarded_array<int32_t> columns(nnz);
            packed_array values(kind::fp16, nnz);
            target.col_indices = columns.data();
            target.values = values.data();
            fill_csr(context(), view_of(sample), target);
            CHECK(columns.items() == wanted.columns);
            CHECK(values.bytes() == wanted.values.bytes());
        }
}

TEST_CASE("V:N:M: a cursor seeks every column") {
    generator random(104);
    vnm_sample sample({kind::int8, 5, 43, 1, 8}, random);
    const auto view = view_of(sample);
    const auto grid = grid_of(sample);
    for (int64_t row = 0; row < 5; ++row)
        for (int64_t col = 0; col < 50; ++col) {
            const int64_t at = position_in(view, 0, row, col);
            REQUIRE((at >= 0) == (col < 43 && grid.exists[grid.at(0, row, col)]));
            if (at >= 0) CHECK(sample.values().get(at) == grid.values[grid.at(0, row, col)]);
        }
}

TEST_CASE("a matrix that is not V:N:M is refused with the block, the group and the count") {
    generator random(105);
    dense_sample dense({kind::int8, 40, 20, false, 0}, random);
    for (int64_t i = 0; i < 40; ++i) dense.set_row(i, 0);
    vnm_target target;
    target.vector_length = 16;
    target.m = 8;
    target.type = dtype::int8;
    const dense_source source{view_of(dense), nullptr};
    const auto error = [&] { return error_of([&] { count_vnm(context(), source, target); }); };
    CHECK(error() == "");
    for (const int64_t j : {8, 11, 15}) dense.set(0, 35, j, 1);
    CHECK(error() ==
          "dense has 3 elements in group 1 of row 35 (block row 2); 16:2:8 keeps 2 of each 8 "
          "columns");
    std::vector<uint8_t> loc(36), metadata(80);
    packed_array values(kind::int8, 240);
    target.column_loc = loc.data();
    target.metadata = metadata.data();
    target.values = values.data();
    CHECK(error_of([&] { fill_vnm(context(), source, target); }) == error());
    dense.set(0, 35, 11, 0);
    CHECK(error() == "");
    for (int64_t j = 8; j < 13; ++j) dense.set(0, 20 + j - 8, j, 1);
    CHECK(error() ==
          "dense has elements in 5 columns of group 1 of block row 1 (rows from 16); 16:2:8 "
          "selects 4 of each 8 columns");
    const auto view = view_of(dense);
    dense_sample mask({kind::uint8, 40, 20, false, 0}, random);
    for (int64_t i = 0; i < 40; ++i) mask.set_row(i, 1);
    const auto mask_view = view_of(mask);
    CHECK(has(error_of([&] {
                  count_vnm(context(), dense_source{view, &mask_view}, target);
              }),
              "mask has 8 elements in group 0 of row 0"));
    const csr_arrays csr = csr_of(support::element_grid(40, 20, 1), kind::int8);
    CHECK(count_vnm(context(), sparse_view(csr_view_of(csr, element_grid(40, 20, 1))), target) ==
          0);
}
