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

namespace {

template <class View>
int64_t count(const context& ctx, const View& source, const csr_target& target) {
    ctx.parallel(source.rows, 64, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            int64_t length = 0;
            for (row_cursor<View> at(source, 0, row); !at.done(); at.next()) ++length;
            store_index(target.offsets, target.offset_type, row + 1, length);
        }
    });
    return lengths_to_offsets(target.offsets, target.offset_type, source.rows,
                              "the number of elements");
}

template <class View>
void fill(const context& ctx, const View& source, const csr_target& target) {
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
            for (row_cursor<View> at(source, 0, row); !at.done(); at.next(), ++to) {
                if (to == offsets[row + 1]) report_changed_list(offsets, row);
                target.col_indices[to] = static_cast<int32_t>(at.column());
                if (moves) moves->add(at.position(), to);
            }
            if (to != offsets[row + 1]) report_changed_list(offsets, row);
        }
        if (moves) moves->flush();
    });
}

void check_count(const context& ctx, const sparse_view& source, const csr_target& target) {
    check_single_source(source, target.type, nullptr);
    require_array(target.offsets, common_of(source).rows + 1, index_bytes(target.offset_type),
                  "offsets");
    if (ctx.level == validation::full) validate_pattern(ctx, source, "source");
}

void check_fill(const context& ctx, const sparse_view& source, const csr_target& target) {
    check_single_source(source, target.type, target.values);
    require_array(target.offsets, common_of(source).rows + 1, index_bytes(target.offset_type),
                  "offsets");
    if (!ctx.validates()) return;
    validate_pattern(ctx, source, "source");
    if (target.values) validate_values(ctx, source, "source");
}

}  // namespace

int64_t count_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target) {
    check_count(ctx, source, target);
    return ctx.on_cpu() ? count(ctx, source, target) : cuda::count_csr(ctx, source, target);
}

void fill_csr(const context& ctx, const sr_bcrs_view& source, const csr_target& target) {
    check_fill(ctx, source, target);
    if (ctx.on_cpu()) return fill(ctx, source, target);
    require_aligned(target.col_indices, 4, "col_indices");
    require_aligned(target.values, element_alignment(target.type), "values");
    cuda::fill_csr(ctx, source, target);
}

int64_t count_csr(const context& ctx, const vnm_view& source, const csr_target& target) {
    require_cpu(ctx, "the conversion of V:N:M to CSR");
    check_count(ctx, source, target);
    return count(ctx, source, target);
}

void fill_csr(const context& ctx, const vnm_view& source, const csr_target& target) {
    require_cpu(ctx, "the conversion of V:N:M to CSR");
    check_fill(ctx, source, target);
    fill(ctx, source, target);
}

}  // namespace magicube
