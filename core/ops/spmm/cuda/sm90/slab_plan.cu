// SPDX-License-Identifier: Apache-2.0
// The slab family as an implementation of SpMM: what it accepts, its packing, its launches.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/device/cuda/tensor_map.hpp"
#include "core/device/device.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/spmm/cuda/prepare_b.hpp"
#include "core/ops/spmm/cuda/sm90/slab_launch.hpp"
#include "core/ops/spmm/cuda/sm90/slab_pack.hpp"
#include "core/ops/spmm/spmm.hpp"

namespace magicube::spmm {
namespace sm90 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;

// Sums of this many products of 8 bits stay within 32 bits, whatever the signs.
constexpr int64_t longest_sum = 65'793;

struct instance {
    const char* operands;
    slab_shape shape;
    slab_load load;
    slab_launch launch;
};

constexpr int planes_of(bool planes, int sets) {
    return planes ? sets : 1;
}

constexpr bool is_half(const char* operands) {
    return operands[1] == 'p' || operands[1] == 'f';
}

#define MAGICUBE_SLAB(OPERANDS, BUNDLES, SETS, PLANES)                  \
    {#OPERANDS,                                                         \
     {BUNDLES, SETS / planes_of(PLANES, SETS), planes_of(PLANES, SETS), \
      #OPERANDS[0] == 'e' || is_half(#OPERANDS), is_half(#OPERANDS)},   \
     load_slab_##OPERANDS##_##BUNDLES##_##SETS,                         \
     launch_slab_##OPERANDS##_##BUNDLES##_##SETS},
const instance instances[] = {MAGICUBE_SLABS(MAGICUBE_SLAB)};
#undef MAGICUBE_SLAB

// The operands of the instances that compute a pair of types, or null.
const char* operands_for(precision_pair pair) {
    const bool bytes = pair.rhs == dtype::int8 || pair.rhs == dtype::int4;
    switch (pair.lhs) {
        case dtype::int4:
        case dtype::int8:
            return bytes ? "s8" : nullptr;
        case dtype::uint8:
            return bytes ? "u8" : nullptr;
        case dtype::int12:
        case dtype::int16:
            return bytes ? "s8u8" : nullptr;
        case dtype::e4m3:
            return "e4m3";
        case dtype::fp16:
            return "fp16";
        case dtype::bf16:
            return "bf16";
        default:
            return nullptr;
    }
}

int tile_columns(dtype b_type) {
    return storage_bits(b_type) > 8 ? row_bytes / 2 : row_bytes;
}

// Matrices of the batch that have records of their own.
int64_t matrices_of(const problem& p) {
    const bool own = p.pattern.different_patterns || p.pattern.values_stride != 0;
    return own ? p.pattern.batch_count : std::min<int64_t>(p.pattern.batch_count, 1);
}

// Few tiles are cut finer, so that more multiprocessors work.
const instance& instance_for(const context& ctx, const problem& p) {
    const std::string operands = operands_for(p.pair());
    const int sets = operands == "s8u8" || p.pattern.vector_length >= 16 ? 2 : 1;
    const int64_t tiles = ceil_div(p.pattern.rows, consumer_warps * 16) *
                          ceil_div(p.n_max, tile_columns(p.b_type)) * p.batch_count;
    const int bundles = sets == 1 && tiles >= magicube::cuda::multiprocessors(ctx.ordinal) ? 2 : 1;
    for (const auto& i : instances)
        if (i.operands == operands && i.shape.sets() == sets && i.shape.bundles == bundles)
            return i;
    fail(status::internal_error, "no slab instance for ", operands);
}

int64_t tiles_of(const context& ctx, const problem& p) {
    const slab_shape& shape = instance_for(ctx, p).shape;
    const int64_t rows = consumer_warps * shape.bundles * shape.bundle_rows();
    return checked_mul(
        ceil_div(p.pattern.rows, rows),
        checked_mul(ceil_div(p.n_max, tile_columns(p.b_type)), p.batch_count, "tiles of C"),
        "tiles of C");
}

std::string decline(const context& ctx, const problem& p) {
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (capability != 90) return text("it needs an sm_90 GPU; this is sm_", capability);
    if (built_architectures().find("sm_90a") == std::string::npos)
        return "this library was built without sm_90a";
    if (p.pattern.cols == 0) return "K is 0";
    if (!operands_for(p.pair()))
        return text("it has no kernel for ", name_of(p.pair().lhs), "/", name_of(p.pair().rhs));
    if (p.pattern.slots > INT32_MAX)
        return text("A has ", p.pattern.slots, " slots; it numbers 2^31 - 1");
    if (is_integer(p.pattern.type) && p.pattern.cols > longest_sum)
        return text("K is ", p.pattern.cols, "; its 32-bit sums hold ", longest_sum, " products");
    if (const int64_t tiles = tiles_of(ctx, p); tiles > INT32_MAX)
        return text("C has ", tiles, " tiles; one launch takes 2^31 - 1");
    return "";
}

// A's pattern, counted.
pattern_packer count(const context& ctx, const problem& p) {
    return pattern_packer(ctx, p.pattern, instance_for(ctx, p).shape, matrices_of(p),
                          p.c_order == order::col);
}

// Where the sections of the plan's buffer lie, and those of an execution's workspace.
struct layout {
    int64_t parts, records, bundle_rows, slots, bytes;
    int64_t call_records, workspace_bytes;

    layout(const problem& p, const pattern_packer& packer) {
        const slab_outline& outline = packer.outline();
        const char* what = "the packed A";
        buffer_layout sections;
        parts = sections.reserve(outline.parts() + parts_read_ahead, sizeof(slab_part), what);
        records = sections.reserve(outline.record_bytes, 1, what);
        bundle_rows = sections.reserve(static_cast<int64_t>(outline.bundle_rows.size()), 4, what);
        slots =
            sections.reserve(p.values == value_mode::fixed ? 0 : packer.slot_map_bytes(), 1, what);
        bytes = sections.bytes();
        buffer_layout of_call;
        // A copy of B comes first, should the execution's B need one.
        of_call.reserve(cuda::shape_staged(p.b_type, p.pattern.cols, p.n_max, p.batch_count).bytes,
                        1, "the workspace");
        call_records =
            of_call.reserve(p.values == value_mode::per_call ? outline.record_bytes : 0, 1, what);
        workspace_bytes = of_call.bytes();
    }
};

buffer_needs needs(const context& ctx, const problem& p) {
    const layout at(p, count(ctx, p));
    return {at.bytes, at.workspace_bytes};
}

class slab_plan final : public plan {
  public:
    slab_plan(const context& ctx, const spmm::problem& p, plan_resources resources)
        : plan(ctx, p, std::move(resources)), instance_(instance_for(ctx, p)) {
        const pattern_packer packer = count(ctx, p);
        const layout at(p, packer);
        call_records_ = at.call_records;
        pack(ctx, p, packer, at);
        arguments_.geometry = target_.geometry;
        arguments_.parts = target_.parts;
        arguments_.records = target_.records;
        arguments_.bundle_rows = target_.bundle_rows;
        // An empty matrix has no groups, and is not run.
        arguments_.groups = divisor(static_cast<uint32_t>(std::max<int64_t>(target_.groups, 1)));
        arguments_.groups_a_matrix =
            divisor(static_cast<uint32_t>(std::max<int64_t>(target_.groups_a_matrix, 1)));
        arguments_.one_pattern = matrices_of(p) == 1;
        arguments_.order = packer.outline().uneven       ? tile_order::snake
                           : target_.geometry.resident() ? tile_order::contiguous
                                                         : tile_order::interleaved;
        device_scope scope(ctx.ordinal);
        check(instance_.load(), "slab_kernel");
        ctas_ = magicube::cuda::multiprocessors(ctx.ordinal);
    }

    void pack_values(const context& ctx, const void* values) override {
        fill(ctx, values, target_.records);
    }

    sr_bcrs_view matrix_with(const void* values) const override {
        sr_bcrs_view view = problem().pattern;
        view.values = const_cast<void*>(values);  // not written: an operand
        view.read_only = true;
        return view;
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        slab_arguments k = arguments_;
        k.store = cuda::make_store_arguments(ctx, p, args);
        const dense_view b =
            cuda::is_staged(args.b) ? args.b : cuda::prepare_b(ctx, args.b, args.workspace);
        const int64_t column_tiles = ceil_div(b.cols, tile_columns(p.b_type));
        const int64_t lines = column_tiles * (k.one_pattern ? p.batch_count : 1);
        const int64_t tiles = lines * k.groups.value();
        k.column_tiles = divisor(static_cast<uint32_t>(column_tiles));
        k.lines = divisor(static_cast<uint32_t>(lines));
        k.b_batched = b.batch_stride != 0;
        if (p.values == value_mode::per_call) {
            auto* records = static_cast<uint8_t*>(args.workspace) + call_records_;
            fill(ctx, args.a_values, records);
            k.records = records;
        }
        device_scope scope(ctx.ordinal);
        const CUtensorMap map =
            magicube::cuda::make_row_map(b, tile_columns(p.b_type), k.geometry.box_rows);
        const int ctas = static_cast<int>(std::min<int64_t>(tiles, ctas_));
        k.ctas = divisor(static_cast<uint32_t>(ctas));
        check(instance_.launch(map, k, ctas, ctx.stream), "slab_kernel");
    }

  private:
    void pack(const context& ctx, const spmm::problem& p, const pattern_packer& packer,
              const layout& at) {
        char* buffer = this->resources().buffer.data();
        target_.a = p.pattern;
        target_.shape = instance_.shape;
        target_.groups = packer.outline().groups();
        target_.groups_a_matrix = packer.outline().groups_a_matrix;
        target_.geometry = packer.outline().geometry;
        target_.bundle_rows = reinterpret_cast<int32_t*>(buffer + at.bundle_rows);
        target_.parts = reinterpret_cast<slab_part*>(buffer + at.parts);
        target_.records = reinterpret_cast<uint8_t*>(buffer + at.records);
        target_.slots = reinterpret_cast<int32_t*>(buffer + at.slots);
        std::optional<cuda::scratch> slots;
        if (p.values == value_mode::fixed) {
            slots.emplace(ctx, packer.slot_map_bytes());
            target_.slots = slots->as<int32_t>();
        }
        packer.write(ctx, target_);
        target_.a = problem().pattern;
        if (p.values == value_mode::per_call) return;
        fill(ctx, p.pattern.values, target_.records);
        synchronize(ctx);  // the values may be freed then, and the slot map is
    }

    void fill(const context& ctx, const void* values, uint8_t* records) const {
        device_scope scope(ctx.ordinal);
        check(fill_values(target_, values, records, ctx.stream), "fill_kernel");
    }

    const instance& instance_;
    pack_target target_{};
    slab_arguments arguments_{};
    int64_t call_records_ = 0;
    int ctas_ = 0;
};

// What a tile takes on the H200, in clocks, as fitted to tests/benchmark/RESULTS.md: the filling of
// the ring and the gathers overlap in part, the stores with nothing.
double cost(const context& ctx, const problem& p) {
    constexpr double clocks_per_us = 1750, launch_us = 2;
    constexpr double clocks_a_row = 3.6, clocks_a_step = 35, clocks_a_stored_row = 29;
    constexpr double slots_used = 0.8 * step_slots;
    const slab_shape& shape = instance_for(ctx, p).shape;
    const int rows_a_tile = consumer_warps * shape.bundles * shape.bundle_rows();
    const auto row_tiles =
        static_cast<double>(std::max<int64_t>(1, ceil_div(p.pattern.rows, rows_a_tile)));
    const auto column_tiles = static_cast<double>(ceil_div(p.n_max, tile_columns(p.b_type)));
    const auto matrices =
        static_cast<double>(p.pattern.different_patterns ? std::max<int64_t>(1, p.batch_count) : 1);
    // Longer vectors are gathered once for each bundle that they are cut into.
    const double gathers = static_cast<double>(p.pattern.slots) *
                           std::max(1, p.pattern.vector_length / shape.bundle_rows());
    const double steps = gathers / slots_used / (row_tiles * matrices);
    const double clocks = 1.2 * std::hypot(static_cast<double>(p.pattern.cols) * clocks_a_row,
                                           steps * clocks_a_step) +
                          rows_a_tile * clocks_a_stored_row;
    const double tiles = row_tiles * column_tiles * static_cast<double>(p.batch_count);
    const double turns = std::max(1.0, tiles / magicube::cuda::multiprocessors(ctx.ordinal));
    return launch_us + turns * clocks / clocks_per_us;
}

}  // namespace
}  // namespace sm90

extern const implementation<operation> cuda_sm90_slab;
const implementation<operation> cuda_sm90_slab = {"sm90_slab",
                                                  device_kind::cuda,
                                                  false,
                                                  sm90::decline,
                                                  sm90::cost,
                                                  sm90::needs,
                                                  make_plan<operation, sm90::slab_plan>};

}  // namespace magicube::spmm
