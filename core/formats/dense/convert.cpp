// SPDX-License-Identifier: Apache-2.0
#include "core/formats/dense/convert.hpp"

#include <algorithm>

#include "core/formats/dense/cuda/convert.hpp"
#include "core/formats/element_moves.hpp"
#include "core/formats/row_cursor.hpp"
#include "core/formats/validate.hpp"
#include "core/types/overlap.hpp"

namespace magicube {
namespace {

void zero_rows(const dense_view& dense, int64_t batch, int64_t first, int64_t count) {
    if (dense.storage == order::row) {
        for (int64_t row = first; row < first + count; ++row) {
            zero_elements(dense.type, dense.values, dense.index(batch, row, 0), dense.cols);
        }
        return;
    }
    for (int64_t col = 0; col < dense.cols; ++col) {
        zero_elements(dense.type, dense.values, dense.index(batch, first, col), count);
    }
}

// Zeroes dense and moves position_of(cursor) of `from` to every existing element.
template <class PositionOf>
void scatter(const context& ctx, const sparse_view& source, const dense_view& dense,
             element_mover mover, const void* from, const PositionOf& position_of) {
    if (dense.empty()) return;
    const int64_t bands = ceil_div(dense.rows, band_rows);
    const auto fill_band = [&](const auto& view, int64_t batch, int64_t band, move_list& moves) {
        using cursor = row_cursor<std::decay_t<decltype(view)>>;
        const int64_t first = band * band_rows;
        const int64_t count = std::min(band_rows, dense.rows - first);
        zero_rows(dense, batch, first, count);
        for (int64_t row = first; row < first + count; ++row) {
            for (cursor at(view, batch, row); !at.done(); at.next()) {
                moves.add(position_of(at), dense.index(batch, row, at.column()));
            }
        }
        moves.flush();
    };
    ctx.parallel(bands * dense.batch_count, 1, [&](int64_t begin, int64_t end) {
        move_list moves(mover, from, dense.values);
        std::visit(
            [&](const auto& view) {
                for (int64_t i = begin; i < end; ++i) fill_band(view, i / bands, i % bands, moves);
            },
            source);
    });
}

// An array of indices as bytes.
dense_view bytes_of(const void* data, int64_t count, int64_t bytes_each) {
    return array_view(data, dtype::uint8, count * bytes_each);
}

dense_view bytes_of(const index_array& indices, int64_t count) {
    return bytes_of(indices.data, count, index_bytes(indices.type));
}

// The output shares no memory with an array of indices.
void check_apart_from_indices(const dense_view& output, const char* name, const csr_view& source) {
    check_no_overlap(output, name, bytes_of(source.offsets, source.rows + 1), "source's offsets");
    check_no_overlap(output, name, bytes_of(source.col_indices, source.nnz, 4),
                     "source's col_indices");
}

void check_apart_from_indices(const dense_view& output, const char* name, const bsr_view& source) {
    const int64_t block_rows = ceil_div(source.rows, source.block_rows);
    check_no_overlap(output, name, bytes_of(source.offsets, block_rows + 1), "source's offsets");
    check_no_overlap(output, name, bytes_of(source.block_col_indices, source.nnzb, 4),
                     "source's block_col_indices");
}

void check_apart_from_indices(const dense_view& output, const char* name,
                              const sr_bcrs_view& source) {
    const int64_t entries =
        source.block_rows() * (source.different_patterns ? source.batch_count : 1);
    check_no_overlap(output, name, bytes_of(source.row_begin, entries), "source's row_begin");
    check_no_overlap(output, name, bytes_of(source.row_end, entries), "source's row_end");
    check_no_overlap(output, name, bytes_of(source.col_indices, source.slots, 4),
                     "source's col_indices");
    if (!source.element_mask) return;
    const int64_t mask_bytes = (source.vector_length + 7) / 8;
    check_no_overlap(output, name, bytes_of(source.element_mask, source.slots, mask_bytes),
                     "source's element_mask");
}

void check_apart_from_indices(const dense_view& output, const char* name, const vnm_view& source) {
    check_no_overlap(
        output, name,
        bytes_of(source.column_loc, column_loc_count(source), column_loc_bytes(source.m)),
        "source's column_loc");
    check_no_overlap(output, name, bytes_of(source.metadata, metadata_count(source), 1),
                     "source's metadata");
}

// The output shares no memory with the source.
void check_apart(const dense_view& output, const char* name, const sparse_view& source) {
    const auto check = [&](const auto& view) {
        check_apart_from_indices(output, name, view);
        if (!view.values) return;
        dense_view values = array_view(view.values, view.type, view.value_count());
        // Different patterns share one array, and their stride is 0.
        values.batch_count = view.batch_count;
        values.batch_stride = view.values_stride;
        check_no_overlap(output, name, values, "source's values");
    };
    std::visit(check, source);
}

}  // namespace

void sparse_to_dense(const context& ctx, const sparse_view& source, const dense_view& dense) {
    const sparse_common& common = common_of(source);
    require_same_shape(shape_of(dense), "dense", shape_of(common), "source");
    check_move(common.type, "source", dense.type, "dense's type");
    require_value(has_values(source),
                  "source has null values (a pattern alone); magicubeSparseToMask takes such");
    if (ctx.level == validation::full) validate_pattern(ctx, source, "source");
    if (ctx.validates()) validate_values(ctx, source, "source");
    check_apart(dense, "dense", source);
    if (!ctx.on_cpu()) return cuda::sparse_to_dense(ctx, source, dense);
    scatter(ctx, source, dense, select_mover(common.type, dense.type), common.values,
            [](const auto& at) { return at.position(); });
}

void sparse_to_mask(const context& ctx, const sparse_view& source, const dense_view& mask) {
    require_value(mask.type == dtype::uint8, "mask is of type ", name_of(mask.type),
                  "; it must be uint8");
    require_same_shape(shape_of(mask), "mask", shape_of(common_of(source)), "source");
    if (ctx.level == validation::full) validate_pattern(ctx, source, "source");
    check_apart(mask, "mask", source);
    if (!ctx.on_cpu()) return cuda::sparse_to_mask(ctx, source, mask);
    constexpr uint8_t one = 1;
    scatter(ctx, source, mask, select_mover(dtype::uint8, dtype::uint8), &one,
            [](const auto&) { return int64_t{0}; });
}

}  // namespace magicube
