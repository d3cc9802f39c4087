// SPDX-License-Identifier: Apache-2.0
#include "cases.hpp"
#include "core/formats/bsr/convert.hpp"
#include "core/formats/csr/convert.hpp"
#include "core/formats/dense/convert.hpp"
#include "core/formats/offsets.hpp"
#include "core/ops/views.hpp"

using namespace magicube;
using namespace support;

namespace {

// Writes into a poisoned matrix on every device and compares all of it, gaps and guards included,
// with one into which the grid's elements were put one by one. make_source(mirror) gives the
// source there.
template <class MakeSource>
void check_dense(const MakeSource& make_source, const element_grid& grid, kind type, bool col_major,
                 bool as_mask) {
    CAPTURE(static_cast<int>(type));
    CAPTURE(col_major);
    const dense_shape shape{type, grid.rows, grid.cols, col_major, 3, grid.batch};
    for (const auto& ctx : all_contexts()) {
        CAPTURE(name_of(ctx.device));
        generator random(10);
        dense_sample wanted(shape, random);
        dense_sample result(shape, random);
        for (int64_t b = 0; b < grid.batch; ++b)
            for (int64_t i = 0; i < grid.rows; ++i)
                for (int64_t j = 0; j < grid.cols; ++j) {
                    const size_t at = grid.at(b, i, j);
                    wanted.set(b, i, j, as_mask ? grid.exists[at] : grid.values[at]);
                }
        mirror device(ctx);
        const sparse_view source = make_source(device);
        if (as_mask) {
            sparse_to_mask(ctx, source, view_on(device, result));
        } else {
            sparse_to_dense(ctx, source, view_on(device, result));
        }
        fetch_array(device, result.array());
        CHECK(result.array().bytes() == wanted.array().bytes());
    }
}

template <class MakeSource>
void check_csr(const MakeSource& make_source, const element_grid& grid, kind type, bool narrow) {
    const csr_arrays wanted = csr_of(grid, type);
    for (const auto& ctx : all_contexts()) {
        CAPTURE(name_of(ctx.device));
        mirror device(ctx);
        const sr_bcrs_view source = make_source(device);
        guarded_offsets offsets(grid.rows + 1, narrow);
        csr_target target;
        target.offset_type = offsets.type();
        target.offsets = offsets.put(device);
        target.type = dtype_of(type);
        const int64_t nnz = count_csr(ctx, source, target);
        REQUIRE(nnz == static_cast<int64_t>(wanted.columns.size()));
        offsets.fetch(device);
        REQUIRE(offsets.items() == wanted.offsets);
        guarded_array<int32_t> columns(nnz);
        packed_array values(type, nnz);
        target.col_indices = put_guarded(device, columns);
        target.values = put_array(device, values);
        fill_csr(ctx, source, target);
        fetch_guarded(device, columns);
        fetch_array(device, values);
        CHECK(columns.items() == wanted.columns);
        CHECK(values.bytes() == wanted.values.bytes());
        CHECK((columns.intact() && offsets.intact()));
    }
}

template <class MakeSource>
void check_bsr(const MakeSource& make_source, const element_grid& grid, kind type,
               int64_t block_rows, int64_t block_cols) {
    CAPTURE(block_rows);
    CAPTURE(block_cols);
    const csr_arrays wanted = bsr_of(grid, type, block_rows, block_cols);
    for (const auto& ctx : all_contexts()) {
        CAPTURE(name_of(ctx.device));
        mirror device(ctx);
        const sr_bcrs_view source = make_source(device);
        guarded_offsets offsets(static_cast<int64_t>(wanted.offsets.size()), false);
        bsr_target target;
        target.block_rows = block_rows;
        target.block_cols = block_cols;
        target.offsets = offsets.put(device);
        target.type = dtype_of(type);
        const int64_t nnzb = count_bsr(ctx, source, target);
        offsets.fetch(device);
        CHECK(offsets.items() == wanted.offsets);
        REQUIRE(nnzb == static_cast<int64_t>(wanted.columns.size()));
        guarded_array<int32_t> columns(nnzb);
        packed_array values(type, nnzb * block_rows * block_cols);
        target.block_col_indices = put_guarded(device, columns);
        target.values = put_array(device, values);
        fill_bsr(ctx, source, target);
        fetch_guarded(device, columns);
        fetch_array(device, values);
        CHECK(columns.items() == wanted.columns);
        CHECK(values.bytes() == wanted.values.bytes());
        CHECK((columns.intact() && offsets.intact()));
    }
}

}  // namespace

