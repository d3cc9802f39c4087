// SPDX-License-Identifier: Apache-2.0
// A product as its definition reads, for every problem: the oracle of the other implementations.
//
// B is unpacked a panel of columns at a time into the workspace: row-major, int16 or float. A task
// is a few rows of A and one tile of columns; for each element of the rows, its value times one row
// of the panel is added to the row of sums, which lie on the stack. Integers are summed exactly
// (int32 where that provably holds the sum, else int64), floats in double.
//
// Rows is a struct that knows the format of A:
//     height(a)                       rows of a task
//     longest(a)                      terms of the longest sum
//     add<A, Sum>(a, tile, pitch, b, sums)   adds the products of a tile; `b` starts at its first
//                                     column
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "core/ops/product.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/unpack.hpp"

namespace magicube::product_reference {

constexpr int64_t sums_per_task = 2048;
constexpr int64_t widest_tile = 256;

// Columns of a tile: wide for the cache lines of B, few enough for the sums of a task's rows.
constexpr int64_t tile_width(int64_t height) {
    return std::min(widest_tile, sums_per_task / height);
}

// How B is cut so that what is unpacked at once fits the workspace.
struct panels {
    int64_t width;     // columns at once, whole lanes
    int64_t matrices;  // of the batch at once

    panels(int64_t k, int64_t n, int64_t batch_count, int64_t element_bytes, int64_t workspace) {
        const int64_t row_bytes = std::max<int64_t>(k, 1) * element_bytes;
        const int64_t widest =
            std::max<int64_t>(unpack_limit / row_bytes / unpack_lanes, 1) * unpack_lanes;
        width = n >= widest ? widest : round_up(n, unpack_lanes);
        const int64_t fitting = workspace / std::max<int64_t>(row_bytes * width, 1);
        matrices = std::clamp<int64_t>(fitting, 1, std::max<int64_t>(batch_count, 1));
    }
};

template <class Problem>
buffer_needs needs(const context&, const Problem& p) {
    const int64_t k = p.pattern.cols;
    const int64_t element_bytes = unpacked_bytes(p.b_type);
    const panels cut(k, p.n_max, p.batch_count, element_bytes, unpack_limit);
    const stored_copy a(p.pattern, p.values != value_mode::per_call);
    return {a.bytes(), k * cut.width * cut.matrices * element_bytes};
}

template <class Problem>
double cost(const context&, const Problem& p) {
    constexpr double products_per_us = 2000;
    return static_cast<double>(p.pattern.value_count()) * static_cast<double>(p.n_max) *
           static_cast<double>(p.batch_count) / products_per_us;
}

// A tile of C: `rows` x `cols` elements from (row, col) on.
struct tile {
    int64_t batch;
    int64_t row;
    int64_t rows;
    int64_t col;
    int64_t cols;

    int64_t width() const { return round_up(cols, unpack_lanes); }  // of its rows of sums
};

// One execution, while one panel of B is multiplied.
template <class View, class Sum>
struct multiplication {
    using unpacked = unpacked_t<Sum>;

    const product_problem& shape;
    const View& a;
    int64_t height;  // rows of a task
    const product_arguments& args;
    unpack_range range;
    const unpacked* panel;
    int64_t pitch;
    int64_t matrix_distance;  // elements between the panel's matrices; 0: one serves all

    void (*add)(const View&, const tile&, int64_t pitch, const unpacked* b, Sum* sums);
    // Writes a tile of C.
    void (*finish)(const multiplication&, const tile&, const Sum* sums);

