// SPDX-License-Identifier: Apache-2.0
#include "core/prune/vnm.hpp"

#include "core/common/pointers.hpp"
#include "core/formats/validate.hpp"
#include "core/formats/vnm/layout.hpp"
#include "core/prune/choose_columns.hpp"
#include "core/prune/ranking.hpp"
#include "core/prune/workers.hpp"
#include "core/types/overlap.hpp"
#include "core/types/runs.hpp"

namespace magicube {
namespace {

constexpr size_t workspace_alignment = 16;

// A group of columns of a row group.
struct block {
    int64_t batch;
    int64_t first_row;
    int64_t rows;
    int64_t first_col;
    int64_t width;
};

// How a batch is cut into blocks.
struct blocks {
    const dense_view& weight;
    const vnm_pattern& pattern;

    int64_t groups() const { return ceil_div(weight.cols, pattern.m); }
    int64_t row_groups() const { return ceil_div(weight.rows, pattern.vector_length); }
    int64_t count() const {
        const int64_t of_one = checked_mul(row_groups(), groups(), "blocks");
        return checked_mul(of_one, weight.batch_count, "blocks");
    }
    int64_t most_rows() const { return std::min<int64_t>(pattern.vector_length, weight.rows); }
    int64_t most_cols() const { return std::min<int64_t>(pattern.m, weight.cols); }
    block operator[](int64_t i) const {
        const int64_t col = i % groups() * pattern.m;
        const int64_t row = i / groups() % row_groups() * pattern.vector_length;
        return {i / groups() / row_groups(), row, std::min(most_rows(), weight.rows - row), col,
                std::min(most_cols(), weight.cols - col)};
    }
};

struct scratch {
    double* run;     // of one row or column of a block
    double* scores;  // column after column
    double* states;
    column_sets sets;
    uint8_t* flags;  // row after row
};

scratch lay_out(arena& memory, const blocks& all) {
    const int64_t rows = all.most_rows();
    const int64_t width = all.most_cols();
    const int64_t budget = all.pattern.budget(width);
    scratch result;
    result.run = memory.take<double>(std::max(rows, width));
    result.scores = memory.take<double>(checked_mul(rows, width, "workspace"));
    result.states = memory.take<double>(
        std::max(top_two::state_size(rows, budget), all_but_least::state_size(rows, budget)));
    result.sets = column_sets::lay_out(memory, width, budget);
    result.flags = memory.take<uint8_t>(checked_mul(rows, width, "workspace"));
    return result;
}

int64_t bytes_of_worker(const blocks& all) {
    arena measure(nullptr);
    lay_out(measure, all);
    return measure.bytes();
}

double score_of(double x, prune_norm norm) {
    double sum = 0;
    add_term(sum, x, norm);
    return rankable(sum);
}

void load_scores(const dense_view& w, const block& b, prune_norm norm, const scratch& s) {
    if (w.storage == order::row) {
        for (int64_t r = 0; r < b.rows; ++r) {
            load_run(w.type, w.values, w.index(b.batch, b.first_row + r, b.first_col), b.width,
                     s.run);
            for (int64_t c = 0; c < b.width; ++c) {
                s.scores[c * b.rows + r] = score_of(s.run[c], norm);
            }
        }
        return;
    }
    for (int64_t c = 0; c < b.width; ++c) {
        load_run(w.type, w.values, w.index(b.batch, b.first_row, b.first_col + c), b.rows, s.run);
        for (int64_t r = 0; r < b.rows; ++r) {
            s.scores[c * b.rows + r] = score_of(s.run[r], norm);
        }
    }
}

// Flags the n best of the chosen columns of a row: the least are dropped one by one, of equal ones
// the last.
void keep_best(const double* scores, int64_t rows, const int32_t* chosen, int64_t budget, int64_t n,
               uint8_t* flags) {
    for (int64_t i = 0; i < budget; ++i) flags[chosen[i]] = 1;
    for (int64_t kept = budget; kept > n; --kept) {
        int32_t least = -1;
        for (int64_t i = 0; i < budget; ++i) {
            const int32_t column = chosen[i];
            if (!flags[column]) continue;
            if (least < 0 || scores[column * rows] <= scores[least * rows]) least = column;
        }
        flags[least] = 0;
    }
}

void prune_block(const dense_view& weight, const vnm_pattern& pattern, prune_norm norm,
                 const dense_view& mask, const block& b, const scratch& s) {
    load_scores(weight, b, norm, s);
    const int64_t budget = pattern.budget(b.width);
    const int64_t n = pattern.kept(b.width);
    if (n <= 2) {
        top_two score(s.scores, b.rows, n, s.states);
        choose_columns(score, b.width, budget, s.sets);
    } else {
        all_but_least score(s.scores, b.rows, n, s.states);
        choose_columns(score, b.width, budget, s.sets);
    }
    std::fill_n(s.flags, b.rows * b.width, uint8_t{0});
    for (int64_t r = 0; r < b.rows; ++r) {
        keep_best(s.scores + r, b.rows, s.sets.chosen, budget, n, s.flags + r * b.width);
    }
    store_flags(mask, b.batch, b.first_row, b.rows, b.first_col, b.width, s.flags);
}

}  // namespace

void require_vnm(const vnm_pattern& pattern) {
    require_value(is_vnm_vector_length(pattern.vector_length), "params->vector_length is ",
                  pattern.vector_length, "; it must be 1, 16, 32, 64, 128 or 256");
    require_value(pattern.m >= 4 && pattern.m <= 65536, "params->m is ", pattern.m,
                  "; it must be from 4 to 65536");
    require_value(pattern.n >= 1 && pattern.n <= pattern.m, "params->n is ", pattern.n,
                  "; it must be from 1 to m, which is ", pattern.m);
}

void check_mask(const dense_view& mask, const dense_view& weight) {
    require_value(mask.type == dtype::uint8, "mask is of type ", name_of(mask.type),
                  "; it must be uint8");
    require_same_shape(shape_of(mask), "mask", shape_of(weight), "weight");
    check_no_overlap(mask, "mask", weight, "weight");
}

void store_flags(const dense_view& mask, int64_t batch, int64_t first_row, int64_t rows,
                 int64_t first_col, int64_t width, const uint8_t* flags) {
    auto* bytes = static_cast<uint8_t*>(mask.values);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < width; ++c) {
            bytes[mask.index(batch, first_row + r, first_col + c)] = flags[r * width + c];
        }
    }
}

