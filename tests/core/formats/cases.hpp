// SPDX-License-Identifier: Apache-2.0
// What the conversions' suites share.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "core/formats/sr_bcrs/convert.hpp"
#include "core/formats/validate.hpp"
#include "core/ops/views.hpp"
#include "support/contexts.hpp"
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

// The same for a context's device.
inline magicube::csr_view csr_view_on(mirror& device, csr_arrays& arrays,
                                      const element_grid& grid) {
    magicube::csr_view view = csr_view_of(arrays, grid);
    view.offsets.data = device.put(arrays.offsets.data(), arrays.offsets.size() * sizeof(int64_t));
    view.col_indices = device.put(arrays.columns.data(), arrays.columns.size() * sizeof(int32_t));
    view.values = put_array(device, arrays.values);
    return view;
}

inline magicube::bsr_view bsr_view_on(mirror& device, csr_arrays& arrays, const element_grid& grid,
                                      int64_t block_rows, int64_t block_cols) {
    magicube::bsr_view view = bsr_view_of(arrays, grid, block_rows, block_cols);
    const magicube::csr_view moved = csr_view_on(device, arrays, grid);
    view.offsets = moved.offsets;
    view.block_col_indices = moved.col_indices;
    view.values = moved.values;
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

// Offsets in guard zones, of 32 or 64 bits.
class guarded_offsets {
  public:
    guarded_offsets(int64_t count, bool narrow)
        : narrow_(narrow), narrow_items_(count), wide_items_(count) {}

    magicube::index_type type() const {
        return narrow_ ? magicube::index_type::int32 : magicube::index_type::int64;
    }
    void* put(mirror& device) {
        return narrow_ ? static_cast<void*>(put_guarded(device, narrow_items_))
                       : put_guarded(device, wide_items_);
    }
    void fetch(mirror& device) {
        fetch_guarded(device, narrow_items_);
        fetch_guarded(device, wide_items_);
    }
    std::vector<int64_t> items() const {
        if (!narrow_) return wide_items_.items();
        const auto narrow = narrow_items_.items();
        return {narrow.begin(), narrow.end()};
    }
    bool intact() const { return narrow_items_.intact() && wide_items_.intact(); }

  private:
    bool narrow_;
    guarded_array<int32_t> narrow_items_;
    guarded_array<int64_t> wide_items_;
};

// Converts on one device, into guarded, poisoned arrays, and compares every byte with those written
// from the grid. Offsets are of 32 bits where v is even, of 64 where it is odd.
template <class MakeSource>
void check_conversion_on(const magicube::context& ctx, const MakeSource& make_source,
                         const sr_bcrs_arrays& wanted, kind type, int64_t v, int64_t s) {
    CAPTURE(name_of(ctx.device));
    mirror device(ctx);
    const auto source = make_source(device);
    const auto entries = static_cast<int64_t>(wanted.begin.size());
    guarded_offsets begin(entries, v % 2 == 0), end(entries, v % 2 == 0);
    magicube::sr_bcrs_target target;
    target.vector_length = static_cast<int32_t>(v);
    target.stride = static_cast<int32_t>(s);
    target.type = dtype_of(type);
    target.offset_type = begin.type();
    target.row_begin = begin.put(device);
    target.row_end = end.put(device);

    check_source(source, target, magicube::conversion_step::count);
    target.slots = count_sr_bcrs(ctx, source, target);
    REQUIRE(target.slots == wanted.slots());
    begin.fetch(device);
    end.fetch(device);
    REQUIRE(begin.items() == wanted.begin);
    REQUIRE(end.items() == wanted.end);
    CHECK((begin.intact() && end.intact()));

    guarded_array<int32_t> columns(target.slots);
    guarded_array<uint8_t> mask(target.slots * ((v + 7) / 8));
    packed_array values(type, target.slots * v);
    target.col_indices = put_guarded(device, columns);
    target.element_mask = put_guarded(device, mask);
    target.values = put_array(device, values);
    check_source(source, target, magicube::conversion_step::fill);
    fill_sr_bcrs(ctx, source, target);
    fetch_guarded(device, columns);
    fetch_guarded(device, mask);
    fetch_array(device, values);
    CHECK(columns.items() == wanted.columns);
    CHECK(mask.items() == wanted.mask);
    CHECK(values.bytes() == wanted.values.bytes());
    CHECK((columns.intact() && mask.intact()));
}

// On every device; make_source(mirror) gives the source there.
template <class MakeSource>
void check_conversion(const MakeSource& make_source, const element_grid& grid, kind type, int64_t v,
                      int64_t s) {
    CAPTURE(static_cast<int>(type));
    CAPTURE(v);
    CAPTURE(s);
    const sr_bcrs_arrays wanted = sr_bcrs_of(grid, type, v, s);
    for (const auto& ctx : all_contexts()) {
        check_conversion_on(ctx, make_source, wanted, type, v, s);
    }
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
