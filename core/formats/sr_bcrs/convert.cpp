// SPDX-License-Identifier: Apache-2.0
#include "core/formats/sr_bcrs/convert.hpp"

#include <optional>

#include "core/common/pointers.hpp"
#include "core/formats/element_moves.hpp"
#include "core/formats/index_checks.hpp"
#include "core/formats/sr_bcrs/cuda/convert.hpp"
#include "core/formats/sr_bcrs/layout.hpp"
#include "core/formats/sr_bcrs/vectors.hpp"
#include "core/formats/validate.hpp"

namespace magicube {
namespace {

int64_t entries_of(int64_t rows, int64_t batch_count, const sr_bcrs_target& target) {
    return checked_mul(ceil_div(rows, target.vector_length), batch_count,
                       "block rows of the batch");
}

void check_target(const matrix_shape& source, dtype source_type, const char* source_name,
                  const sr_bcrs_target& target, conversion_step step) {
    require_known(target.type, "arrays->value_type");
    check_vectors(target.vector_length, target.stride, target.type, "arrays->");
    const int64_t entries = entries_of(source.rows, source.batch_count, target);
    if (step == conversion_step::size) return;
    const int64_t offset = index_bytes(target.offset_type);
    require_array(target.row_begin, entries, offset, "arrays->row_begin");
    require_array(target.row_end, entries, offset, "arrays->row_end");
    if (step == conversion_step::count) return;
    check_slots(target.slots, target.stride, target.offset_type, "arrays->");
    const int64_t unit = element_alignment(target.type);
    checked_mul(checked_mul(target.slots, target.vector_length, "slots times V"), unit,
                "the size of values in bytes");
    require_array(target.col_indices, target.slots, 4, "arrays->col_indices");
    require_aligned(target.values, unit, "arrays->values");
    if (target.values) check_move(source_type, source_name, target.type, "arrays->value_type");
}

void check_sparse_size(int64_t size, const char* what) {
    require_value(size <= INT32_MAX, "dense has ", size, " ", what,
                  "; a sparse matrix takes at most ", INT32_MAX);
}

// row_begin, row_end and slots are as count wrote them, so that block rows stay inside the arrays
// and apart.
void check_offsets_of_count(const sr_bcrs_target& target, int64_t entries) {
    const index_array begins{target.row_begin, target.offset_type};
    const index_array ends{target.row_end, target.offset_type};
    int64_t free_from = 0;
    for (int64_t i = 0; i < entries; ++i) {
        const int64_t begin = begins[i];
        const int64_t end = ends[i];
        require_value(begin == free_from, "arrays->row_begin[", i, "] is ", begin,
                      "; _count writes ", free_from, " there, and _fill needs it so");
        require_value(end >= begin && end <= target.slots, "arrays->row_end[", i, "] is ", end,
                      "; it must be from row_begin[", i, "] = ", begin,
                      " to slots = ", target.slots, ", as _count wrote it");
        free_from = round_up(end, target.stride);
    }
    require_value(free_from == target.slots, "arrays->slots is ", target.slots,
                  "; row_end calls for ", free_from, ", as _count told");
}

template <class Vectors>
int64_t count(const context& ctx, const Vectors& source, const sr_bcrs_target& target) {
    const int64_t bands = ceil_div(source.rows(), band_rows);
    const int64_t block_rows = ceil_div(source.rows(), target.vector_length);
    const int64_t entries = entries_of(source.rows(), source.batch_count(), target);
    ctx.parallel(bands * source.batch_count(), 1, [&](int64_t first, int64_t last) {
        for (int64_t unit = first; unit < last; ++unit) {
            const int64_t batch = unit / bands;
            const band_of_rows band(unit % bands, source.rows(), target.vector_length);
            std::array<int64_t, 64> vectors{};
            source.for_each(batch, unit % bands,
                            [&](int64_t j, int64_t, uint64_t, const auto&) { ++vectors[j]; });
            for (int64_t j = 0; j < band.block_rows(); ++j) {
                store_index(target.row_end, target.offset_type,
                            batch * block_rows + band.first_block_row() + j, vectors[j]);
            }
        }
    });
    const index_array vectors{target.row_end, target.offset_type};
    int64_t slots = 0;
    for (int64_t i = 0; i < entries; ++i) {
        const int64_t end = slots + vectors[i];
        const int64_t next = round_up(end, target.stride);
        check_index_type_holds(target.offset_type, next, "the number of slots");
        store_index(target.row_begin, target.offset_type, i, slots);
        store_index(target.row_end, target.offset_type, i, end);
        slots = next;
    }
    return slots;
}

// Fills the block rows of one band. A source that has other vectors than count saw is an error, and
// writes no further than the slots of its block row.
class band_writer {
  public:
    band_writer(const sr_bcrs_target& target, int64_t first_entry, int64_t block_rows,
                move_list* moves)
        : target_(target), first_entry_(first_entry), block_rows_(block_rows), moves_(moves) {
        const index_array begins{target.row_begin, target.offset_type};
        const index_array ends{target.row_end, target.offset_type};
        for (int64_t j = 0; j < block_rows; ++j) {
            slot_[j] = begins[first_entry + j];
            end_[j] = ends[first_entry + j];
            clear(slot_[j], end_[j]);
        }
    }