    int64_t tile_cols() const { return tile_width(height); }
    int64_t tiles() const { return ceil_div(range.width, tile_cols()); }
    int64_t row_tasks() const { return ceil_div(a.rows, height); }
    int64_t tasks() const { return range.count * tiles() * row_tasks(); }
};

template <class Sum>
void add_product(Sum* sums, product_t<Sum> value, const unpacked_t<Sum>* row, int64_t width) {
    for (int64_t j = 0; j < width; j += unpack_lanes) {
        for (int64_t lane = 0; lane < unpack_lanes; ++lane) {
            sums[j + lane] += static_cast<Sum>(value * static_cast<product_t<Sum>>(row[j + lane]));
        }
    }
}

template <dtype C, class View, class Sum>
void finish_tile(const multiplication<View, Sum>& m, const tile& t, const Sum* sums) {
    const auto& c = m.args.c;
    const epilogue finish = read_epilogue(m.shape, m.args, t.batch);
    for (int64_t i = 0; i < t.rows; ++i) {
        for (int64_t j = 0; j < t.cols; ++j) {
            const int64_t row = t.row + i;
            const int64_t col = t.col + j;
            const int64_t index = c.index(t.batch, row, col);
            const Sum sum = sums[i * t.width() + j];
            if constexpr (C == dtype::int32) {
                auto bits = static_cast<uint32_t>(sum);  // modulo 2^32
                if (finish.reads_c()) {
                    bits += static_cast<uint32_t>(element<C>::load(c.values, index));
                }
                element<C>::store(c.values, index, static_cast<int32_t>(bits));
            } else {
                float old = 0;
                if (finish.reads_c()) old = static_cast<float>(element<C>::load(c.values, index));
                store_rounded<C>(c.values, index, finish(row, col, static_cast<float>(sum), old));
            }
        }
    }
}

template <class View, class Sum>
void multiply_task(const multiplication<View, Sum>& m, int64_t task) {
    // Rows innermost: neighbouring tasks share a tile of the panel.
    const int64_t row_tasks = m.row_tasks();
    const int64_t matrix = task / row_tasks / m.tiles();
    const int64_t col = task / row_tasks % m.tiles() * m.tile_cols();
    tile t;
    t.batch = m.range.first + matrix;
    t.row = task % row_tasks * m.height;
    t.rows = std::min(m.height, m.a.rows - t.row);
    t.col = m.range.col + col;
    t.cols = std::min(m.tile_cols(), m.range.width - col);
    alignas(64) Sum sums[sums_per_task];
    std::fill_n(sums, t.rows * t.width(), Sum{0});
    if (m.a.cols > 0) m.add(m.a, t, m.pitch, m.panel + matrix * m.matrix_distance + col, sums);
    m.finish(m, t, sums);
}

template <class Rows, class View, class Sum>
void select_functions(multiplication<View, Sum>& m) {
    constexpr bool integers = std::is_integral_v<Sum>;
    visit(m.a.type, [&](auto type) {
        constexpr dtype A = decltype(type)::value;
        if constexpr (is_integer(A) == integers) m.add = Rows::template add<A, Sum>;
    });
    visit(m.shape.c_type, [&](auto type) {
        constexpr dtype C = decltype(type)::value;
        if constexpr (is_product_output(integers ? dtype::int8 : dtype::fp32, C, false)) {
            m.finish = finish_tile<C, View, Sum>;
        }
    });
}

// Unpacks and multiplies panel after panel.
template <class Sum, class Rows, class View>
void multiply(const context& ctx, const product_problem& p, const View& a,
              const product_arguments& args, int64_t workspace_bytes) {
    const auto& b = args.b;
    const panels cut(b.rows, b.cols, p.batch_count, sizeof(unpacked_t<Sum>), workspace_bytes);
    const bool shared = b.batch_stride == 0 || p.batch_count == 1;
    auto* panel = static_cast<unpacked_t<Sum>*>(args.workspace);
    const int64_t at_once = shared ? p.batch_count : cut.matrices;
    multiplication<View, Sum> m{p, a, Rows::height(a), args, {}, panel, 0, 0, nullptr, nullptr};
    select_functions<Rows>(m);
    for (int64_t first = 0; first < p.batch_count; first += at_once) {
        for (int64_t col = 0; col < b.cols; col += cut.width) {
            m.range = {first, std::min(at_once, p.batch_count - first), col,
                       std::min(cut.width, b.cols - col)};
            m.pitch = round_up(m.range.width, unpack_lanes);
            m.matrix_distance = shared ? 0 : b.rows * m.pitch;
            auto unpacked = m.range;
            if (shared) unpacked.count = 1;
            unpack(ctx, b, unpacked, panel, m.pitch);
            const int64_t products = a.value_count() / m.row_tasks() * m.tile_cols();
            ctx.parallel(m.tasks(), grain_for(products), [&m](int64_t begin, int64_t end) {
                for (int64_t task = begin; task < end; ++task) multiply_task(m, task);
            });
        }
    }
}

template <class Operation, class Rows>
class plan final : public stored_plan<Operation> {
  public:
    using problem_type = typename Operation::problem;
    using view = decltype(problem_type::pattern);

    plan(const context& ctx, const problem_type& p, plan_resources resources)
        : stored_plan<Operation>(ctx, p, std::move(resources), p.values != value_mode::per_call),
          sum_(sum_for(p.pair(), Rows::longest(this->stored().view()))) {}

    void pack_values(const context& ctx, const void* values) override {
        this->stored().copy_values(ctx, values);
    }

    view matrix_with(const void* values) const override { return this->stored().view_with(values); }

    void run(const context& ctx, const product_arguments& args) const override {
        const auto& p = this->problem();
        const bool per_call = p.values == value_mode::per_call;
        const view a = per_call ? this->stored().view_with(args.a_values) : this->stored().view();
        const int64_t workspace = this->resources().needs.workspace_bytes;
        switch (sum_) {
            case sum_type::int32:
                return multiply<int32_t, Rows>(ctx, p, a, args, workspace);
            case sum_type::int64:
                return multiply<int64_t, Rows>(ctx, p, a, args, workspace);
            case sum_type::float64:
                return multiply<double, Rows>(ctx, p, a, args, workspace);
        }
    }

  private:
    sum_type sum_;
};

}  // namespace magicube::product_reference
