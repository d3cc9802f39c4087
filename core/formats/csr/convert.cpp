// SPDX-License-Identifier: Apache-2.0
#include "core/formats/csr/convert.hpp"

#include <optional>

#include "core/common/pointers.hpp"
#include "core/formats/csr/cuda/convert.hpp"
#include "core/formats/element_moves.hpp"
#include "core/formats/offsets.hpp"
#include "core/formats/row_cursor.hpp"
#include "core/formats/validate.hpp"

namespace magicube {

using cursor = row_cursor<sr_bcrs_view>;

int64_t count_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target) {
    check_single_source(source, target.type, nullptr);
    require_array(target.offsets, source.rows + 1, index_bytes(target.offset_type), "offsets");
    if (ctx.level == validation::full) validate_pattern(ctx, sparse_view(source), "source");
    if (!ctx.on_cpu()) return cuda::count_csr(ctx, source, target);
    ctx.parallel(source.rows, 64, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            int64_t length = 0;
            for (cursor at(source, 0, row); !at.done(); at.next()) ++length;
            store_index(target.offsets, target.offset_type, row + 1, length);
        }
    });
    return lengths_to_offsets(target.offsets, target.offset_type, source.rows,
                              "the number of elements");
}

void fill_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target) {
    check_single_source(source, target.type, target.values);
    require_array(target.offsets, source.rows + 1, index_bytes(target.offset_type), "offsets");
    if (!ctx.on_cpu()) {
        require_aligned(target.col_indices, 4, "col_indices");
        require_aligned(target.values, element_alignment(target.type), "values");
        return cuda::fill_csr(ctx, source, target);
    }
    if (ctx.validates()) {
        validate_pattern(ctx, source, "source");
        if (target.values) validate_values(ctx, source, "source");
    }
    const index_array offsets{target.offsets, target.offset_type};
    check_offsets_of_count(offsets, source.rows);
    require_array(target.col_indices, offsets[source.rows], 4, "col_indices");
    require_aligned(target.values, element_alignment(target.type), "values");
    // int4 rows share bytes, so one thread writes them all.
    const bool shares_bytes = target.type == dtype::int4;
    ctx.parallel(source.rows, shares_bytes ? source.rows : 64, [&](int64_t begin, int64_t end) {
        std::optional<move_list> moves;
        if (target.values) {
            moves.emplace(select_mover(source.type, target.type), source.values, target.values);
        }
        for (int64_t row = begin; row < end; ++row) {
            int64_t to = offsets[row];
            for (cursor at(source, 0, row); !at.done(); at.next(), ++to) {
                if (to == offsets[row + 1]) report_changed_list(offsets, row);
                target.col_indices[to] = static_cast<int32_t>(at.column());
                if (moves) moves->add(at.position(), to);
            }
            if (to != offsets[row + 1]) report_changed_list(offsets, row);
        }
        if (moves) moves->flush();
    });
}

}  // namespace magicube
