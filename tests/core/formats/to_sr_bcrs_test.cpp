// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "cases.hpp"
#include "core/ops/views.hpp"

using namespace magicube;
using namespace support;

namespace {

struct extent {
    int64_t rows, cols;
};
constexpr extent extents[] = {{0, 0}, {0, 7},   {5, 0},  {1, 1},
                              {3, 5}, {64, 33}, {67, 9}, {130, 301}};

// Zeroes most elements (some as -0), so that whole vectors vanish.
void thin_out(dense_sample& sample, generator& random) {
    const auto& shape = sample.shape();
    for (int64_t b = 0; b < (shape.shared ? 1 : shape.batch); ++b)
        for (int64_t i = 0; i < shape.rows; ++i)
            for (int64_t j = 0; j < shape.cols; ++j)
                if (uniform(random, 0, 19) != 0)
                    sample.set(b, i, j, is_float(shape.type) && uniform(random, 0, 1) ? -0.0 : 0);
}

// Vectors with a nonzero exist as a whole.
element_grid grid_of_dense(const dense_sample& sample, int64_t v) {
    const auto& shape = sample.shape();
    element_grid grid(shape.rows, shape.cols, shape.batch);
    for (int64_t b = 0; b < shape.batch; ++b)
        for (int64_t row = 0; row < shape.rows; row += v)
            for (int64_t j = 0; j < shape.cols; ++j) {
                const int64_t end = std::min(row + v, shape.rows);
                bool any = false;
                for (int64_t i = row; i < end; ++i) any = any || sample.at(b, i, j) != 0;
                for (int64_t i = row; any && i < end; ++i) grid.put(b, i, j, sample.at(b, i, j));
            }
    return grid;
}

void check_dense_conversion(dense_sample& dense, const element_grid& grid, kind type, int64_t v,
                            int64_t s) {
    const auto source = [&](mirror& device) {
        return dense_source{view_on(device, dense), nullptr};
    };
    check_conversion(source, grid, type, v, s);
}

// From CSR; with `copies`, a batch of so many with one pattern.
void check_csr_conversion(csr_arrays& csr, const element_grid& grid, kind type, int64_t v,
                          int64_t s, int64_t copies = 1, int64_t values_stride = 0) {
    const auto source = [&](mirror& device) {
        csr_view view = csr_view_on(device, csr, grid);
        view.batch_count = copies;
        view.values_stride = values_stride;
        return sparse_view(view);
    };
    check_conversion(source, grid, type, v, s);
}

}  // namespace

TEST_CASE("dense to SR-BCRS: every V, S, type and order") {
    generator random(1);
    for (const kind type : kinds)
        for (const int64_t v : vector_lengths)
            for (const int64_t s : strides) {
                if (!int4_allows(type, v, s)) continue;
                dense_sample dense({type, 67, 41, (v + s) % 3 == 0, 3}, random);
                thin_out(dense, random);
                check_dense_conversion(dense, grid_of_dense(dense, v), type, v, s);
            }
}

TEST_CASE("dense to SR-BCRS: shapes, batches, shared matrices") {
    generator random(2);
    for (const auto& e : extents)
        for (const int64_t batch : {0, 1, 3})
            for (const bool shared : {false, true}) {
                CAPTURE(e.rows);
                CAPTURE(e.cols);
                CAPTURE(batch);
                dense_sample dense({kind::fp16, e.rows, e.cols, shared, 1, batch, shared}, random);
                thin_out(dense, random);
                check_dense_conversion(dense, grid_of_dense(dense, 4), kind::fp16, 4, 16);
            }
}

TEST_CASE("dense to SR-BCRS: a mask tells which elements exist, zero or not") {
    generator random(3);
    for (const auto& e : extents)
        for (const int64_t v : vector_lengths) {
            CAPTURE(e.rows);
            dense_sample dense({kind::int8, e.rows, e.cols, false, 2, 2}, random);
            dense_sample mask({kind::uint8, e.rows, e.cols, true, 1, 2}, random);
            thin_out(mask, random);
            element_grid grid(e.rows, e.cols, 2);
            for (int64_t b = 0; b < 2; ++b)
                for (int64_t i = 0; i < e.rows; ++i)
                    for (int64_t j = 0; j < e.cols; ++j)
                        if (mask.at(b, i, j) != 0) {
                            if (uniform(random, 0, 3) == 0) dense.set(b, i, j, 0);
                            grid.put(b, i, j, dense.at(b, i, j));
                        }
            dense_view mask_view;
            const auto source = [&](mirror& device) {
                mask_view = view_on(device, mask);
                return dense_source{view_on(device, dense), &mask_view};
            };
            check_conversion(source, grid, kind::int8, v, 8);
        }
}

