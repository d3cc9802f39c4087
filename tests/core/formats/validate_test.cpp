// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "cases.hpp"
#include "core/ops/views.hpp"

using namespace magicube;
using namespace support;

namespace {

constexpr int64_t huge = std::numeric_limits<int64_t>::max();

template <class View>
std::string sizes_error(const View& view, status wanted = status::invalid_value) {
    return error_of([&] { validate_sizes(view); }, wanted);
}

template <class View>
std::string pattern_error(const View& view) {
    return error_of([&] { validate_pattern(context(), view, "A"); });
}

// A valid matrix of each format: 6 x 10 with three rows used.
struct csr_case {
    std::vector<int64_t> offsets{0, 2, 2, 5, 5, 5, 6};
    std::vector<int32_t> columns{1, 9, 0, 4, 7, 3};
    csr_view view;

    csr_case() {
        view.rows = 6;
        view.cols = 10;
        view.nnz = 6;
        view.offsets = {offsets.data(), index_type::int64};
        view.col_indices = columns.data();
    }
};

struct bsr_case {
    std::vector<int32_t> offsets{0, 2, 3};
    std::vector<int32_t> columns{0, 3, 2};
    bsr_view view;

    bsr_case() {
        view.rows = 6;
        view.cols = 10;
        view.block_rows = 4;
        view.block_cols = 3;
        view.nnzb = 3;
        view.offsets = {offsets.data(), index_type::int32};
        view.block_col_indices = columns.data();
    }
};

struct sr_bcrs_case {
    std::vector<int64_t> begin{0, 8, 16};
    std::vector<int64_t> end{3, 8, 25};
    std::vector<int32_t> columns = std::vector<int32_t>(32, -1);
    sr_bcrs_view view;

    sr_bcrs_case() {
        for (int32_t i = 0; i < 3; ++i) columns[static_cast<size_t>(i)] = 3 * i;
        for (int32_t i = 0; i < 9; ++i) columns[static_cast<size_t>(16 + i)] = i + 1;
        view.rows = 6;
        view.cols = 10;
        view.vector_length = 2;
        view.stride = 8;
        view.slots = 32;
        view.row_begin = {begin.data(), index_type::int64};
        view.row_end = {end.data(), index_type::int64};
        view.col_indices = columns.data();
    }
};

}  // namespace

TEST_CASE("sizes of a dense matrix") {
    float value = 0;
    const auto error = [&](auto change) {
        dense_view view;
        view.rows = 3;
        view.cols = 5;
        view.ld = 5;
        view.values = &value;
        change(view);
        return sizes_error(view);
    };
    CHECK(error([](auto&) {}) == "");
    CHECK(has(error([](auto& v) { v.rows = -1; }), "rows is -1; it must be at least 0"));
    CHECK(has(error([](auto& v) { v.cols = -7; }), "cols is -7; it must be at least 0"));
    CHECK(has(error([](auto& v) { v.ld = 4; }), "ld is 4; it must be at least cols = 5"));
    CHECK(has(error([](auto& v) { v.storage = order::col, v.ld = 2; }),
              "ld is 2; it must be at least rows = 3"));
    CHECK(has(error([](auto& v) { v.type = dtype::int4; }), "ld is 5; it must be even for int4"));
    CHECK(has(error([](auto& v) { v.rows = huge; }), "overflows 64 bits"));
    CHECK(has(error([](auto& v) { v.ld = huge / 4; }), "size of values in bytes overflows"));
    CHECK(has(error([](auto& v) { v.batch_count = -1; }), "count is -1"));
    CHECK(has(error([](auto& v) { v.batch_stride = -2; }), "stride is -2"));
    CHECK(has(error([](auto& v) { v.batch_count = 3, v.batch_stride = huge; }),
              "count times stride overflows"));
    CHECK(has(error([](auto& v) { v.type = dtype::int4, v.ld = 6, v.batch_stride = 3; }),
              "stride is 3; it must be even for int4"));
    CHECK(has(error([](auto& v) { v.values = nullptr; }),
              "values is null; it is required where the matrix is not empty (3 x 5)"));
    CHECK(error([](auto& v) { v.values = nullptr, v.rows = 0; }) == "");
    CHECK(error([](auto& v) { v.values = nullptr, v.read_only = true; }) == "");
    dense_view view;
    view.values = reinterpret_cast<char*>(&value) + 2;
    CHECK(has(sizes_error(view, status::misaligned), "must be a multiple of 4 bytes"));
}

