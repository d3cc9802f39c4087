// SPDX-License-Identifier: Apache-2.0
//
// CSR, BSR or SR-BCRS -> dense, or -> a uint8 mask: every element of the result is found in the
// source, or is 0.
//
// Layout   sources as matrix.h draws them; the result in its order and ld.
// Mapping  a thread writes 8 neighbouring columns of one row (of two for column-major int4, whose
//          elements share bytes): one bisection, then a walk along the source row. Threads run
//          along the stored rows or columns of the result.
// Shared   none; any architecture; any alignment of elements.
// Bound    bytes of the result, and a bisection of the source row for every 8 elements.
#include "core/device/cuda/launch.cuh"
#include "core/formats/cuda/elements.cuh"
#include "core/formats/cuda/launch.cuh"
#include "core/formats/dense/cuda/convert.hpp"
#include "core/formats/row_cursor.hpp"

namespace magicube::cuda {
namespace {

constexpr int threads = 256;
constexpr int64_t strip = 8;

// What is written: the elements that exist, or a mark for each.
struct written_elements {
    moved_elements elements;
    bool as_mask;

    template <class Cursor>
    __device__ uint32_t at(Cursor& cursor, int64_t col) const {
        if (cursor.done() || cursor.column() != col) return 0;
        const uint32_t bits = as_mask ? 1 : elements[cursor.position()];
        cursor.next();
        return bits;
    }
};

// The strips of a matrix, `height` rows each.
struct strip_grid {
    int64_t height;
    int64_t across;  // strips in a row
    int64_t down;    // strips in a column
    int64_t count;

    explicit strip_grid(const dense_view& matrix)
        : height(matrix.storage == order::col ? unit_of(matrix.type) : 1),
          across(ceil_div(matrix.cols, strip)),
          down(ceil_div(matrix.rows, height)),
          count(across * down * matrix.batch_count) {}
};

template <class View>
__global__ void __launch_bounds__(threads)
    expand_kernel(View source, dense_view dense, strip_grid grid, written_elements written) {
    const bool by_row = dense.storage == order::row;
    const int64_t unit = by_row ? unit_of(dense.type) : 1;
    for (int64_t n = first_thread(); n < grid.count; n += thread_stride()) {
        const int64_t batch = n / (grid.across * grid.down);
        const int64_t in_matrix = n - batch * grid.across * grid.down;
        const int64_t i = by_row ? in_matrix / grid.across : in_matrix % grid.down;
        const int64_t j = by_row ? in_matrix % grid.across : in_matrix / grid.down;
        const int64_t row = i * grid.height;
        const int64_t end = min(j * strip + strip, dense.cols);
        const auto cursor_of = [&](int64_t k) {
            row_cursor<View> cursor(source, batch, min(row + k, dense.rows - 1));
            cursor.seek(j * strip);
            return cursor;
        };
        row_cursor<View> upper = cursor_of(0);
        row_cursor<View> lower = grid.height > 1 ? cursor_of(1) : row_cursor<View>();
        for (int64_t col = j * strip; col < end; col += unit) {
            const int64_t first = dense.index(batch, row, col);
            const int64_t left = by_row ? dense.cols - col : dense.rows - row;
            store_unit(dense.type, dense.values, first, first + left, [&](int64_t index) {
                const int64_t k = index - first;
                if (by_row) return written.at(upper, col + k);
                return k == 0 ? written.at(upper, col) : written.at(lower, col);
            });
        }
    }
}

void expand(const context& ctx, const sparse_view& source, const dense_view& dense,
            const char* argument, const written_elements& written) {
    if (dense.empty()) return;
    device_scope scope(ctx.ordinal);
    cuda::require_on_device(ctx, dense.values, argument);
    const strip_grid grid(dense);
    const auto launch = [&](const auto& view) {
        using view_type = std::decay_t<decltype(view)>;
        require_arrays_on_device(ctx, view);
        launch_kernel(expand_kernel<view_type>,
                      {grid_for(grid.count, threads), threads, 0, ctx.stream}, view, dense, grid,
                      written);
    };
    std::visit(launch, source);
    check(cudaGetLastError(), "expand_kernel");
}

}  // namespace

void sparse_to_dense(const context& ctx, const sparse_view& source, const dense_view& dense) {
    const sparse_common& common = common_of(source);
    expand(ctx, source, dense, "dense", {{common.values, common.type, dense.type}, false});
}

void sparse_to_mask(const context& ctx, const sparse_view& source, const dense_view& mask) {
    expand(ctx, source, mask, "mask", {{nullptr, dtype::uint8, dtype::uint8}, true});
}

}  // namespace magicube::cuda
