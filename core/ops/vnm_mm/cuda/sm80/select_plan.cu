// SPDX-License-Identifier: Apache-2.0
// The select family as an implementation of the product of a V:N:M matrix: what it accepts, its
// packing, its launches.
#include <algorithm>
#include <string>
#include <utility>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/device/device.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/spmm/cuda/prepare_b.hpp"
#include "core/ops/vnm_mm/cuda/sm80/select_launch.hpp"
#include "core/ops/vnm_mm/cuda/sm80/select_pack.hpp"
#include "core/ops/vnm_mm/vnm_mm.hpp"

namespace magicube::vnm_mm {
namespace sm80 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;

// Sums of this many products of signed bytes stay within 32 bits.
constexpr int64_t longest_sum = 131'071;
constexpr int64_t most_in_grid = 65535;  // along y and z

#define MAGICUBE_SELECT(KIND) &select_##KIND##_32, &select_##KIND##_64, &select_##KIND##_128,
const select_instance* const instances[] = {MAGICUBE_SELECT_KINDS(MAGICUBE_SELECT)};
#undef MAGICUBE_SELECT

const char* operands_for(dtype type) {
    switch (type) {
        case dtype::int8:
            return "s8";
        case dtype::e4m3:
            return "e4m3";
        case dtype::fp16:
            return "fp16";
        case dtype::bf16:
            return "bf16";
        default:
            return "";
    }
}

// Null if there is none.
const select_instance* instance_for(const problem& p) {
    if (p.b_type != p.pattern.type) return nullptr;
    const std::string operands = operands_for(p.pattern.type);
    const int32_t rows = std::min(p.pattern.vector_length, 128);
    for (const auto* i : instances)
        if (i->operands == operands && i->tile_rows == rows) return i;
    return nullptr;
}

pack_source source_of(const problem& p) {
    return {p.pattern, instance_for(p)->tile_rows};
}

int64_t matrices_of(const problem& p) {
    return p.pattern.values_stride != 0 ? p.pattern.batch_count
                                        : std::min<int64_t>(p.pattern.batch_count, 1);
}

int load(const context& ctx, const select_instance& instance) {
    device_scope scope(ctx.ordinal);
    const select_info info = instance.load();
    check(info.code, "select_kernel");
    return info.architecture;
}

std::string decline(const context& ctx, const problem& p) {
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (capability < 80) return text("it needs an sm_80 GPU; this is sm_", capability);
    const auto* instance = instance_for(p);
    if (!instance)
        return text("it has no kernel for ", name_of(p.pattern.type), "/", name_of(p.b_type),
                    " with V = ", p.pattern.vector_length);
    if (const int64_t kept = 2 * p.pattern.groups();
        p.pattern.type == dtype::int8 && kept > longest_sum)
        return text("rows keep ", kept, " values; its 32-bit sums hold ", longest_sum, " products");
    if (const int64_t tiles = ceil_div(p.n_max, int64_t{instance->tile_columns});
        tiles > most_in_grid)
        return text("C has ", tiles, " tiles of columns; one launch takes ", most_in_grid);
    if (p.batch_count > most_in_grid)
        return text("the batch has ", p.batch_count, " matrices; one launch takes ", most_in_grid);
    if (source_of(p).tiles() > INT32_MAX || source_of(p).units() > INT32_MAX / unit_rows)
        return "A has too many rows or groups for one launch";
    if (p.pattern.type == dtype::e4m3) {
        const int compiled = load(ctx, *instance);
        if (compiled < 89)
            return text("e4m3 needs sm_89; this library's code for the GPU is sm_", compiled);
    }
    return "";
}

// Where the sections of the plan's buffer lie, and those of an execution's workspace.
struct layout {
    int64_t values, metadata, columns, bytes;
    int64_t values_apart, call_values, workspace_bytes;

