// SPDX-License-Identifier: Apache-2.0
// SpMM of V:N:M by the kernels of SpMM's cpu_simd (core/ops/spmm/cpu).
//
// The columns that a block row selects are the vectors of an SR-BCRS matrix with V rows (64 at
// most), in which each row has its two values of a group and two zeros. Four slots of 8 bits, one
// group, are one dot product of VNNI, so that the zeros cost what a group costs anyhow. For floats
// they would be half of the multiplications: an element mask tells which two a row keeps, and it
// meets those alone. With V = 1 a row brings its own two columns and no zero. Values are expanded
// when they are packed: when the plan is made, when they are updated, or in the workspace of each
// call.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/spmm/spmm.hpp"
#include "core/ops/vnm_mm/vnm_mm.hpp"

namespace magicube::spmm {
extern const implementation<operation> cpu_simd;
}

namespace magicube::vnm_mm {
namespace {

// Whether rows bring their two elements of each four slots alone: floats do, with V above 1.
bool keeps_two(const vnm_view& a) {
    return is_floating(a.type) && a.vector_length > 1;
}

// A as an SR-BCRS matrix without arrays; a mask is there or not.
sr_bcrs_view expanded_shape(const vnm_view& a) {
    constexpr int32_t tallest = 64;
    sr_bcrs_view view;
    view.rows = a.rows;
    view.cols = a.cols;
    view.type = a.type;
    view.read_only = true;
    view.batch_count = a.batch_count;
    view.vector_length = std::min(a.vector_length, tallest);
    view.stride = 1;
    const int64_t row_slots = a.groups() * (a.vector_length == 1 ? a.n : a.column_budget());
    view.slots = checked_mul(view.block_rows(), row_slots, "problem's expanded columns");
    const int64_t count = checked_mul(view.slots, view.vector_length, "problem's expanded values");
    checked_mul(checked_mul(count, 4, "problem's expanded values"),
                std::max<int64_t>(a.batch_count, 1), "problem's expanded values");
    view.values_stride = separate_values(a) ? count : 0;
    static constexpr uint8_t present = 0;
    view.element_mask = keeps_two(a) ? &present : nullptr;
    return view;
}

spmm::problem expanded_problem(const problem& p) {
    spmm::problem result;
    static_cast<product_problem&>(result) = p;
    result.implementation = nullptr;
    result.pattern = expanded_shape(p.pattern);
    result.two_of_four = keeps_two(p.pattern);
    return result;
}

int64_t expanded_arrays(const sr_bcrs_view& a) {
    return separate_values(a) ? a.batch_count : std::min<int64_t>(a.batch_count, 1);
}

int64_t expanded_bytes(const sr_bcrs_view& a) {
    return expanded_arrays(a) * storage_bytes(a.type, a.value_count());
}

// Where the elements of V:N:M go. Bytes is an unsigned integer of an element's size.
template <class Bytes>
struct expansion {
    const vnm_view& from;
    const sr_bcrs_view& shape;
    void* target;

    void block_row(int64_t array, int64_t block) const {
        const int64_t height = shape.vector_length;
        const int64_t groups = from.groups();
        const int64_t group_slots = from.vector_length == 1 ? from.n : from.column_budget();
        const int64_t count = groups * group_slots * height;
        auto* values = static_cast<Bytes*>(target) + array * shape.value_count() + block * count;
        std::fill_n(values, count, Bytes{0});
        const int64_t first = block * height;
        const int64_t rows = std::min(height, from.rows - first);
        for (int64_t v = 0; v < rows; ++v) {
            const auto* source =
                static_cast<const Bytes*>(from.values) + from.value_index(array, first + v, 0, 0);
            for (int64_t g = 0; g < groups; ++g) {
                for (int32_t i = 0; i < from.n; ++i) {
                    const int32_t place = from.place(first + v, g, i);
                    if (place >= from.group_width(g)) continue;  // a repeated column
                    const int64_t slot = g * group_slots + (from.vector_length == 1 ? i : place);
                    values[slot * height + v] = source[g * from.n + i];
                }
            }
        }
    }
};

template <class Bytes>
void expand_as(const context& ctx, const vnm_view& from, const sr_bcrs_view& shape, void* target) {
    const expansion<Bytes> job{from, shape, target};
    const int64_t blocks = shape.block_rows();
    ctx.parallel(expanded_arrays(shape) * blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) job.block_row(i / blocks, i % blocks);
    });
}

// Writes the value arrays of the SR-BCRS matrix.
void expand(const context& ctx, const vnm_view& from, const sr_bcrs_view& shape, void* target) {
    switch (storage_bits(from.type)) {
        case 8:
            return expand_as<uint8_t>(ctx, from, shape, target);
        case 16:
            return expand_as<uint16_t>(ctx, from, shape, target);
        default:
            return expand_as<uint32_t>(ctx, from, shape, target);
    }
}

// The index arrays of the SR-BCRS matrix, and its values, while a plan is made.
struct expanded_matrix {
    std::vector<int64_t> begins;  // one more than there are block rows
    std::vector<int32_t> columns;
    std::vector<uint8_t> mask;  // of the two elements a group, for floats that meet them alone
    std::vector<char> values;

