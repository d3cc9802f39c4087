// SPDX-License-Identifier: Apache-2.0
// What the conversions' suites share.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "core/formats/sr_bcrs/convert.hpp"
#include "core/formats/validate.hpp"
#include "support/element_grid.hpp"
#include "support/guarded.hpp"

namespace support {

constexpr int64_t vector_lengths[] = {1, 2, 4, 8, 16, 32, 64};
constexpr int64_t strides[] = {1, 8, 16, 32};
constexpr kind kinds[] = {kind::int4,  kind::int8, kind::uint8, kind::int12, kind::int16,
                          kind::int32, kind::fp16, kind::bf16,  kind::fp32,  kind::e4m3};

inline bool int4_allows(kind type, int64_t v, int64_t s) {
    return type != kind::int4 || s >= 8 || v % 2 == 0;
}

inline magicube::dtype dtype_of(kind type) {
    return static_cast<magicube::dtype>(type);
}

// A CSR or BSR view over arrays.
inline magicube::csr_view csr_view_of(const csr_arrays& arrays, const element_grid& grid) {
    magicube::csr_view view;
    view.rows = grid.rows;
    view.cols = grid.cols;
    view.values = const_cast<void*>(arrays.values.data());
    view.type = dtype_of(arrays.values.type());
    view.nnz = static_cast<int64_t>(arrays.columns.size());
    view.offsets = {arrays.offsets.data(), magicube::index_type::int64};
    view.col_indices = arrays.columns.data();
    return view;
}

inline magicube::bsr_view bsr_view_of(const csr_arrays& arrays, const element_grid& grid,
                                      int64_t block_rows, int64_t block_cols) {
    magicube::bsr_view view;
    static_cast<magicube::sparse_common&>(view) = csr_view_of(arrays, grid);
    view.block_rows = block_rows;
    view.block_cols = block_cols;
    view.nnzb = static_cast<int64_t>(arrays.columns.size());
    view.offsets = {arrays.offsets.data(), magicube::index_type::int64};
    view.block_col_indices = arrays.columns.data();
    return view;
}

inline magicube::sr_bcrs_view sr_bcrs_view_of(const sr_bcrs_arrays& arrays,
                                              const element_grid& grid, int64_t v, int64_t s) {
    magicube::sr_bcrs_view view;
    view.rows = grid.rows;
    view.cols = grid.cols;
    view.values = const_cast<void*>(arrays.values.data());
    view.type = dtype_of(arrays.values.type());
    view.vector_length = static_cast<int32_t>(v);
    view.stride = static_cast<int32_t>(s);
    view.slots = arrays.slots();
    view.row_begin = {arrays.begin.data(), magicube::index_type::int64};
    view.row_end = {arrays.end.data(), magicube::index_type::int64};
    view.col_indices = arrays.columns.data();
    view.element_mask = arrays.mask.data();
    view.batch_count = grid.batch;
    view.different_patterns = grid.batch != 1;
    return view;
}

// Converts into guarded, poisoned arrays and compares every byte with those written from the grid.
// Offsets are of 32 bits where v is even, of 64 where it is odd.
template <class Source>
void check_conversion(const Source& source, const element_grid& grid, kind type, int64_t v,
                      int64_t s) {
    CAPTURE(static_cast<int>(type));
    CAPTURE(v);
    CAPTURE(s);
    const sr_bcrs_arrays wanted = sr_bcrs_of(grid, type, v, s);
    const auto entries = static_cast<int64_t>(wanted.begin.size());
    guarded_array<int32_t> begin32(entries), end32(entries);
    guarded_array<int64_t> begin64(entries), end64(entries);
    const bool narrow = v % 2 == 0;
    magicube::sr_bcrs_target target;
    target.vector_length = static_cast<int32_t>(v);
    target.stride = static_cast<int32_t>(s);
    target.type = dtype_of(type);
    target.offset_type = narrow ? magicube::index_type::int32 : magicube::index_type::int64;
    target.row_begin = narrow ? static_cast<void*>(begin32.data()) : begin64.data();
    target.row_end = narrow ? static_cast<void*>(end32.data()) : end64.data();

    const magicube::context ctx;
    check_source(source, target, magicube::conversion_step::count);
    target.slots = count_sr_bcrs(ctx, source, target);
    REQUIRE(target.slots == wanted.slots());
    for (int64_t i = 0; i < entries; ++i) {
        const auto k = static_cast<size_t>(i);
        REQUIRE((narrow ? begin32[i] : begin64[i]) == wanted.begin[k]);
        REQUIRE((narrow ? end32[i] : end64[i]) == wanted.end[k]);
    }
    CHECK((begin32.intact() && end32.intact() && begin64.intact() && end64.intact()));

    guarded_array<int32_t> columns(target.slots);
    guarded_array<uint8_t> mask(target.slots * ((v + 7) / 8));
    packed_array values(type, target.slots * v);
    target.col_indices = columns.data();
    target.element_mask = mask.data();
    target.values = values.data();
    check_source(source, target, magicube::conversion_step::fill);
    fill_sr_bcrs(ctx, source, target);
    CHECK(columns.items() == wanted.columns);
    CHECK(mask.items() == wanted.mask);
    CHECK(values.bytes() == wanted.values.bytes());
    CHECK((columns.intact() && mask.intact()));
}

// The message of the error that a call throws, and its status; "" if it throws none.
template <class Call>
std::string error_of(const Call& call, magicube::status wanted = magicube::status::invalid_value) {
    try {
        call();
    } catch (const magicube::error& e) {
        CHECK(e.code() == wanted);
        return e.what();
    }
    return "";
}

inline bool has(const std::string& message, const std::string& part) {
    if (message.find(part) != std::string::npos) return true;
    MESSAGE("the message is: " << message);
    return false;
}

}  // namespace support
