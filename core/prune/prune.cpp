// SPDX-License-Identifier: Apache-2.0
#include "core/prune/prune.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "core/common/pointers.hpp"
#include "core/formats/sparse.hpp"
#include "core/formats/validate.hpp"
#include "core/prune/cuda/prune.hpp"
#include "core/prune/ranking.hpp"
#include "core/types/overlap.hpp"
#include "core/types/runs.hpp"

namespace magicube {
namespace {

constexpr size_t workspace_alignment = 16;
constexpr int64_t tile_cols = 64;

// One matrix of the batch, cut into vectors; vector (block_row, col) is number
// block_row * cols + col.
struct vectors {
    const dense_view& weight;
    int64_t batch;
    int32_t length;

    int64_t count() const { return ceil_div(weight.rows, length) * weight.cols; }
};

// Some columns of a band of rows.
struct patch {
    int64_t first_row;
    int64_t rows;
    int64_t first_col;
    int64_t cols;
};

// Calls on_band(first row, rows) for every band, then on_patch(patch) for the patches of it.
template <class OnBand, class OnPatch>
void for_each_patch(const context& ctx, const dense_view& matrix, const OnBand& on_band,
                    const OnPatch& on_patch) {
    ctx.parallel(ceil_div(matrix.rows, band_rows), 1, [&](int64_t begin, int64_t end) {
        for (int64_t band = begin; band < end; ++band) {
            const int64_t row = band * band_rows;
            const int64_t rows = std::min(band_rows, matrix.rows - row);
            auto state = on_band(row, rows);
            for (int64_t col = 0; col < matrix.cols; col += tile_cols) {
                on_patch(patch{row, rows, col, std::min(tile_cols, matrix.cols - col)}, state);
            }
        }
    });
}

// sums[c] += term of element (row, first_col + c), row after row of a vector.
using sums_of_band = std::array<std::array<double, tile_cols>, band_rows>;

void sum_patch(const vectors& v, const patch& p, prune_norm norm, sums_of_band& sums) {
    const dense_view& m = v.weight;
    for (int64_t j = 0; j < ceil_div(p.rows, v.length); ++j) {
        std::fill_n(sums[static_cast<size_t>(j)].begin(), p.cols, 0.0);
    }
    std::array<double, tile_cols> numbers;
    if (m.storage == order::row) {
        for (int64_t r = 0; r < p.rows; ++r) {
            auto& row = sums[static_cast<size_t>(r / v.length)];
            load_run(m.type, m.values, m.index(v.batch, p.first_row + r, p.first_col), p.cols,
                     numbers.data());
            for (int64_t c = 0; c < p.cols; ++c) add_term(row[c], numbers[c], norm);
        }
        return;
    }
    for (int64_t c = 0; c < p.cols; ++c) {
        load_run(m.type, m.values, m.index(v.batch, p.first_row, p.first_col + c), p.rows,
                 numbers.data());
        for (int64_t r = 0; r < p.rows; ++r) {
            add_term(sums[static_cast<size_t>(r / v.length)][c], numbers[r], norm);
        }
    }
}

// The norms (L2: squared, which ranks the same) of all vectors.
void compute_norms(const context& ctx, const vectors& v, prune_norm norm, double* norms) {
    const auto on_band = [](int64_t, int64_t) { return sums_of_band(); };
    for_each_patch(ctx, v.weight, on_band, [&](const patch& p, sums_of_band& sums) {
        sum_patch(v, p, norm, sums);
        for (int64_t j = 0; j < ceil_div(p.rows, v.length); ++j) {
            double* out = norms + (p.first_row / v.length + j) * v.weight.cols + p.first_col;
            for (int64_t c = 0; c < p.cols; ++c) {
                out[c] = rankable(sums[static_cast<size_t>(j)][static_cast<size_t>(c)]);
            }
        }
    });
}

// Keeps exactly `keep` of `count` vectors; scratch holds `count` doubles.
selection select(const double* norms, int64_t count, int64_t keep, double* scratch) {
    selection result;
    if (keep == 0) return result;
    if (keep == count) {
        result.threshold = -1;
        return result;
    }
    std::copy_n(norms, count, scratch);
    std::nth_element(scratch, scratch + keep - 1, scratch + count, std::greater<double>());
    result.threshold = scratch[keep - 1];
    int64_t ties = std::count(scratch, scratch + keep, result.threshold);
    for (int64_t i = 0; ties > 0; ++i) {
        if (norms[i] != result.threshold) continue;
        result.last_tie = i;
        --ties;
    }
    return result;
}

void store_patch(const vectors& v, const patch& p, const dense_view& mask, const uint8_t* flags,
                 int64_t block_row) {
    auto* bytes = static_cast<uint8_t*>(mask.values);
    const int64_t first = block_row * v.length;
    const int64_t last = std::min(first + v.length, v.weight.rows);
    if (mask.storage == order::row) {
        for (int64_t row = first; row < last; ++row) {
            std::copy_n(flags, p.cols, bytes + mask.index(v.batch, row, p.first_col));
        }
        return;
    }
    for (int64_t c = 0; c < p.cols; ++c) {
        std::fill_n(bytes + mask.index(v.batch, first, p.first_col + c), last - first, flags[c]);
    }
}

// Keeps `keep` vectors of the matrix, or of each block row. scratch holds v.count() doubles.
void write_mask(const context& ctx, const vectors& v, prune_scope scope, int64_t keep,
                const double* norms, const dense_view& mask, double* scratch) {
    const int64_t cols = v.weight.cols;
    const bool by_row = scope == prune_scope::row;
    const selection of_matrix = by_row ? selection() : select(norms, v.count(), keep, scratch);
    const auto on_band = [&](int64_t first_row, int64_t rows) {
        std::array<selection, band_rows> kept;
        kept.fill(of_matrix);
        for (int64_t j = 0; by_row && j < ceil_div(rows, v.length); ++j) {
            const int64_t start = (first_row / v.length + j) * cols;
            kept[static_cast<size_t>(j)] = select(norms + start, cols, keep, scratch + start);
        }
        return kept;
    };
    for_each_patch(ctx, mask, on_band, [&](const patch& p, const auto& kept) {
        std::array<uint8_t, tile_cols> flags;
        for (int64_t j = 0; j < ceil_div(p.rows, v.length); ++j) {
            const int64_t start = (p.first_row / v.length + j) * cols;
            for (int64_t c = 0; c < p.cols; ++c) {
                const int64_t i = start + p.first_col + c;
                const int64_t in_scope = by_row ? p.first_col + c : i;
                flags[static_cast<size_t>(c)] =
                    kept[static_cast<size_t>(j)].keeps(norms[i], in_scope);
            }
            store_patch(v, p, mask, flags.data(), p.first_row / v.length + j);
        }
    });
}

int64_t vectors_in_scope(const dense_view& weight, const prune_params& params) {
    return params.scope == prune_scope::row
               ? weight.cols
               : checked_mul(ceil_div(weight.rows, params.vector_length), weight.cols, "vectors");
}

// How many vectors of a scope are kept.
int64_t target(const prune_params& params, int64_t count) {
    if (params.keep >= 0) return params.keep;
    const double dropped = std::floor(params.sparsity * static_cast<double>(count) + 0.5);
    return count - std::min(static_cast<int64_t>(dropped), count);
}

}  // namespace

size_t prune_workspace(const context& ctx, const dense_view& weight, const prune_params& params) {
    require_value(is_vector_length(params.vector_length), "params->vector_length is ",
                  params.vector_length, "; it must be 1, 2, 4, 8, 16, 32 or 64");
    require_value(params.keep >= -1, "params->keep is ", params.keep,
                  "; it must be at least 0, or -1 to use sparsity");
    const int64_t count = vectors_in_scope(weight, params);
    if (params.keep == -1) {
        require_value(params.sparsity >= 0 && params.sparsity <= 1, "params->sparsity is ",
                      params.sparsity, "; it must be from 0 to 1");
    }
    require_value(params.keep <= count, "params->keep is ", params.keep, "; a scope has ", count,
                  " vectors");
    if (weight.empty()) return 0;
    if (!ctx.on_cpu()) return cuda::prune_workspace(weight, params);
    const int64_t vectors = ceil_div(weight.rows, params.vector_length);
    return static_cast<size_t>(
        checked_mul(checked_mul(vectors, weight.cols, "scratch"), 2 * sizeof(double), "scratch"));
}

void prune(const context& ctx, const dense_view& weight, const prune_params& params,
           const dense_view& mask, void* workspace, size_t workspace_size) {
    require_value(mask.type == dtype::uint8, "mask is of type ", name_of(mask.type),
                  "; it must be uint8");
    require_same_shape(shape_of(mask), "mask", shape_of(weight), "weight");
    require_workspace(workspace, workspace_size, prune_workspace(ctx, weight, params),
                      workspace_alignment);
    check_no_overlap(mask, "mask", weight, "weight");
    if (ctx.validates()) require_finite(ctx, weight, "weight");
    if (weight.empty()) return;
    const int64_t keep = target(params, vectors_in_scope(weight, params));
    if (!ctx.on_cpu()) return cuda::prune(ctx, weight, params, keep, mask, workspace);
    for (int64_t batch = 0; batch < weight.batch_count; ++batch) {
        const vectors v{weight, batch, params.vector_length};
        auto* norms = static_cast<double*>(workspace);
        compute_norms(ctx, v, params.norm, norms);
        write_mask(ctx, v, params.scope, keep, norms, mask, norms + v.count());
    }
}

}  // namespace magicube