    expanded_matrix(const context& ctx, const vnm_view& from, sr_bcrs_view& view,
                    bool with_values) {
        const int64_t blocks = view.block_rows();
        const int64_t row_slots = blocks == 0 ? 0 : view.slots / blocks;
        begins.resize(static_cast<size_t>(blocks) + 1);
        columns.resize(static_cast<size_t>(view.slots));
        for (int64_t b = 0; b <= blocks; ++b) begins[static_cast<size_t>(b)] = b * row_slots;
        auto* column = columns.data();
        for (int64_t b = 0; b < blocks; ++b)
            for (int64_t g = 0; g < from.groups(); ++g)
                column = name_columns(from, b * view.vector_length, g, column);
        view.row_begin = {begins.data(), index_type::int64};
        view.row_end = {begins.data() + 1, index_type::int64};
        view.col_indices = columns.data();
        if (keeps_two(from)) {
            mark_kept(from, view.vector_length);
            view.element_mask = mask.data();
        }
        if (!with_values) return;
        values.resize(static_cast<size_t>(expanded_bytes(view)));
        expand(ctx, from, view, values.data());
        view.values = values.data();
    }

  private:
    void mark_kept(const vnm_view& from, int64_t height) {
        const int64_t bytes = height / 8, budget = from.column_budget();
        mask.resize(columns.size() * static_cast<size_t>(bytes));
        for (int64_t row = 0; row < from.rows; ++row)
            for (int64_t g = 0; g < from.groups(); ++g)
                for (int32_t i = 0; i < from.n; ++i) {
                    const int64_t slot =
                        (row / height * from.groups() + g) * budget + from.place(row, g, i);
                    mask[static_cast<size_t>(slot * bytes + row % height / 8)] |=
                        static_cast<uint8_t>(1 << row % 8);
                }
    }

    // A place that repeats a column names it again: it has no value there.
    static int32_t* name_columns(const vnm_view& from, int64_t row, int64_t group,
                                 int32_t* column) {
        const int64_t block_row = row / from.vector_length;
        const int32_t count = from.vector_length == 1 ? from.n : from.column_budget();
        for (int32_t i = 0; i < count; ++i) {
            const int32_t place = from.vector_length == 1 ? from.place(row, group, i) : i;
            const int64_t index = from.loc_index(block_row, group, place);
            *column++ = static_cast<int32_t>(group * from.m + from.loc(index));
        }
        return column;
    }
};

// Sections of a plan's buffer, after the inner plan's, and of the workspace, after the inner
// execution's.
struct sections {
    buffer_needs inner;
    int64_t stored;   // V:N:M's pattern, for values that are to come
    int64_t updated;  // expanded values while they are packed
    int64_t brought;  // expanded values of a call, in the workspace
    buffer_needs all;

    sections(const context& ctx, const problem& p, const spmm::problem& q)
        : inner(spmm::cpu_simd.needs(ctx, q)) {
        const int64_t bytes = expanded_bytes(q.pattern);
        const bool fixed = p.values == value_mode::fixed;
        buffer_layout plan, work;
        plan.reserve(inner.plan_bytes, 1, "problem's packed values");
        const stored_copy pattern(p.pattern, false);
        stored = plan.reserve(fixed ? 0 : pattern.bytes(), 1, "problem's pattern");
        updated = plan.reserve(p.values == value_mode::updatable ? bytes : 0, 1,
                               "problem's expanded values");
        work.reserve(inner.workspace_bytes, 1, "B's packed tiles");
        brought = work.reserve(p.values == value_mode::per_call ? bytes : 0, 1,
                               "problem's expanded values");
        all = {plan.bytes(), work.bytes()};
    }
};

class simd_plan final : public plan {
  public:
    simd_plan(const context& ctx, const vnm_mm::problem& p, plan_resources given)
        : plan(ctx, p, std::move(given)),
          shape_(expanded_shape(p.pattern)),
          sections_(ctx, p, expanded_problem(p)) {
        char* buffer = resources().buffer.data();
        if (p.values != value_mode::fixed) {
            stored_.emplace(p.pattern, false);
            stored_->fill(ctx, buffer + sections_.stored, p.pattern);
        }
        auto q = expanded_problem(p);
        const expanded_matrix a(ctx, p.pattern, q.pattern, p.values != value_mode::per_call);
        const auto bytes = static_cast<size_t>(sections_.inner.plan_bytes);
        inner_ = spmm::cpu_simd.make(ctx, q,
                                     {resources().implementation,
                                      {},
                                      sections_.inner,
                                      plan_buffer(ctx, buffer, bytes, sections_.inner.plan_bytes)});
    }

    void pack_values(const context& ctx, const void* values) override {
        char* target = resources().buffer.data() + sections_.updated;
        expand(ctx, stored_->view_with(values), shape_, target);
        inner_->pack_values(ctx, target);
    }

    vnm_view matrix_with(const void* values) const override { return stored_->view_with(values); }

    void run(const context& ctx, const arguments& args) const override {
        arguments inner = args;
        if (problem().values == value_mode::per_call) {
            char* target = static_cast<char*>(args.workspace) + sections_.brought;
            expand(ctx, stored_->view_with(args.a_values), shape_, target);
            inner.a_values = target;
        }
        inner_->execute(ctx, inner);
    }

  private:
    sr_bcrs_view shape_;
    sections sections_;
    std::optional<stored_copy<vnm_view>> stored_;
    std::unique_ptr<spmm::plan> inner_;
};

}  // namespace

extern const implementation<operation> cpu_simd;
const implementation<operation> cpu_simd = {
    "simd",
    device_kind::cpu,
    false,
    [](const context& ctx, const problem& p) {
        return spmm::cpu_simd.decline(ctx, expanded_problem(p));
    },
    [](const context& ctx, const problem& p) {
        return spmm::cpu_simd.cost(ctx, expanded_problem(p));
    },
    [](const context& ctx, const problem& p) { return sections(ctx, p, expanded_problem(p)).all; },
    make_plan<operation, simd_plan>};

}  // namespace magicube::vnm_mm
