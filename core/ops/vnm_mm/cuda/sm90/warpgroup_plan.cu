// SPDX-License-Identifier: Apache-2.0
// The warpgroup family as an implementation of the product of a V:N:M matrix: what it accepts and
// its launches.
#include <algorithm>
#include <utility>

#include "core/device/cuda/check.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/device/device.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/vnm_mm/cuda/sm80/packed_plan.hpp"
#include "core/ops/vnm_mm/cuda/sm90/warpgroup_launch.hpp"

namespace magicube::vnm_mm {
namespace sm90 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;
using sm80::packed_plan;
using sm80::select_arguments;
using sm80::source_of;

const warpgroup_instance* const instances[] = {&warpgroup_fp16_64, &warpgroup_fp16_128,
                                               &warpgroup_bf16_64, &warpgroup_bf16_128};

// Up to these the tiles of the select family that only read A are faster.
constexpr int64_t few_columns = 32;
constexpr int64_t most_in_grid = 65535;  // along y and z, of the select family

// Null if there is none.
const warpgroup_instance* instance_for(const problem& p) {
    if (p.b_type != p.pattern.type) return nullptr;
    const int32_t rows = p.pattern.m == 4 ? 128 : std::min(p.pattern.vector_length, 128);
    for (const auto* i : instances)
        if (i->type == p.pattern.type && i->tile_rows == rows) return i;
    return nullptr;
}

// In double: sizes may be near 2^63.
double tiles_of(const problem& p, const warpgroup_instance& instance) {
    return static_cast<double>(ceil_div(p.pattern.rows, instance.tile_rows)) *
           static_cast<double>(ceil_div(p.n_max, instance.tile_columns)) *
           static_cast<double>(p.batch_count);
}

std::string decline(const context& ctx, const problem& p) {
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (capability != 90) return text("it needs an sm_90 GPU; this is sm_", capability);
    if (built_architectures().find("sm_90a") == std::string::npos)
        return "this library was built without sm_90a";
    const auto* instance = instance_for(p);
    if (!instance)
        return text("it has no kernel for ", name_of(p.pattern.type), "/", name_of(p.b_type),
                    " with V = ", p.pattern.vector_length);
    if (const double tiles = tiles_of(p, *instance); tiles > INT32_MAX)
        return text("C has ", tiles, " tiles; one launch takes 2^31 - 1");
    if (p.batch_count > most_in_grid)
        return text("the batch has ", p.batch_count, " matrices; one launch takes ", most_in_grid);
    if (source_of(p, instance->tile_rows).units() > INT32_MAX / sm80::unit_rows)
        return "A has too many groups for one launch";
    return "";
}

buffer_needs needs(const context&, const problem& p) {
    return sm80::packed_needs(p, instance_for(p)->tile_rows);
}

class warpgroup_plan final : public packed_plan {
  public:
    warpgroup_plan(const context& ctx, const vnm_mm::problem& p, plan_resources resources)
        : packed_plan(ctx, p, std::move(resources), instance_for(p)->tile_rows),
          instance_(*instance_for(p)),
          narrow_(*sm80::find_select(p.pattern.type, instance_.tile_rows, true)),
          ctas_(magicube::cuda::multiprocessors(ctx.ordinal)) {
        device_scope scope(ctx.ordinal);
        check(instance_.load(), "warpgroup_kernel");
        sm80::load_select(ctx, narrow_);
    }

  protected:
    void launch(const context& ctx, const select_arguments& args) const override {
        if (args.b_columns <= few_columns) {
            sm80::launch_select(ctx, narrow_, args, source().tiles(), problem().batch_count);
            return;
        }
        const auto column_tiles =
            static_cast<uint32_t>(ceil_div(args.b_columns, int64_t{instance_.tile_columns}));
        warpgroup_arguments k;
        k.select = args;
        k.row_tiles = divisor(static_cast<uint32_t>(source().tiles()));
        k.column_tiles = divisor(column_tiles);
        k.tiles = k.row_tiles.value() * column_tiles * static_cast<uint32_t>(problem().batch_count);
        k.b_pitch = args.b_pitch <= UINT32_MAX ? static_cast<uint32_t>(args.b_pitch) : 0;
        const auto ctas = std::min(k.tiles, static_cast<uint32_t>(ctas_));
        check(instance_.launch(k, ctas, ctx.stream), "warpgroup_kernel");
    }

  private:
    const warpgroup_instance& instance_;
    const sm80::select_instance& narrow_;
    int ctas_;
};

// The ring's copies, as measured on an H200, and what a tile takes beside them.
double cost(const context& ctx, const problem& p) {
    constexpr double launch_us = 3, clocks_per_us = 1750;
    constexpr double clocks_a_byte = 1 / 30.0, clocks_a_tile = 2500;
    const auto& instance = *instance_for(p);
    const double units = static_cast<double>(ceil_div(p.pattern.groups(), sm80::unit_groups));
    const double bytes =
        units * (sm80::unit_rows * 2.0 * instance.tile_columns + instance.tile_rows * 72.0);
    const double turns =
        std::max(1.0, tiles_of(p, instance) / magicube::cuda::multiprocessors(ctx.ordinal));
    return launch_us + turns * (bytes * clocks_a_byte + clocks_a_tile) / clocks_per_us;
}

}  // namespace
}  // namespace sm90

extern const implementation<operation> cuda_sm90_warpgroup;
const implementation<operation> cuda_sm90_warpgroup = {"sm90_warpgroup",
                                                       device_kind::cuda,
                                                       false,
                                                       sm90::decline,
                                                       sm90::cost,
                                                       sm90::needs,
                                                       make_plan<operation, sm90::warpgroup_plan>};

}  // namespace magicube::vnm_mm