    template <class PositionOf>
    void add(int64_t j, int64_t column, uint64_t rows, const PositionOf& position_of) {
        const int64_t slot = slot_[j]++;
        if (slot >= end_[j]) report_change(j, "more");
        target_.col_indices[slot] = static_cast<int32_t>(column);
        if (target_.element_mask) {
            for (int64_t byte = 0; byte < mask_bytes(); ++byte) {
                target_.element_mask[slot * mask_bytes() + byte] =
                    static_cast<uint8_t>(rows >> 8 * byte);
            }
        }
        if (!moves_) return;
        const int64_t in_chunk = slot % target_.stride;
        const int64_t first = (slot - in_chunk) * target_.vector_length + in_chunk;
        for (int64_t v = 0; v < target_.vector_length; ++v) {
            if (rows >> v & 1) moves_->add(position_of(v), first + v * target_.stride);
        }
    }

    void finish() {
        if (moves_) moves_->flush();
        for (int64_t j = 0; j < block_rows_; ++j) {
            if (slot_[j] != end_[j]) report_change(j, "fewer");
        }
    }

  private:
    int64_t mask_bytes() const { return (target_.vector_length + 7) / 8; }

    void clear(int64_t begin, int64_t end) {
        const int64_t slots = round_up(end, target_.stride) - begin;
        for (int64_t slot = end; slot < begin + slots; ++slot) target_.col_indices[slot] = -1;
        if (target_.element_mask) {
            zero_elements(dtype::uint8, target_.element_mask, begin * mask_bytes(),
                          slots * mask_bytes());
        }
        if (moves_) {
            zero_elements(target_.type, target_.values, begin * target_.vector_length,
                          slots * target_.vector_length);
        }
    }

    [[noreturn]] void report_change(int64_t j, const char* relation) const {
        fail(status::invalid_value, "block row ", first_entry_ + j, " of the source has ", relation,
             " vectors than arrays->row_begin and row_end tell; _count and _fill need the same "
             "source");
    }

    const sr_bcrs_target& target_;
    int64_t first_entry_;
    int64_t block_rows_;
    move_list* moves_;  // null: the pattern alone
    std::array<int64_t, 64> slot_;
    std::array<int64_t, 64> end_;
};

template <class Vectors>
void fill(const context& ctx, const Vectors& source, const sr_bcrs_target& target) {
    const int64_t bands = ceil_div(source.rows(), band_rows);
    const int64_t block_rows = ceil_div(source.rows(), target.vector_length);
    check_offsets_of_count(target, entries_of(source.rows(), source.batch_count(), target));
    ctx.parallel(bands * source.batch_count(), 1, [&](int64_t first, int64_t last) {
        std::optional<move_list> moves;
        if (target.values) {
            moves.emplace(select_mover(source.type(), target.type), source.values(), target.values);
        }
        for (int64_t unit = first; unit < last; ++unit) {
            const int64_t batch = unit / bands;
            const band_of_rows band(unit % bands, source.rows(), target.vector_length);
            band_writer writer(target, batch * block_rows + band.first_block_row(),
                               band.block_rows(), moves ? &*moves : nullptr);
            source.for_each(batch, unit % bands,
                            [&](int64_t j, int64_t column, uint64_t rows, const auto& position_of) {
                                writer.add(j, column, rows, position_of);
                            });
            writer.finish();
        }
    });
}

}  // namespace

void check_dense_source(const dense_source& source, bool copies) {
    const dense_view& dense = source.values;
    check_sparse_size(dense.rows, "rows");
    check_sparse_size(dense.cols, "columns");
    if (source.mask) {
        require_value(source.mask->type == dtype::uint8, "mask is of type ",
                      name_of(source.mask->type), "; it must be uint8");
        require_same_shape(shape_of(*source.mask), "mask", shape_of(dense), "dense");
    }
    require_value(dense.values || dense.empty() || (source.mask && !copies),
                  "dense has null values; they may be null only with a mask and without "
                  "arrays->values");
}

void check_source(const dense_source& source, const sr_bcrs_target& target, conversion_step step) {
    check_dense_source(source, step == conversion_step::fill && target.values);
    check_target(shape_of(source.values), source.values.type, "dense", target, step);
}

void check_source(const sparse_view& source, const sr_bcrs_target& target, conversion_step step) {
    const sparse_common& common = common_of(source);
    check_target(shape_of(common), common.type, "source", target, step);
    require_value(has_values(source) || step != conversion_step::fill || !target.values,
                  "source has null values (a pattern alone); arrays->values must be null too");
}

int64_t count_sr_bcrs(const context& ctx, const dense_source& source,
                      const sr_bcrs_target& target) {
    if (!ctx.on_cpu()) return cuda::count_sr_bcrs(ctx, source, target);
    return count(ctx, dense_vectors(source, target.vector_length), target);
}

int64_t count_sr_bcrs(const context& ctx, const sparse_view& source, const sr_bcrs_target& target) {
    if (ctx.level == validation::full) validate_pattern(ctx, source, "source");
    if (!ctx.on_cpu()) return cuda::count_sr_bcrs(ctx, source, target);
    return std::visit(
        [&](const auto& view) {
            return count(ctx, sparse_vectors(view, target.vector_length), target);
        },
        source);
}

void fill_sr_bcrs(const context& ctx, const dense_source& source, const sr_bcrs_target& target) {
    if (!ctx.on_cpu()) return cuda::fill_sr_bcrs(ctx, source, target);
    if (ctx.validates() && target.values) validate_values(ctx, source.values, "dense");
    fill(ctx, dense_vectors(source, target.vector_length), target);
}

void fill_sr_bcrs(const context& ctx, const sparse_view& source, const sr_bcrs_target& target) {
    if (!ctx.on_cpu()) return cuda::fill_sr_bcrs(ctx, source, target);
    if (ctx.validates()) {
        validate_pattern(ctx, source, "source");
        if (target.values) validate_values(ctx, source, "source");
    }
    std::visit(
        [&](const auto& view) { fill(ctx, sparse_vectors(view, target.vector_length), target); },
        source);
}

}  // namespace magicube