TEST_CASE("sizes of CSR and BSR") {
    const auto csr = [](auto change) {
        csr_case c;
        change(c.view);
        return sizes_error(c.view);
    };
    CHECK(csr([](auto&) {}) == "");
    CHECK(has(csr([](auto& v) { v.rows = -1; }), "rows is -1"));
    CHECK(has(csr([](auto& v) { v.rows = int64_t{1} << 31; }),
              "rows is 2147483648; a sparse matrix takes 0 to 2147483647"));
    CHECK(has(csr([](auto& v) { v.cols = int64_t{1} << 31; }), "cols is 2147483648"));
    CHECK(has(csr([](auto& v) { v.nnz = -3; }), "nnz is -3"));
    CHECK(has(csr([](auto& v) { v.nnz = huge / 2; }), "size of values in bytes overflows"));
    CHECK(has(csr([](auto& v) { v.offsets.type = index_type::int32, v.nnz = int64_t{1} << 31; }),
              "nnz is 2147483648; int32 offsets hold at most 2147483647"));
    CHECK(has(csr([](auto& v) { v.offsets.data = nullptr; }), "offsets is null; it must hold 7"));
    CHECK(has(csr([](auto& v) { v.col_indices = nullptr; }), "col_indices is null"));
    CHECK(has(csr([](auto& v) { v.batch_count = -1; }), "count is -1"));
    CHECK(has(csr([](auto& v) { v.values_stride = -1; }), "values_stride is -1"));
    CHECK(has(csr([](auto& v) { v.type = dtype::int4, v.values_stride = 7; }),
              "values_stride is 7; it must be even for int4"));
    CHECK(has(csr([](auto& v) { v.batch_count = 4, v.values_stride = huge / 2; }), "overflows"));
    CHECK(csr([](auto& v) {
              v.rows = v.nnz = 0;
              v.offsets.data = nullptr;
              v.col_indices = nullptr;
          }) == "");
    csr_case odd;
    odd.view.col_indices =
        reinterpret_cast<const int32_t*>(reinterpret_cast<const char*>(odd.columns.data()) + 1);
    CHECK(has(sizes_error(odd.view, status::misaligned), "col_indices is"));

    const auto bsr = [](auto change) {
        bsr_case c;
        change(c.view);
        return sizes_error(c.view);
    };
    CHECK(bsr([](auto&) {}) == "");
    CHECK(has(bsr([](auto& v) { v.block_rows = 0; }), "block_rows is 0; it must be from 1"));
    CHECK(has(bsr([](auto& v) { v.block_cols = -1; }), "block_cols is -1"));
    CHECK(has(bsr([](auto& v) { v.nnzb = -1; }), "nnzb is -1"));
    CHECK(has(bsr([](auto& v) { v.nnzb = huge / 4; }), "nnzb times a block's size overflows"));
    CHECK(has(bsr([](auto& v) { v.offsets.data = nullptr; }), "offsets is null; it must hold 3"));
    CHECK(has(bsr([](auto& v) { v.block_col_indices = nullptr; }), "block_col_indices is null"));
}

TEST_CASE("sizes of SR-BCRS") {
    const auto error = [](auto change) {
        sr_bcrs_case c;
        change(c.view);
        return sizes_error(c.view);
    };
    CHECK(error([](auto&) {}) == "");
    CHECK(has(error([](auto& v) { v.vector_length = 3; }),
              "vector_length is 3; it must be 1, 2, 4, 8, 16, 32 or 64"));
    CHECK(has(error([](auto& v) { v.vector_length = 0; }), "vector_length is 0"));
    CHECK(has(error([](auto& v) { v.stride = 4; }), "stride is 4; it must be 1, 8, 16 or 32"));
    CHECK(has(error([](auto& v) {
                  v.type = dtype::int4;
                  v.vector_length = 1;
                  v.stride = 1;
              }),
              "int4 needs a stride of at least 8 or an even vector length"));
    CHECK(error([](auto& v) { v.type = dtype::int4, v.stride = 1; }) == "");
    CHECK(has(error([](auto& v) { v.slots = -8; }), "slots is -8"));
    CHECK(has(error([](auto& v) { v.slots = 31; }),
              "slots is 31; it must be a multiple of the stride 8"));
    CHECK(has(error([](auto& v) { v.slots = huge / 8 * 8; }), "slots times V overflows"));
    CHECK(has(error([](auto& v) {
                  v.row_begin.type = v.row_end.type = index_type::int32;
                  v.slots = int64_t{1} << 31;
              }),
              "slots is 2147483648; int32 offsets hold at most 2147483647"));
    CHECK(has(error([](auto& v) { v.row_begin.data = nullptr; }), "row_begin is null"));
    CHECK(has(error([](auto& v) { v.row_end.data = nullptr; }), "row_end is null"));
    CHECK(has(error([](auto& v) { v.col_indices = nullptr; }), "col_indices is null"));
    CHECK(error([](auto& v) {
              v.slots = 0;
              v.col_indices = nullptr;
          }) == "");
    CHECK(error([](auto& v) {
              v.rows = v.slots = 0;
              v.col_indices = nullptr;
              v.row_begin.data = v.row_end.data = nullptr;
          }) == "");
}

