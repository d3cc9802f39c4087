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

constexpr bool is_narrow(const char* operands) {
    return operands[2] == 'n';
}

#define MAGICUBE_SLAB(OPERANDS, BUNDLES, SETS, PLANES)                  \
    {#OPERANDS,                                                         \
     {BUNDLES, SETS / planes_of(PLANES, SETS), planes_of(PLANES, SETS), \
      #OPERANDS[0] == 'e' || is_half(#OPERANDS), is_half(#OPERANDS),    \
      is_narrow(#OPERANDS) ? 64 : 128},                                 \
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

int tile_columns(const slab_shape& shape) {
    return shape.halves ? shape.row_bytes / 2 : shape.row_bytes;
}

// Matrices of the batch that have records of their own.
int64_t matrices_of(const problem& p) {
    const bool own = p.pattern.different_patterns || p.pattern.values_stride != 0;
    return own ? p.pattern.batch_count : std::min<int64_t>(p.pattern.batch_count, 1);
}

// Tiles of C for an instance's kernel.
double tiles_of(const problem& p, const slab_shape& shape) {
    const auto tiles = [](int64_t size, int64_t each) {
        return static_cast<double>(ceil_div(size, each));
    };
    return tiles(p.pattern.rows, int64_t{shape.group_bundles()} * shape.bundle_rows()) *
           tiles(p.n_max, tile_columns(shape)) * static_cast<double>(p.batch_count);
}

// What the kernel takes on the H200, in clocks, as fitted to tests/benchmark/RESULTS.md: the
// filling of the rings and the gathers overlap in part, the stores with nothing.
double clocks_of(const context& ctx, const problem& p, const slab_shape& shape) {
    constexpr double filled_bytes = 37, stored_bytes = 17.5;  // a clock
    constexpr double clocks_a_chunk = 4.4, slots_used = 0.8 * step_slots;
    constexpr int64_t most_resident_bytes = 180'000;
    const double multiprocessors = magicube::cuda::multiprocessors(ctx.ordinal);
    const double tiles = tiles_of(p, shape);
    const double turns = std::ceil(tiles / multiprocessors);
    const auto matrices =
        static_cast<double>(p.pattern.different_patterns ? std::max<int64_t>(1, p.batch_count) : 1);
    const int rows = shape.group_bundles() * shape.bundle_rows();
    const double groups =
        static_cast<double>(std::max<int64_t>(1, ceil_div(p.pattern.rows, rows))) * matrices;
    // Longer vectors are gathered once for each bundle that they are cut into.
    const double gathers = static_cast<double>(p.pattern.slots) *
                           std::max(1, p.pattern.vector_length / shape.bundle_rows());
    const double steps = gathers / slots_used / groups;
    const double b_bytes = static_cast<double>(p.pattern.cols) * shape.row_bytes;
    const double b_fills = b_bytes <= most_resident_bytes && matrices == 1 ? 1 : turns;
    const double fill = (b_bytes * b_fills + steps * shape.record_bytes() * turns) / filled_bytes;
    const double gather = steps * clocks_a_chunk * (shape.row_bytes / 16) * turns;
    const double c_bytes = static_cast<double>(rows) * tile_columns(shape) *
                           static_cast<double>(std::max(storage_bits(p.c_type) / 8, 2));
    constexpr double clocks_a_visit = 150, rows_a_visit = 320;
    const double visits =
        clocks_a_visit * turns * std::ceil(static_cast<double>(p.pattern.cols) / rows_a_visit);
    const double store = c_bytes * turns / stored_bytes;
    return std::hypot(fill, gather) + visits + store;
}

// The instance that costs least: few tiles are cut finer, so that more multiprocessors work.
const instance& instance_for(const context& ctx, const problem& p) {
    const std::string operands = operands_for(p.pair());
    const int sets = operands == "s8u8" || p.pattern.vector_length >= 16 ? 2 : 1;
    const instance* best = nullptr;
    double least = 0;
    for (const auto& i : instances) {
        const std::string name = i.operands;
        if ((name != operands && name != operands + "n") || i.shape.sets() != sets) continue;
        const double clocks = clocks_of(ctx, p, i.shape);
        if (best && clocks >= least) continue;
        best = &i;
        least = clocks;
    }
    if (best) return *best;
    fail(status::internal_error, "no slab instance for ", operands);
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
    if (const double tiles = tiles_of(p, instance_for(ctx, p).shape); tiles > INT32_MAX)
        return text("C has ", tiles, " tiles; one launch takes 2^31 - 1");
    return "";
}

// A's pattern, counted.
pattern_packer count(const context& ctx, const problem& p) {
    return pattern_packer(ctx, p.pattern, instance_for(ctx, p).shape, matrices_of(p),
                          p.c_order == order::col);
}

store_path path_for(const cuda::store_arguments& s) {
    if (!s.direct) return store_path::squares;
    const bool rows_of_16_bytes = s.col_stride == 1 || storage_bits(s.type) > 8;
    return s.aligned && rows_of_16_bytes ? store_path::engine : store_path::warp;
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
        cuda::load_prepare_b(ctx, p.b_type);
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
        const int64_t column_tiles = ceil_div(b.cols, tile_columns(instance_.shape));
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
        const CUtensorMap b_map =
            magicube::cuda::make_row_map(b, tile_columns(instance_.shape), k.geometry.box_rows);
        k.store_by = path_for(k.store);
        const CUtensorMap c_map = k.store_by == store_path::engine
                                      ? magicube::cuda::make_store_map(args.c)
                                      : CUtensorMap{};
        // As few as need no more turns: then fewer of them change columns of B on their way.
        const int64_t turns = ceil_div(tiles, std::min<int64_t>(tiles, ctas_));
        const int ctas = static_cast<int>(ceil_div(tiles, turns));
        k.ctas = divisor(static_cast<uint32_t>(ctas));
        check(instance_.launch(b_map, c_map, k, ctas, ctx.stream), "slab_kernel");
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

double cost(const context& ctx, const problem& p) {
    constexpr double clocks_a_us = 1750, launch_us = 2.8;
    return launch_us + clocks_of(ctx, p, instance_for(ctx, p).shape) / clocks_a_us;
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