    explicit layout(const problem& p) {
        const pack_source source = source_of(p);
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

buffer_needs needs(const context&, const problem& p) {
    const layout at(p);
    return {at.bytes, at.workspace_bytes};
}

class select_plan final : public plan {
  public:
    select_plan(const context& ctx, const vnm_mm::problem& p, plan_resources resources)
        : plan(ctx, p, std::move(resources)), instance_(*instance_for(p)), source_(source_of(p)) {
        const layout at(p);
        char* buffer = this->resources().buffer.data();
        values_ = reinterpret_cast<uint8_t*>(buffer + at.values);
        call_values_ = at.call_values;
        arguments_.values = values_;
        arguments_.metadata = reinterpret_cast<const uint8_t*>(buffer + at.metadata);
        arguments_.columns = reinterpret_cast<const int32_t*>(buffer + at.columns);
        arguments_.values_apart = matrices_of(p) > 1 ? at.values_apart : 0;
        arguments_.units = static_cast<int32_t>(source_.units());
        arguments_.tiles_a_block = p.pattern.vector_length / instance_.tile_rows;
        load(ctx, instance_);
        device_scope scope(ctx.ordinal);
        check(pack_pattern(source_, reinterpret_cast<uint8_t*>(buffer + at.metadata),
                           reinterpret_cast<int32_t*>(buffer + at.columns), ctx.stream),
              "pack_pattern");
        check(load_pack_values(), "values_kernel");
        if (p.values != value_mode::per_call) pack(ctx, p.pattern.values, values_);
        synchronize(ctx);  // A's arrays may be freed then
    }

    void pack_values(const context& ctx, const void* values) override {
        pack(ctx, values, values_);
    }

    vnm_view matrix_with(const void* values) const override {
        vnm_view view = problem().pattern;
        view.values = const_cast<void*>(values);  // not written: an operand
        view.read_only = true;
        return view;
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        select_arguments k = arguments_;
        k.store = spmm::cuda::make_store_arguments(ctx, p, args);
        const dense_view b = spmm::cuda::is_staged(args.b)
                                 ? args.b
                                 : spmm::cuda::prepare_b(ctx, args.b, args.workspace);
        if (p.values == value_mode::per_call) {
            auto* values = static_cast<uint8_t*>(args.workspace) + call_values_;
            pack(ctx, args.a_values, values);
            k.values = values;
        }
        const int64_t element_bytes = instance_.element_bytes;
        k.b = static_cast<const uint8_t*>(b.values);
        k.b_pitch = b.ld * element_bytes;
        k.b_apart = b.batch_stride * element_bytes;
        k.b_columns = b.cols;
        const dim3 grid(static_cast<unsigned>(source_.tiles()),
                        static_cast<unsigned>(ceil_div(b.cols, int64_t{instance_.tile_columns})),
                        static_cast<unsigned>(p.batch_count));
        device_scope scope(ctx.ordinal);
        check(instance_.launch(k, grid, ctx.stream), "select_kernel");
    }

  private:
    void pack(const context& ctx, const void* values, uint8_t* target) const {
        pack_source source = source_;
        source.a.values = const_cast<void*>(values);  // not written
        device_scope scope(ctx.ordinal);
        check(sm80::pack_values(source, matrices_of(problem()), target, ctx.stream),
              "values_kernel");
    }

    const select_instance& instance_;
    pack_source source_;
    select_arguments arguments_{};
    uint8_t* values_ = nullptr;
    int64_t call_values_ = 0;
};

// The rows of B that all tiles gather, over what a multiprocessor gets from L2, or the products.
double cost(const context& ctx, const problem& p) {
    constexpr double launch_us = 4, clocks_per_us = 1700, bytes_per_clock = 37;
    constexpr double products_per_clock = 1300;  // of 16-bit operands, as if dense
    const auto& instance = *instance_for(p);
    const double tiles = static_cast<double>(ceil_div(p.pattern.rows, instance.tile_rows)) *
                         static_cast<double>(ceil_div(p.n_max, instance.tile_columns)) *
                         static_cast<double>(p.batch_count);
    const double rows = static_cast<double>(ceil_div(p.pattern.groups(), unit_groups)) * unit_rows;
    const double bytes =
        rows * (instance.tile_columns + instance.tile_rows) * instance.element_bytes;
    const double products = rows * instance.tile_rows * instance.tile_columns;
    const double clocks = std::max(bytes / bytes_per_clock,
                                   products / (products_per_clock * 2 / instance.element_bytes));
    const double turns = std::max(1.0, tiles / magicube::cuda::multiprocessors(ctx.ordinal));
    return launch_us + turns * clocks / clocks_per_us;
}

}  // namespace
}  // namespace sm80

extern const implementation<operation> cuda_sm80_select;
const implementation<operation> cuda_sm80_select = {"sm80_select",
                                                    device_kind::cuda,
                                                    false,
                                                    sm80::decline,
                                                    sm80::cost,
                                                    sm80::needs,
                                                    make_plan<operation, sm80::select_plan>};

}  // namespace magicube::vnm_mm