TEST_CASE("SR-BCRS to dense, mask, CSR and BSR: every V, S and type") {
    generator random(11);
    for (const kind type : kinds)
        for (const int64_t v : vector_lengths)
            for (const int64_t s : strides) {
                if (!int4_allows(type, v, s)) continue;
                CAPTURE(v);
                CAPTURE(s);
                const bool mask = (v + s) % 3 != 0;
                sparse_sample sample({type, 69, 35, v, s, 0.2, mask, v > 4}, random);
                const auto source = [&](mirror& device) { return view_on(device, sample); };
                const element_grid grid = grid_of(sample);
                check_dense(source, grid, type, s == 8, false);
                check_dense(source, grid, kind::uint8, s == 16, true);
                check_csr(source, grid, type, s > 8);
                check_bsr(source, grid, type, 3, 5);
            }
}

TEST_CASE("SR-BCRS to dense, mask, CSR and BSR: shapes with nothing in them, odd blocks") {
    generator random(12);
    const int64_t sizes[][2] = {{0, 0}, {0, 9}, {9, 0}, {1, 1}, {2, 200}, {129, 3}};
    const int64_t blocks[][2] = {{1, 1}, {7, 2}, {64, 64}, {1000000, 1000000}};
    for (const auto& size : sizes)
        for (const kind type : {kind::int4, kind::fp32}) {
            CAPTURE(size[0]);
            CAPTURE(size[1]);
            sparse_sample sample({type, size[0], size[1], 4, 8, 0.3, true}, random);
            const auto source = [&](mirror& device) { return view_on(device, sample); };
            const element_grid grid = grid_of(sample);
            check_dense(source, grid, type, true, false);
            check_dense(source, grid, type, false, false);
            check_csr(source, grid, type, true);
            for (const auto& block : blocks) {
                if (sample.slots() > 0 && block[0] > 100) continue;
                check_bsr(source, grid, type, block[0], block[1]);
            }
        }
}

TEST_CASE("batches to dense: one pattern, shared values, different patterns") {
    generator random(13);
    for (const auto batching :
         {batch_kind::one_pattern, batch_kind::shared_values, batch_kind::different_patterns})
        for (const int64_t batch : {0, 1, 3})
            for (const bool col_major : {false, true}) {
                CAPTURE(batch);
                sparse_sample sample(
                    {kind::int4, 70, 21, 2, 8, 0.3, false, false, batch, batching, 7}, random);
                const element_grid grid = grid_of(sample);
                const auto source = [&](mirror& device) { return view_on(device, sample); };
                check_dense(source, grid, kind::int4, col_major, false);
                check_dense(source, grid, kind::uint8, col_major, true);
            }
}

TEST_CASE("CSR and BSR to dense") {
    generator random(14);
    for (const kind type : {kind::int4, kind::int16, kind::e4m3}) {
        const element_grid grid = random_grid(random, type, 75, 43, 1, 0.1);
        csr_arrays csr = csr_of(grid, type);
        const auto from_csr = [&](mirror& device) { return csr_view_on(device, csr, grid); };
        check_dense(from_csr, grid, type, false, false);
        check_dense(from_csr, grid, kind::uint8, true, true);
        csr_arrays bsr = bsr_of(grid, type, 3, 7);
        const auto from_bsr = [&](mirror& device) { return bsr_view_on(device, bsr, grid, 3, 7); };
        check_dense(from_bsr, grid, type, true, false);
        // CSR is SR-BCRS with vectors of one.
        const auto as_vectors = [&](mirror& device) { return as_sr_bcrs(from_csr(device)); };
        check_csr(as_vectors, grid, type, false);
        check_bsr(as_vectors, grid, type, 2, 2);
    }
}