TEST_CASE("pattern of CSR and BSR") {
    const auto csr = [](auto change) {
        csr_case c;
        change(c);
        return pattern_error(c.view);
    };
    CHECK(csr([](auto&) {}) == "");
    CHECK(
        has(csr([](auto& c) { c.offsets[0] = -1; }), "A: offsets[0] is -1; it must be at least 0"));
    CHECK(has(csr([](auto& c) { c.offsets[3] = 1; }),
              "A: offsets[3] is 1; it must be at least 2, the offset before it"));
    CHECK(has(csr([](auto& c) { c.offsets[6] = 7; }),
              "A: offsets[6] is 7; it must be at most nnz = 6"));
    CHECK(has(csr([](auto& c) { c.columns[1] = 10; }),
              "A: col_indices[1] is 10; it must be at least 0 and below 10"));
    CHECK(has(csr([](auto& c) { c.columns[5] = -1; }), "A: col_indices[5] is -1"));
    CHECK(has(csr([](auto& c) { c.columns[4] = 4; }),
              "A: col_indices[4] is 4 after 4; indices must ascend strictly"));
    CHECK(has(csr([](auto& c) { c.columns[3] = 8; }), "A: col_indices[4] is 7 after 8"));

    const auto bsr = [](auto change) {
        bsr_case c;
        change(c);
        return pattern_error(c.view);
    };
    CHECK(bsr([](auto&) {}) == "");
    CHECK(has(bsr([](auto& c) { c.offsets[2] = 4; }), "offsets[2] is 4; it must be at most nnzb"));
    CHECK(has(bsr([](auto& c) { c.columns[1] = 4; }),
              "A: block_col_indices[1] is 4; it must be at least 0 and below 4"));
    CHECK(has(bsr([](auto& c) { c.columns[0] = 3; }), "A: block_col_indices[1] is 3 after 3"));
}

TEST_CASE("pattern of SR-BCRS") {
    const auto error = [](auto change) {
        sr_bcrs_case c;
        change(c);
        return pattern_error(c.view);
    };
    CHECK(error([](auto&) {}) == "");
    CHECK(has(error([](auto& c) { c.begin[1] = -8; }), "A: row_begin[1] is -8"));
    CHECK(has(error([](auto& c) { c.begin[1] = 7; }),
              "A: row_begin[1] is 7; it must be a multiple of the stride 8"));
    CHECK(has(error([](auto& c) { c.begin[1] = c.end[1] = 40; }),
              "A: row_begin[1] is 40; it must be at most slots = 32"));
    CHECK(has(error([](auto& c) { c.end[0] = -1; }),
              "A: row_end[0] is -1; it must be at least row_begin[0] = 0"));
    CHECK(has(error([](auto& c) { c.end[2] = 33; }),
              "A: row_end[2] is 33; it must be at most slots = 32"));
    CHECK(has(error([](auto& c) { c.end[2] = huge; }), "A: row_end[2] is 9223372036854775807"));
    CHECK(has(error([](auto& c) { c.columns[2] = 10; }), "A: col_indices[2] is 10"));
    CHECK(has(error([](auto& c) { c.columns[1] = -1; }), "A: col_indices[1] is -1"));
    CHECK(has(error([](auto& c) { c.columns[2] = 3; }), "A: col_indices[2] is 3 after 3"));
    CHECK(has(error([](auto& c) { c.columns[30] = 9; }),
              "A: col_indices[30] is 9; it must be -1 in a padding slot (block row 2 ends at slot "
              "25)"));
    // A slot of no block row may hold anything.
    CHECK(error([](auto& c) { c.columns[12] = 99; }) == "");
    // Block rows may come in any order, but not overlap.
    CHECK(error([](auto& c) {
              std::swap(c.begin[0], c.begin[2]);
              std::swap(c.end[0], c.end[2]);
          }) == "");
    CHECK(has(error([](auto& c) { c.begin[1] = 16, c.end[1] = 17; }),
              "A: row_begin[2] is 16; block row 1 occupies slots 16 to 23, and block rows must not "
              "overlap"));
    CHECK(has(error([](auto& c) { c.begin[0] = 24, c.end[0] = 25; }),
              "A: row_begin[0] is 24; block row 2 occupies slots 16 to 31"));
}

