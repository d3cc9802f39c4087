// SPDX-License-Identifier: Apache-2.0
#include "core/formats/dense/convert.hpp"

#include <algorithm>

#include "core/formats/element_moves.hpp"
#include "core/formats/row_cursor.hpp"
#include "core/formats/validate.hpp"

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

}  // namespace

void sparse_to_dense(const context& ctx, const sparse_view& source, const dense_view& dense) {
    const sparse_common& common = common_of(source);
    require_same_shape(shape_of(dense), "dense", shape_of(common), "source");
    const element_mover mover = select_mover(common.type, dense.type);
    require_value(has_values(source),
                  "source has null values (a pattern alone); magicubeSparseToMask takes such");
    if (ctx.validates()) {
        validate_pattern(ctx, source, "source");
        validate_values(ctx, source, "source");
    }
    scatter(ctx, source, dense, mover, common.values, [](const auto& at) { return at.position(); });
}

void sparse_to_mask(const context& ctx, const sparse_view& source, const dense_view& mask) {
    require_value(mask.type == dtype::uint8, "mask is of type ", name_of(mask.type),
                  "; it must be uint8");
    require_same_shape(shape_of(mask), "mask", shape_of(common_of(source)), "source");
    if (ctx.validates()) validate_pattern(ctx, source, "source");
    constexpr uint8_t one = 1;
    scatter(ctx, source, mask, select_mover(dtype::uint8, dtype::uint8), &one,
            [](const auto&) { return int64_t{0}; });
}

}  // namespace magicube