TEST_CASE("dense to SR-BCRS: NaN exists with all its bits, infinities and subnormals do") {
    const uint32_t patterns[] = {0x7fc12345, 0xff800001, 0x7f800000, 0x00000001, 0x80000000};
    packed_array dense(kind::fp32, 5);
    for (int64_t i = 0; i < 5; ++i) dense.set_raw(i, patterns[i]);
    for (const auto& ctx : all_contexts()) {
        CAPTURE(name_of(ctx.device));
        mirror device(ctx);
        dense_view view;
        view.rows = 1;
        view.cols = view.ld = 5;
        view.values = put_array(device, dense);
        guarded_array<int64_t> begin(1), end(1);
        sr_bcrs_target target;
        target.row_begin = put_guarded(device, begin);
        target.row_end = put_guarded(device, end);
        const dense_source source{view, nullptr};
        target.slots = count_sr_bcrs(ctx, source, target);
        REQUIRE(target.slots == 4);
        guarded_array<int32_t> columns(4);
        packed_array values(kind::fp32, 4);
        target.col_indices = put_guarded(device, columns);
        target.values = put_array(device, values);
        fill_sr_bcrs(ctx, source, target);
        fetch_guarded(device, columns);
        fetch_array(device, values);
        CHECK(columns.items() == std::vector<int32_t>{0, 1, 2, 3});
        for (int64_t i = 0; i < 4; ++i) CHECK(values.raw(i) == patterns[i]);
    }
}

TEST_CASE("every bit pattern of a float converts to the same bits on every device") {
    for (const kind from : {kind::fp16, kind::bf16, kind::e4m3})
        for (const kind to : {kind::fp16, kind::bf16, kind::fp32, kind::e4m3}) {
            const int64_t count = int64_t{1} << bits_of(from);
            packed_array dense(from, count);
            for (int64_t i = 0; i < count; ++i) dense.set_raw(i, static_cast<uint32_t>(i));
            std::vector<uint8_t> ones(static_cast<size_t>(count), 1);
            std::vector<uint8_t> on_cpu;
            for (const auto& ctx : all_contexts()) {
                CAPTURE(static_cast<int>(from));
                CAPTURE(static_cast<int>(to));
                mirror device(ctx);
                dense_view view;
                view.rows = 1;
                view.cols = view.ld = count;
                view.type = dtype_of(from);
                view.values = put_array(device, dense);
                dense_view mask = view;
                mask.type = dtype::uint8;
                mask.values = device.put(ones.data(), ones.size());
                guarded_array<int64_t> begin(1), end(1);
                sr_bcrs_target target;
                target.type = dtype_of(to);
                target.row_begin = put_guarded(device, begin);
                target.row_end = put_guarded(device, end);
                const dense_source source{view, &mask};
                target.slots = count_sr_bcrs(ctx, source, target);
                REQUIRE(target.slots == count);
                guarded_array<int32_t> columns(count);
                packed_array values(to, count);
                target.col_indices = put_guarded(device, columns);
                target.values = put_array(device, values);
                fill_sr_bcrs(ctx, source, target);
                fetch_array(device, values);
                if (ctx.on_cpu()) on_cpu = values.bytes();
                CHECK(values.bytes() == on_cpu);
            }
        }
}

TEST_CASE("CSR to SR-BCRS: every V, S and type") {
    generator random(4);
    for (const kind type : kinds)
        for (const int64_t v : vector_lengths)
            for (const int64_t s : strides) {
                if (!int4_allows(type, v, s)) continue;
                const element_grid grid = random_grid(random, type, 71, 39, 1, 0.15);
                csr_arrays csr = csr_of(grid, type);
                check_csr_conversion(csr, grid, type, v, s);
            }
}

TEST_CASE("CSR to SR-BCRS: a batch with one pattern becomes one of different patterns") {
    generator random(5);
    for (const kind type : {kind::int4, kind::int16}) {
        element_grid grid = random_grid(random, type, 21, 18, 3, 0.3);
        for (int64_t b = 1; b < 3; ++b)
            for (int64_t i = 0; i < 21; ++i)
                for (int64_t j = 0; j < 18; ++j) {
                    grid.exists[grid.at(b, i, j)] = grid.exists[grid.at(0, i, j)];
                    grid.values[grid.at(b, i, j)] =
                        grid.exists[grid.at(0, i, j)] ? random_value(random, type) : 0;
                }
        csr_arrays csr = csr_of(grid, type, 200);
        check_csr_conversion(csr, grid, type, 4, 8, 3, 200);
    }
}

TEST_CASE("BSR to SR-BCRS: block sizes that divide nothing, every element of a block exists") {
    generator random(6);
    const extent blocks[] = {{1, 1}, {2, 3}, {3, 2}, {16, 16}, {5, 1}, {100, 100}};
    for (const kind type : {kind::int4, kind::fp32})
        for (const auto& block : blocks)
            for (const auto& e : extents) {
                element_grid sparse = random_grid(random, type, e.rows, e.cols, 1, 0.05);
                csr_arrays bsr = bsr_of(sparse, type, block.rows, block.cols);
                element_grid whole = sparse;
                for (int64_t i = 0; i < e.rows; ++i)
                    for (int64_t j = 0; j < e.cols; ++j)
                        whole.exists[whole.at(0, i, j)] =
                            sparse.any(0, i / block.rows * block.rows, block.rows,
                                       j / block.cols * block.cols, block.cols);
                const auto source = [&](mirror& device) {
                    return sparse_view(bsr_view_on(device, bsr, sparse, block.rows, block.cols));
                };
                check_conversion(source, whole, type, 8, 32);
            }
}