TEST_CASE("pattern of SR-BCRS: every matrix of a batch of different patterns is looked at") {
    sr_bcrs_case c;
    c.view.rows = 2;
    c.view.batch_count = 3;
    c.view.different_patterns = true;
    CHECK(pattern_error(c.view) == "");
    c.columns[24] = 1;
    CHECK(has(pattern_error(c.view), "A: col_indices[24] is 1 after 8"));
}

TEST_CASE("values: int12 range, absent elements are zero") {
    generator random(20);
    sparse_sample sample({kind::int12, 20, 20, 8, 16, 0.5}, random);
    sr_bcrs_view view = view_of(sample);
    const auto error = [&] {
        return error_of([&] { validate_values(context(), sparse_view(view), "A"); });
    };
    CHECK(error() == "");
    int64_t existing = -1;
    int64_t padding = -1;
    sample.each_element(
        0, [&](int64_t, int64_t, int64_t slot, int64_t v) { existing = sample.position(slot, v); });
    for (int64_t slot = 0; slot < sample.slots(); ++slot)
        if (sample.cols()[slot] == -1) padding = sample.position(slot, 0);
    REQUIRE((existing >= 0 && padding >= 0));
    sample.values().set_raw(padding, 5000);
    CHECK(error() == "");
    sample.values().set_raw(existing, 2048);
    CHECK(has(error(), text("A: values[", existing, "] is 2048; int12 is from -2048 to 2047")));

    sparse_sample masked({kind::fp16, 20, 20, 8, 16, 0.5, true}, random);
    view = view_of(masked);
    CHECK(error() == "");
    for (int64_t i = 0; i < masked.value_count(); ++i) masked.values().set(i, 1);
    CHECK(has(error(), "is 1; it must be 0, for the element mask calls element"));
    view.values = nullptr;
    CHECK(error() == "");

    dense_sample dense({kind::int12, 4, 5, true, 2, 3}, random);
    const auto dense_error = [&] {
        return error_of([&] { validate_values(context(), view_of(dense), "B"); });
    };
    CHECK(dense_error() == "");
    dense.array().set_raw(dense.index(2, 3, 1), 0xf000);
    CHECK(has(dense_error(), "B[3, 1] (batch 2) is -4096; int12 is from -2048 to 2047"));
}

TEST_CASE("values: a batch that shares its values is looked at once, however large") {
    constexpr int64_t many = int64_t{1} << 60;
    const int64_t offsets[] = {0, 1};
    const int32_t column = 0;
    int16_t value = 2048;
    csr_view csr;
    csr.rows = csr.cols = csr.nnz = 1;
    csr.offsets = {offsets, index_type::int64};
    csr.col_indices = &column;
    csr.values = &value;
    csr.type = dtype::int12;
    csr.batch_count = many;
    const auto error = [&](const sparse_view& view) {
        validate_sizes(view);
        return error_of([&] { validate_values(context(), view, "A"); });
    };
    CHECK(has(error(csr), "values[0] is 2048"));
    value = 2047;
    CHECK(error(csr) == "");
    csr.rows = 1 << 20;  // rows times the batch overflows
    std::vector<int64_t> empty_rows(static_cast<size_t>(csr.rows) + 1);
    csr.nnz = 0;
    csr.values_stride = 1;
    csr.offsets.data = empty_rows.data();
    CHECK(error(csr) == "");

    const int64_t begin = 0;
    const int64_t end = 1;
    const uint8_t mask = 0;
    sr_bcrs_view sr_bcrs;
    static_cast<sparse_common&>(sr_bcrs) = csr;
    sr_bcrs.rows = sr_bcrs.slots = 1;
    sr_bcrs.values_stride = 0;
    sr_bcrs.row_begin.data = &begin;
    sr_bcrs.row_end.data = &end;
    sr_bcrs.col_indices = &column;
    sr_bcrs.element_mask = &mask;
    CHECK(has(error(sr_bcrs), "values[0] is 2047; it must be 0"));
    value = 0;
    CHECK(error(sr_bcrs) == "");

    dense_view dense;
    dense.rows = dense.cols = dense.ld = 1;
    dense.type = dtype::int12;
    dense.values = &value;
    dense.batch_count = many;
    CHECK(error_of([&] { validate_values(context(), dense, "B"); }) == "");
    value = -2049;
    CHECK(has(error_of([&] { validate_values(context(), dense, "B"); }), "is -2049"));
}

