// SPDX-License-Identifier: Apache-2.0
#include "core/ops/vnm_mm/cuda/sm80/packed_plan.hpp"

#include <algorithm>
#include <utility>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/device.hpp"
#include "core/ops/spmm/cuda/prepare_b.hpp"

namespace magicube::vnm_mm::sm80 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;

// Where the sections of the plan's buffer lie, and those of an execution's workspace.
struct layout {
    int64_t values, metadata, columns, bytes;
    int64_t values_apart, call_values, workspace_bytes;

    layout(const problem& p, const pack_source& source) {
        const char* what = "the packed A";
        values_apart = checked_mul(source.sets(), value_bytes(source.element_bytes()), what);
        const int64_t value_bytes = checked_mul(values_apart, matrices_of(p), what);
        const bool in_call = p.values == value_mode::per_call;
        buffer_layout sections;
        values = sections.reserve(in_call ? 0 : value_bytes, 1, what);
        metadata = sections.reserve(source.sets(), metadata_bytes, what);
        columns = sections.reserve(source.column_count(), 4, what);
        bytes = sections.bytes();
        buffer_layout of_call;
        // A copy of B comes first, should the execution's B need one.
        of_call.reserve(
            spmm::cuda::shape_staged(p.b_type, p.pattern.cols, p.n_max, p.batch_count).bytes, 1,
            "the workspace");
        call_values = of_call.reserve(in_call ? value_bytes : 0, 1, what);
        workspace_bytes = of_call.bytes();
    }
};

}  // namespace

pack_source source_of(const problem& p, int32_t tile_rows) {
    pack_source source{p.pattern, tile_rows};
    // In groups of four all four columns are selected, by every block row: any V will do.
    if (p.pattern.m == 4) source.a.vector_length = std::max(p.pattern.vector_length, tile_rows);
    return source;
}

int64_t matrices_of(const problem& p) {
    return p.pattern.values_stride != 0 ? p.pattern.batch_count
                                        : std::min<int64_t>(p.pattern.batch_count, 1);
}

buffer_needs packed_needs(const problem& p, int32_t tile_rows) {
    const layout at(p, source_of(p, tile_rows));
    return {at.bytes, at.workspace_bytes};
}

packed_plan::packed_plan(const context& ctx, const vnm_mm::problem& p, plan_resources resources,
                         int32_t tile_rows)
    : plan(ctx, p, std::move(resources)), source_(source_of(p, tile_rows)) {
    const layout at(p, source_);
    char* buffer = this->resources().buffer.data();
    values_ = reinterpret_cast<uint8_t*>(buffer + at.values);
    call_values_ = at.call_values;
    arguments_.values = values_;
    arguments_.metadata = reinterpret_cast<const uint8_t*>(buffer + at.metadata);
    arguments_.columns = reinterpret_cast<const int32_t*>(buffer + at.columns);
    arguments_.values_apart = matrices_of(p) > 1 ? at.values_apart : 0;
    arguments_.units = static_cast<int32_t>(source_.units());
    arguments_.tiles_a_block = source_.a.vector_length / tile_rows;
    device_scope scope(ctx.ordinal);
    check(pack_pattern(source_, reinterpret_cast<uint8_t*>(buffer + at.metadata),
                       reinterpret_cast<int32_t*>(buffer + at.columns), ctx.stream),
          "pack_pattern");
    check(load_pack_values(), "values_kernel");
    spmm::cuda::load_prepare_b(ctx, p.b_type);
    if (p.values != value_mode::per_call) pack(ctx, p.pattern.values, values_);
    synchronize(ctx);  // A's arrays may be freed then
}

void packed_plan::pack_values(const context& ctx, const void* values) {
    pack(ctx, values, values_);
}

vnm_view packed_plan::matrix_with(const void* values) const {
    vnm_view view = problem().pattern;
    view.values = const_cast<void*>(values);  // not written: an operand
    view.read_only = true;
    return view;
}

void packed_plan::run(const context& ctx, const arguments& args) const {
    const auto& p = problem();
    select_arguments k = arguments_;
    k.store = spmm::cuda::make_store_arguments(ctx, p, args);
    const dense_view b =
        spmm::cuda::is_staged(args.b) ? args.b : spmm::cuda::prepare_b(ctx, args.b, args.workspace);
    if (p.values == value_mode::per_call) {
        auto* values = static_cast<uint8_t*>(args.workspace) + call_values_;
        pack(ctx, args.a_values, values);
        k.values = values;
    }
    const int64_t element_bytes = source_.element_bytes();
    k.b = static_cast<const uint8_t*>(b.values);
    k.b_pitch = b.ld * element_bytes;
    k.b_apart = b.batch_stride * element_bytes;
    k.b_columns = b.cols;
    device_scope scope(ctx.ordinal);
    launch(ctx, k);
}

void packed_plan::pack(const context& ctx, const void* values, uint8_t* target) const {
    pack_source source = source_;
    source.a.values = const_cast<void*>(values);  // not written
    device_scope scope(ctx.ordinal);
    check(sm80::pack_values(source, matrices_of(problem()), target, ctx.stream), "values_kernel");
}

}  // namespace magicube::vnm_mm::sm80