TEST_CASE("SR-BCRS to SR-BCRS: every V to every other, masks and batches kept") {
    generator random(7);
    for (const int64_t from : vector_lengths)
        for (const int64_t to : vector_lengths)
            for (const bool mask : {false, true})
                for (const auto batching : {batch_kind::one_pattern, batch_kind::shared_values,
                                            batch_kind::different_patterns}) {
                    const kind type = mask ? kind::int4 : kind::bf16;
                    sparse_sample source({type, 77, 23, from, from == 1 ? 8 : 16, 0.2, mask,
                                          from > 8, 2, batching, 5},
                                         random);
                    const auto on = [&](mirror& device) {
                        return sparse_view(view_on(device, source));
                    };
                    check_conversion(on, grid_of(source), type, to, 8);
                }
}

TEST_CASE("floating types convert to one another with one rounding") {
    generator random(8);
    const kind floats[] = {kind::fp16, kind::bf16, kind::fp32, kind::e4m3};
    for (const kind from : floats)
        for (const kind to : floats) {
            element_grid grid = random_grid(random, from, 40, 31, 1, 0.3);
            csr_arrays csr = csr_of(grid, from);
            for (double& value : grid.values) value = round_to(to, value);
            check_csr_conversion(csr, grid, to, 2, 16);
        }
}

TEST_CASE("a fill whose source or offsets are not those of count is refused, and stays inside") {
    generator random(9);
    element_grid grid = random_grid(random, kind::fp32, 40, 30, 1, 0.2);
    const csr_arrays csr = csr_of(grid, kind::fp32);
    const sparse_view source = csr_view_of(csr, grid);
    sr_bcrs_arrays arrays = sr_bcrs_of(grid, kind::fp32, 8, 16);
    guarded_array<int32_t> columns(arrays.slots());
    packed_array values(kind::fp32, arrays.slots() * 8);
    sr_bcrs_target target;
    target.vector_length = 8;
    target.stride = 16;
    target.slots = arrays.slots();
    target.row_begin = arrays.begin.data();
    target.row_end = arrays.end.data();
    target.col_indices = columns.data();
    target.values = values.data();
    const auto fill = [&] { fill_sr_bcrs(context(), source, target); };

    --arrays.end[0];
    CHECK(has(error_of(fill), "block row 0 of the source has more vectors"));
    arrays.end[0] += 2;
    CHECK(has(error_of(fill), "block row 0 of the source has fewer vectors"));
    --arrays.end[0];
    arrays.begin[2] += 16;
    CHECK(has(error_of(fill), "arrays->row_begin[2] is"));
    arrays.begin[2] -= 16;
    arrays.end[3] = std::numeric_limits<int64_t>::max();
    CHECK(has(error_of(fill), "arrays->row_end[3] is 9223372036854775807"));
    arrays.end[3] = -1;
    CHECK(has(error_of(fill), "arrays->row_end[3] is -1"));
    arrays = sr_bcrs_of(grid, kind::fp32, 8, 16);
    target.row_begin = arrays.begin.data();
    target.row_end = arrays.end.data();
    target.slots += 16;
    CHECK(has(error_of(fill), "arrays->slots is"));
    CHECK(columns.intact());
}

TEST_CASE("on a GPU, a fill whose offsets are not those of count stays inside the arrays") {
    generator random(9);
    element_grid grid = random_grid(random, kind::fp32, 40, 30, 1, 0.2);
    csr_arrays csr = csr_of(grid, kind::fp32);
    const sr_bcrs_arrays good = sr_bcrs_of(grid, kind::fp32, 8, 16);
    constexpr int64_t numbers[] = {-16, -1, 1, 7, 1 << 30, std::numeric_limits<int64_t>::max()};
    for (const auto& ctx : all_contexts()) {
        if (ctx.on_cpu()) continue;
        for (const int64_t number : numbers)
            for (const bool of_begin : {false, true}) {
                mirror device(ctx);
                sr_bcrs_arrays arrays = good;
                (of_begin ? arrays.begin : arrays.end)[2] = number;
                guarded_array<int32_t> columns(arrays.slots());
                packed_array values(kind::fp32, arrays.slots() * 8);
                packed_array untouched = values;
                sr_bcrs_target target;
                target.vector_length = 8;
                target.stride = 16;
                target.slots = arrays.slots();
                const size_t bytes = arrays.begin.size() * sizeof(int64_t);
                target.row_begin = device.put(arrays.begin.data(), bytes);
                target.row_end = device.put(arrays.end.data(), bytes);
                target.col_indices = put_guarded(device, columns);
                target.values = put_array(device, values);
                fill_sr_bcrs(ctx, sparse_view(csr_view_on(device, csr, grid)), target);
                fetch_guarded(device, columns);
                fetch_array(device, values);
                CHECK(columns.intact());
                for (int64_t i = 0; i < values.count(); ++i) untouched.set_raw(i, values.raw(i));
                CHECK(values.bytes() == untouched.bytes());
            }
    }
}
