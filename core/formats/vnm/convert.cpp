// SPDX-License-Identifier: Apache-2.0
#include "core/formats/vnm/convert.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "core/common/pointers.hpp"
#include "core/formats/element_moves.hpp"
#include "core/formats/validate.hpp"
#include "core/formats/vnm/layout.hpp"
#include "core/formats/vnm/rows.hpp"

namespace magicube {
namespace {

// The result as a matrix.
vnm_view view_of(const matrix_shape& shape, const vnm_target& target) {
    vnm_view view;
    view.rows = shape.rows;
    view.cols = shape.cols;
    view.type = target.type;
    view.values = target.values;
    view.vector_length = target.vector_length;
    view.n = target.n;
    view.m = target.m;
    view.column_loc = target.column_loc;
    view.metadata = target.metadata;
    return view;
}

void check_target(const matrix_shape& source, dtype source_type, const char* source_name,
                  const vnm_target& target, conversion_step step) {
    require_known(target.type, "arrays->value_type");
    check_vnm(target.vector_length, target.n, target.m, target.type, "arrays->");
    require_value(source.batch_count == 1, source_name, " is a batch of ", source.batch_count,
                  "; a conversion to V:N:M takes one matrix");
    const vnm_view view = view_of(source, target);
    check_vnm_counts(view);
    if (step != conversion_step::fill) return;
    require_array(target.column_loc, column_loc_count(view), column_loc_bytes(target.m),
                  "arrays->column_loc");
    require_array(target.metadata, metadata_count(view), 1, "arrays->metadata");
    require_aligned(target.values, element_alignment(target.type), "arrays->values");
    if (target.values) check_move(source_type, source_name, target.type, "arrays->value_type");
}

void require_host(const context& ctx) {
    require_cpu(ctx, "the conversion to V:N:M");
}

// What the rows of one block row have in one group.
class group_of_rows {
  public:
    struct element {
        int32_t column;  // inside the group
        int64_t position;
    };

    group_of_rows(const vnm_view& target, const char* source_name)
        : target_(target),
          source_name_(source_name),
          elements_(static_cast<size_t>(target.vector_length) * target.n),
          counts_(static_cast<size_t>(target.vector_length)),
          place_of_(static_cast<size_t>(target.m), -1) {}

    // Reads the group, and throws where it has more than fits.
    template <class Rows>
    void load(Rows& rows, int64_t block_row, int64_t group, int64_t height) {
        for (const int32_t column : columns_) place_of_[column] = -1;
        columns_.clear();
        for (int64_t r = 0; r < height; ++r) {
            int32_t& count = counts_[r] = 0;
            rows.for_each(r, group, [&](int32_t column, int64_t position) {
                if (count < target_.n) elements_[r * target_.n + count] = {column, position};
                ++count;
                if (place_of_[column] >= 0) return;
                place_of_[column] = 0;
                columns_.push_back(column);
            });
            if (count > target_.n) report_row(block_row, group, r);
        }
        if (static_cast<int64_t>(columns_.size()) > target_.column_budget())
            report_columns(block_row, group);
    }

    // The columns that the block row selects: those with elements, then the lowest others; in a
    // group that has too few, its last one again.
    const std::vector<int32_t>& select(int64_t group) {
        const int32_t width = target_.group_width(group);
        const auto budget = static_cast<size_t>(target_.column_budget());
        for (int32_t c = 0; c < width && columns_.size() < budget; ++c) {
            if (place_of_[c] >= 0) continue;
            place_of_[c] = 0;
            columns_.push_back(c);
        }
        std::sort(columns_.begin(), columns_.end());
        for (size_t p = 0; p < columns_.size(); ++p)
            place_of_[columns_[p]] = static_cast<int32_t>(p);
        columns_.resize(budget, width - 1);
        return columns_;
    }

    int64_t count(int64_t r) const { return counts_[r]; }

    // Calls emit(i, place, position) for the n places of a row, after select(); position is -1
    // where the row has no element.
    template <class Emit>
    void for_each_place(int64_t r, Emit&& emit) const {
        const element* row = elements_.data() + r * target_.n;
        int32_t free = target_.n - counts_[r];
        int32_t i = 0, next = 0;
        for (int32_t place = 0; i < target_.n; ++place) {
            if (next < counts_[r] && place_of_[row[next].column] == place) {
                emit(i++, place, row[next++].position);
            } else if (free > 0) {
                --free;
                emit(i++, place, int64_t{-1});
            }
        }
    }

  private:
    std::string rule() const { return text(target_.vector_length, ":", target_.n, ":", target_.m); }

    [[noreturn]] void report_row(int64_t block_row, int64_t group, int64_t r) const {
        fail(status::invalid_value, source_name_, " has ", counts_[r], " elements in group ", group,
             " of row ", block_row * target_.vector_length + r, " (block row ", block_row, "); ",
             rule(), " keeps ", target_.n, " of each ", target_.m, " columns");
    }
    [[noreturn]] void report_columns(int64_t block_row, int64_t group) const {
        fail(status::invalid_value, source_name_, " has elements in ", columns_.size(),
             " columns of group ", group, " of block row ", block_row, " (rows from ",
             block_row * target_.vector_length, "); ", rule(), " selects ", target_.column_budget(),
             " of each ", target_.m, " columns");
    }

