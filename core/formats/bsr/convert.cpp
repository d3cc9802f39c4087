// SPDX-License-Identifier: Apache-2.0
#include "core/formats/bsr/convert.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "core/common/pointers.hpp"
#include "core/formats/bsr/cuda/convert.hpp"
#include "core/formats/element_moves.hpp"
#include "core/formats/offsets.hpp"
#include "core/formats/row_cursor.hpp"
#include "core/formats/validate.hpp"

namespace magicube {
namespace {

// The rows of one block row of the result, walked block by block.
class block_row_walk {
  public:
    block_row_walk(const sr_bcrs_view& source, const bsr_target& target)
        : source_(source), target_(target) {}

    // Calls on_block(block_column) for every block in which an element exists, ascending, and after
    // it on_element(r, c, position) for each of these, r and c counted inside the block.
    template <class OnBlock, class OnElement>
    void run(int64_t block_row, const OnBlock& on_block, const OnElement& on_element) {
        const int64_t first = block_row * target_.block_rows;
        const int64_t height = std::min(target_.block_rows, source_.rows - first);
        rows_.clear();
        for (int64_t r = 0; r < height; ++r) rows_.emplace_back(source_, 0, first + r);
        for (;;) {
            int64_t column = std::numeric_limits<int64_t>::max();
            for (const auto& row : rows_) {
                if (!row.done()) column = std::min(column, row.column());
            }
            if (column == std::numeric_limits<int64_t>::max()) return;
            const int64_t block_column = column / target_.block_cols;
            const int64_t start = block_column * target_.block_cols;
            on_block(block_column);
            for (int64_t r = 0; r < height; ++r) {
                auto& row = rows_[r];
                for (; !row.done() && row.column() - start < target_.block_cols; row.next()) {
                    on_element(r, row.column() - start, row.position());
                }
            }
        }
    }

  private:
    const sr_bcrs_view& source_;
    const bsr_target& target_;
    std::vector<row_cursor<sr_bcrs_view>> rows_;
};

// The result as a matrix of `blocks` blocks, for the rules that a BSR descriptor keeps.
bsr_view view_of(const sr_bcrs_view& source, const bsr_target& target, int64_t blocks) {
    bsr_view view;
    view.rows = source.rows;
    view.cols = source.cols;
    view.type = target.type;
    view.values = target.values;
    view.block_rows = target.block_rows;
    view.block_cols = target.block_cols;
    view.nnzb = blocks;
    view.offsets = {target.offsets, target.offset_type};
    view.block_col_indices = target.block_col_indices;
    return view;
}

int64_t check_block_rows(const sr_bcrs_view& source, const bsr_target& target) {
    validate_sizes(view_of(source, target, 0));
    const int64_t block_rows = ceil_div(source.rows, target.block_rows);
    require_array(target.offsets, block_rows + 1, index_bytes(target.offset_type), "offsets");
    return block_rows;
}

}  // namespace

int64_t count_bsr(const context& ctx, const sr_bcrs_view& source, const bsr_target& target) {
    check_single_source(source, target.type, nullptr);
    const int64_t block_rows = check_block_rows(source, target);
    if (ctx.level == validation::full) validate_pattern(ctx, sparse_view(source), "source");
    if (!ctx.on_cpu()) return cuda::count_bsr(ctx, source, target);
    ctx.parallel(block_rows, 8, [&](int64_t begin, int64_t end) {
        block_row_walk walk(source, target);
        for (int64_t i = begin; i < end; ++i) {
            int64_t blocks = 0;
            walk.run(
                i, [&](int64_t) { ++blocks; }, [](int64_t, int64_t, int64_t) {});
            store_index(target.offsets, target.offset_type, i + 1, blocks);
        }
    });
    return lengths_to_offsets(target.offsets, target.offset_type, block_rows,
                              "the number of blocks");
}

void fill_bsr(const context& ctx, const sr_bcrs_view& source, const bsr_target& target) {
    check_single_source(source, target.type, target.values);
    const int64_t block_rows = check_block_rows(source, target);
    if (!ctx.on_cpu()) return cuda::fill_bsr(ctx, source, target);
    if (ctx.validates()) {
        validate_pattern(ctx, source, "source");
        if (target.values) validate_values(ctx, source, "source");
    }
    const index_array offsets{target.offsets, target.offset_type};
    check_offsets_of_count(offsets, block_rows);
    validate_sizes(view_of(source, target, offsets[block_rows]));
    const int64_t block_size = target.block_rows * target.block_cols;
    // int4 blocks may share bytes, so one thread writes them all.
    const bool shares_bytes = target.type == dtype::int4;
    ctx.parallel(block_rows, shares_bytes ? block_rows : 8, [&](int64_t begin, int64_t end) {
        block_row_walk walk(source, target);
        std::optional<move_list> moves;
        if (target.values) {
            moves.emplace(select_mover(source.type, target.type), source.values, target.values);
        }
        for (int64_t i = begin; i < end; ++i) {
            int64_t block = offsets[i] - 1;
            const auto on_block = [&](int64_t block_column) {
                if (++block == offsets[i + 1]) report_changed_list(offsets, i);
                target.block_col_indices[block] = static_cast<int32_t>(block_column);
                if (moves) {
                    zero_elements(target.type, target.values, block * block_size, block_size);
                }
            };
            walk.run(i, on_block, [&](int64_t r, int64_t c, int64_t position) {
                if (moves) moves->add(position, block * block_size + r * target.block_cols + c);
            });
            if (block + 1 != offsets[i + 1]) report_changed_list(offsets, i);
        }
        if (moves) moves->flush();
    });
}

}  // namespace magicube