TEST_CASE("dense matrices and masks are not written over what is read") {
    generator random(16);
    // Every array is at least as long as the matrix, which then reaches into no other.
    const element_grid grid = random_grid(random, kind::int8, 64, 1, 1, 1.0);
    csr_arrays csr = csr_of(grid, kind::int8);
    csr_arrays bsr = bsr_of(grid, kind::int8, 2, 2);
    sparse_sample sample({kind::int8, 64, 1, 2, 8, 1.0, true}, random);
    std::vector<uint8_t> own(64);
    dense_view dense;
    dense.rows = 64;
    dense.cols = dense.ld = 1;
    const auto error = [&](const sparse_view& source, const void* over, bool mask) {
        dense.values = over ? const_cast<void*>(over) : own.data();
        dense.type = mask ? dtype::uint8 : dtype::int8;
        return error_of([&] {
            mask ? sparse_to_mask(context(), source, dense)
                 : sparse_to_dense(context(), source, dense);
        });
    };
    const csr_view c = csr_view_of(csr, grid);
    const bsr_view b = bsr_view_of(bsr, grid, 2, 2);
    const sr_bcrs_view s = view_of(sample);
    for (const bool mask : {false, true}) {
        for (const sparse_view& source : {sparse_view(c), sparse_view(b), sparse_view(s)}) {
            CHECK(error(source, nullptr, mask) == "");
            const std::string name = mask ? "mask" : "dense";
            CHECK(has(error(source, common_of(source).values, mask),
                      name + " overlaps source's values in memory"));
        }
        CHECK(has(error(c, c.offsets.data, mask), "overlaps source's offsets"));
        CHECK(has(error(c, c.col_indices, mask), "overlaps source's col_indices"));
        CHECK(has(error(b, b.offsets.data, mask), "overlaps source's offsets"));
        CHECK(has(error(b, b.block_col_indices, mask), "overlaps source's block_col_indices"));
        CHECK(has(error(s, s.row_begin.data, mask), "overlaps source's row_begin"));
        CHECK(has(error(s, s.row_end.data, mask), "overlaps source's row_end"));
        CHECK(has(error(s, s.col_indices, mask), "overlaps source's col_indices"));
        CHECK(has(error(s, s.element_mask, mask), "overlaps source's element_mask"));
    }
}

TEST_CASE("fills of CSR and BSR refuse offsets that are not those of count") {
    generator random(15);
    sparse_sample sample({kind::int8, 20, 30, 2, 8, 0.5}, random);
    const element_grid grid = grid_of(sample);
    csr_arrays csr = csr_of(grid, kind::int8);
    guarded_array<int32_t> columns(600);
    packed_array values(kind::int8, 600);
    csr_target target;
    target.type = dtype::int8;
    target.col_indices = columns.data();
    target.values = values.data();
    target.offsets = csr.offsets.data();
    const auto fill = [&] { fill_csr(context(), view_of(sample), target); };
    CHECK(error_of(fill) == "");
    for (auto& offset : csr.offsets) ++offset;
    CHECK(has(error_of(fill), "offsets[0] is 1; _count writes 0 there"));
    for (auto& offset : csr.offsets) --offset;
    csr.offsets[3] = -5;
    CHECK(has(error_of(fill), "offsets[3] is -5"));
    csr = csr_of(grid, kind::int8);
    target.offsets = csr.offsets.data();
    for (size_t i = 7; i < csr.offsets.size(); ++i) ++csr.offsets[i];
    CHECK(has(error_of(fill), "another number of entries"));
    CHECK(columns.intact());

    csr_arrays bsr = bsr_of(grid, kind::int8, 4, 4);
    bsr_target blocks;
    blocks.block_rows = blocks.block_cols = 4;
    blocks.type = dtype::int8;
    blocks.block_col_indices = columns.data();
    blocks.values = values.data();
    blocks.offsets = bsr.offsets.data();
    for (size_t i = 2; i < bsr.offsets.size(); ++i) --bsr.offsets[i];
    CHECK(has(error_of([&] { fill_bsr(context(), view_of(sample), blocks); }),
              "another number of entries"));
}

TEST_CASE("issue_05 offsets of 32 bits that cannot hold the count are refused") {
    int32_t narrow[] = {-1, 2000000000, 147483647, 1};
    CHECK(lengths_to_offsets(narrow, index_type::int32, 2, "the number of elements") == INT32_MAX);
    CHECK((narrow[0] == 0 && narrow[1] == 2000000000 && narrow[2] == INT32_MAX));
    narrow[1] = 2000000000;
    narrow[2] = 147483647;
    CHECK(has(error_of([&] {
                  lengths_to_offsets(narrow, index_type::int32, 3, "the number of elements");
              }),
              "the number of elements is 2147483648; int32 offsets hold at most 2147483647"));
    int64_t wide[] = {-1, 2000000000, 2000000000};
    CHECK(lengths_to_offsets(wide, index_type::int64, 2, "the number of elements") == 4000000000);
}