    const vnm_view& target_;
    const char* source_name_;
    std::vector<element> elements_;  // [row][n]
    std::vector<int32_t> counts_;
    std::vector<int32_t> columns_;   // selected ones
    std::vector<int32_t> place_of_;  // of a column of the group among the selected; -1: none
};

// Calls body(rows, group, block row, height) for block rows in parallel, with rows at the start.
template <class MakeRows, class Body>
void for_each_block_row(const context& ctx, const vnm_view& target, const char* source_name,
                        const MakeRows& make_rows, const Body& body) {
    ctx.parallel(target.block_rows(), 1, [&](int64_t begin, int64_t end) {
        auto rows = make_rows();
        group_of_rows group(target, source_name);
        for (int64_t b = begin; b < end; ++b) {
            const int64_t first = b * target.vector_length;
            const int64_t height = std::min<int64_t>(target.vector_length, target.rows - first);
            rows.start(first, height);
            body(rows, group, b, height);
        }
    });
}

template <class MakeRows>
int64_t count(const context& ctx, const vnm_view& target, const char* source_name,
              const MakeRows& make_rows) {
    std::atomic<int64_t> total{0};
    const auto body = [&](auto& rows, group_of_rows& group, int64_t b, int64_t height) {
        int64_t elements = 0;
        for (int64_t g = 0; g < target.groups(); ++g) {
            group.load(rows, b, g, height);
            for (int64_t r = 0; r < height; ++r) elements += group.count(r);
        }
        total += elements;
    };
    for_each_block_row(ctx, target, source_name, make_rows, body);
    return total;
}

// Writes what one group of one block row becomes.
void write_group(const vnm_view& view, const vnm_target& target, int64_t b, int64_t g,
                 int64_t height, group_of_rows& group, move_list* moves) {
    const auto& columns = group.select(g);
    for (size_t p = 0; p < columns.size(); ++p) {
        const int64_t index = view.loc_index(b, g, static_cast<int32_t>(p));
        if (view.m > 256) {
            static_cast<uint16_t*>(target.column_loc)[index] = static_cast<uint16_t>(columns[p]);
        } else {
            static_cast<uint8_t*>(target.column_loc)[index] = static_cast<uint8_t>(columns[p]);
        }
    }
    for (int64_t r = 0; r < height; ++r) {
        const int64_t row = b * view.vector_length + r;
        int nibble = 0;
        group.for_each_place(r, [&](int32_t i, int32_t place, int64_t position) {
            const int64_t index = view.value_index(0, row, g, i);
            if (view.n == 2) {
                nibble |= place << 2 * i;
            } else {
                target.metadata[index] = static_cast<uint8_t>(place);
            }
            if (moves && position >= 0) moves->add(position, index);
        });
        if (view.n != 2) continue;
        uint8_t& byte = target.metadata[row * ceil_div(view.groups(), 2) + g / 2];
        byte = static_cast<uint8_t>(g % 2 == 0 ? nibble : byte | nibble << 4);
    }
}

template <class MakeRows>
void fill(const context& ctx, const vnm_target& target, const vnm_view& view,
          const char* source_name, dtype source_type, const void* source_values,
          const MakeRows& make_rows) {
    const auto body = [&](auto& rows, group_of_rows& group, int64_t b, int64_t height) {
        std::optional<move_list> moves;
        const int64_t first = view.value_index(0, b * view.vector_length, 0, 0);
        if (target.values) {
            moves.emplace(select_mover(source_type, target.type), source_values, target.values);
            zero_elements(target.type, target.values, first, height * view.groups() * view.n);
        }
        for (int64_t g = 0; g < view.groups(); ++g) {
            group.load(rows, b, g, height);
            write_group(view, target, b, g, height, group, moves ? &*moves : nullptr);
        }
        if (moves) moves->flush();
    };
    for_each_block_row(ctx, view, source_name, make_rows, body);
}

}  // namespace

void check_source(const dense_source& source, const vnm_target& target, conversion_step step) {
    check_dense_source(source, step == conversion_step::fill && target.values);
    check_target(shape_of(source.values), source.values.type, "dense", target, step);
}

void check_source(const sparse_view& source, const vnm_target& target, conversion_step step) {
    const sparse_common& common = common_of(source);
    check_target(shape_of(common), common.type, "source", target, step);
    require_value(has_values(source) || step != conversion_step::fill || !target.values,
                  "source has null values (a pattern alone); arrays->values must be null too");
}

int64_t count_vnm(const context& ctx, const dense_source& source, const vnm_target& target) {
    require_host(ctx);
    const vnm_view view = view_of(shape_of(source.values), target);
    return count(ctx, view, source.mask ? "mask" : "dense",
                 [&] { return dense_rows(source, target.m); });
}

int64_t count_vnm(const context& ctx, const sparse_view& source, const vnm_target& target) {
    require_host(ctx);
    if (ctx.validates()) validate_pattern(ctx, source, "source");
    const vnm_view view = view_of(shape_of(common_of(source)), target);
    return std::visit(
        [&](const auto& from) {
            return count(ctx, view, "source", [&] { return sparse_rows(from, target.m); });
        },
        source);
}

void fill_vnm(const context& ctx, const dense_source& source, const vnm_target& target) {
    require_host(ctx);
    const vnm_view view = view_of(shape_of(source.values), target);
    fill(ctx, target, view, source.mask ? "mask" : "dense", source.values.type,
         source.values.values, [&] { return dense_rows(source, target.m); });
}

void fill_vnm(const context& ctx, const sparse_view& source, const vnm_target& target) {
    require_host(ctx);
    if (ctx.validates()) {
        validate_pattern(ctx, source, "source");
        if (target.values) validate_values(ctx, source, "source");
    }
    const sparse_common& common = common_of(source);
    const vnm_view view = view_of(shape_of(common), target);
    std::visit(
        [&](const auto& from) {
            fill(ctx, target, view, "source", common.type, common.values,
                 [&] { return sparse_rows(from, target.m); });
        },
        source);
}

}  // namespace magicube