size_t prune_vnm_workspace(const context& ctx, const dense_view& weight,
                           const vnm_pattern& pattern) {
    require_cpu(ctx, "pruning to V:N:M");
    require_vnm(pattern);
    if (weight.empty()) return 0;
    const blocks all{weight, pattern};
    return static_cast<size_t>(
        checked_mul(bytes_of_worker(all), worker_count(ctx, all.count()), "workspace"));
}

void prune_vnm(const context& ctx, const dense_view& weight, const vnm_pattern& pattern,
               prune_norm norm, const dense_view& mask, void* workspace, size_t workspace_size) {
    const size_t needed = prune_vnm_workspace(ctx, weight, pattern);
    check_mask(mask, weight);
    require_workspace(workspace, workspace_size, needed, workspace_alignment);
    if (ctx.validates()) require_finite(ctx, weight, "weight");
    if (weight.empty()) return;
    const blocks all{weight, pattern};
    const int64_t bytes = bytes_of_worker(all);
    for_each_item(ctx, worker_count(ctx, all.count()), all.count(), [&](int64_t worker, int64_t i) {
        arena memory(static_cast<char*>(workspace) + worker * bytes);
        prune_block(weight, pattern, norm, mask, all[i], lay_out(memory, all));
    });
}

}  // namespace magicube