TEST_CASE("values: finite") {
    generator random(21);
    for (const kind type : {kind::fp16, kind::bf16, kind::fp32, kind::e4m3})
        for (const bool col_major : {false, true}) {
            dense_sample dense({type, 70, 33, col_major, 1, 2}, random);
            const auto error = [&] {
                return error_of([&] { require_finite(context(), view_of(dense), "real"); });
            };
            CHECK(error() == "");
            dense.set(1, 69, 32, std::numeric_limits<double>::quiet_NaN());
            CHECK(has(error(), "real[69, 32] (batch 1) is "));
            if (type == kind::e4m3) continue;
            dense.set(1, 69, 32, -std::numeric_limits<double>::infinity());
            CHECK(has(error(), "real[69, 32] (batch 1) is -inf; it must be finite"));
        }
}

TEST_CASE("batches overlap exactly where two matrices share an element") {
    generator random(22);
    int64_t overlapping = 0;
    for (int64_t trial = 0; trial < 4000; ++trial) {
        dense_view view;
        view.rows = uniform(random, 0, 5);
        view.cols = uniform(random, 0, 5);
        view.storage = uniform(random, 0, 1) ? order::row : order::col;
        view.ld = view.inner() + uniform(random, 0, 12);
        view.batch_count = uniform(random, 0, 5);
        view.batch_stride = uniform(random, 0, 40);
        std::vector<int> uses(400, 0);
        for (int64_t b = 0; b < view.batch_count; ++b)
            for (int64_t i = 0; i < view.rows; ++i)
                for (int64_t j = 0; j < view.cols; ++j)
                    ++uses[static_cast<size_t>(view.index(b, i, j))];
        const bool wanted = *std::max_element(uses.begin(), uses.end()) > 1;
        overlapping += wanted;
        CHECK(batch_overlaps(view) == wanted);
    }
    CHECK(overlapping > 500);
    CHECK(overlapping < 3500);
}

TEST_CASE("batches that interleave in long lines overlap where counting says so") {
    generator random(23);
    int64_t overlapping = 0;
    for (int64_t trial = 0; trial < 4000; ++trial) {
        dense_view view;
        view.rows = uniform(random, 1, 40);
        view.cols = uniform(random, 1, 4);
        view.ld = uniform(random, 20, 90);
        view.batch_count = uniform(random, 2, 20);
        view.batch_stride = uniform(random, 1, 200);
        std::vector<int> uses(8000, 0);
        for (int64_t b = 0; b < view.batch_count; ++b)
            for (int64_t i = 0; i < view.rows; ++i)
                for (int64_t j = 0; j < view.cols; ++j)
                    ++uses[static_cast<size_t>(view.index(b, i, j))];
        const bool wanted = *std::max_element(uses.begin(), uses.end()) > 1;
        overlapping += wanted;
        REQUIRE(batch_overlaps(view) == wanted);
    }
    CHECK(overlapping > 500);
    CHECK(overlapping < 3500);
}

TEST_CASE("batches of any size are compared at once") {
    dense_view view;
    view.rows = int64_t{1} << 20;
    view.cols = 1;
    view.ld = int64_t{1} << 40;
    view.batch_count = int64_t{1} << 39;
    view.batch_stride = 2;  // side by side in a line
    CHECK_FALSE(batch_overlaps(view));
    ++view.batch_count;
    CHECK(batch_overlaps(view));
    view.batch_stride = (int64_t{1} << 39) - 1;  // back at the start after 2^40 strides
    CHECK_FALSE(batch_overlaps(view));
    view.ld = (int64_t{1} << 40) - 1;  // near it after two, and a line later
    view.batch_stride = int64_t{1} << 39;
    CHECK_FALSE(batch_overlaps(view));
    view.cols = 2;
    CHECK(batch_overlaps(view));
}
