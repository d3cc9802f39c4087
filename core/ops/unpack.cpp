// SPDX-License-Identifier: Apache-2.0
#include "core/ops/unpack.hpp"

#include <algorithm>

namespace magicube {
namespace {

// One task: rows_per_task rows of one matrix, so that a column-major source is read in runs.
constexpr int64_t rows_per_task = 64;

template <class Unpacked>
struct unpack_job {
    const dense_view& source;
    const unpack_range& range;
    Unpacked* target;
    int64_t pitch;
    int64_t tasks_per_matrix;

    template <dtype T>
    void run(int64_t task) const {
        const int64_t matrix = task / tasks_per_matrix;
        const int64_t first = task % tasks_per_matrix * rows_per_task;
        const int64_t last = std::min(first + rows_per_task, source.rows);
        Unpacked* rows = target + matrix * source.rows * pitch;
        const int64_t start = source.index(range.first + matrix, 0, range.col);
        const auto load = [&](int64_t r, int64_t c) {
            const int64_t offset =
                source.storage == order::row ? r * source.ld + c : c * source.ld + r;
            return static_cast<Unpacked>(element<T>::load(source.values, start + offset));
        };
        if (source.storage == order::row) {
            for (int64_t r = first; r < last; ++r)
                for (int64_t c = 0; c < range.width; ++c) rows[r * pitch + c] = load(r, c);
        } else {
            for (int64_t c = 0; c < range.width; ++c)
                for (int64_t r = first; r < last; ++r) rows[r * pitch + c] = load(r, c);
        }
        for (int64_t r = first; r < last; ++r)
            std::fill(rows + r * pitch + range.width, rows + (r + 1) * pitch, Unpacked{0});
    }
};

}  // namespace

template <class Unpacked>
void unpack(const context& ctx, const dense_view& source, const unpack_range& range,
            Unpacked* target, int64_t pitch) {
    const int64_t tasks_per_matrix = (source.rows + rows_per_task - 1) / rows_per_task;
    const unpack_job<Unpacked> job{source, range, target, pitch, tasks_per_matrix};
    visit(source.type, [&](auto type) {
        constexpr dtype T = decltype(type)::value;
        if constexpr (T != dtype::int32 && is_integer(T) == std::is_integral_v<Unpacked>) {
            // A capture of one pointer: std::function then allocates nothing.
            ctx.parallel(range.count * tasks_per_matrix, 1, [&job](int64_t begin, int64_t end) {
                for (int64_t task = begin; task < end; ++task) job.template run<T>(task);
            });
        } else {
            fail(status::internal_error, "unpack: no operand is ", name_of(T));
        }
    });
}

template void unpack(const context&, const dense_view&, const unpack_range&, int8_t*, int64_t);
template void unpack(const context&, const dense_view&, const unpack_range&, int16_t*, int64_t);
template void unpack(const context&, const dense_view&, const unpack_range&, float*, int64_t);

}  // namespace magicube
