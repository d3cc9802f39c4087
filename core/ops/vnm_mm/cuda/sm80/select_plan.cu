// SPDX-License-Identifier: Apache-2.0
// The select family as an implementation of the product of a V:N:M matrix: what it accepts, its
// packing, its launches.
#include <algorithm>
#include <string>
#include <utility>

#include "core/device/cuda/check.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/vnm_mm/cuda/sm80/packed_plan.hpp"

namespace magicube::vnm_mm {
namespace sm80 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;

// Sums of this many products of signed bytes stay within 32 bits.
constexpr int64_t longest_sum = 131'071;
constexpr int64_t most_in_grid = 65535;  // along y and z

#define MAGICUBE_SELECT(KIND)                                                                   \
    &select_##KIND##_32, &select_##KIND##_64, &select_##KIND##_128, &select_narrow_##KIND##_32, \
        &select_narrow_##KIND##_64, &select_narrow_##KIND##_128,
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

// Of wide tiles. Null if there is none.
const select_instance* instance_for(const problem& p) {
    if (p.b_type != p.pattern.type) return nullptr;
    const int32_t rows = p.pattern.m == 4 ? 128 : std::min(p.pattern.vector_length, 128);
    return find_select(p.pattern.type, rows, false);
}

}  // namespace

const select_instance* find_select(dtype type, int32_t tile_rows, bool narrow) {
    const std::string operands = operands_for(type);
    for (const auto* i : instances)
        if (i->operands == operands && i->tile_rows == tile_rows && i->narrow == narrow) return i;
    return nullptr;
}

int load_select(const context& ctx, const select_instance& instance) {
    device_scope scope(ctx.ordinal);
    const select_info info = instance.load();
    check(info.code, "select_kernel");
    return info.architecture;
}

void launch_select(const context& ctx, const select_instance& instance,
                   const select_arguments& args, int64_t row_tiles, int64_t batch_count) {
    const dim3 grid(static_cast<unsigned>(row_tiles),
                    static_cast<unsigned>(ceil_div(args.b_columns, int64_t{instance.tile_columns})),
                    static_cast<unsigned>(batch_count));
    check(instance.launch(args, grid, ctx.stream), "select_kernel");
}

namespace {

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
    const pack_source source = source_of(p, instance->tile_rows);
    if (source.tiles() > INT32_MAX || source.units() > INT32_MAX / unit_rows)
        return "A has too many rows or groups for one launch";
    if (p.pattern.type == dtype::e4m3) {
        const int compiled = load_select(ctx, *instance);
        if (compiled < 89)
            return text("e4m3 needs sm_89; this library's code for the GPU is sm_", compiled);
    }
    return "";
}

buffer_needs needs(const context&, const problem& p) {
    return packed_needs(p, instance_for(p)->tile_rows);
}

class select_plan final : public packed_plan {
  public:
    select_plan(const context& ctx, const vnm_mm::problem& p, plan_resources resources)
        : packed_plan(ctx, p, std::move(resources), instance_for(p)->tile_rows),
          wide_(*instance_for(p)),
          narrow_(*find_select(p.pattern.type, wide_.tile_rows, true)) {
        load_select(ctx, wide_);
        load_select(ctx, narrow_);
    }

  protected:
    void launch(const context& ctx, const select_arguments& args) const override {
        launch_select(ctx, args.b_columns <= narrow_.tile_columns ? narrow_ : wide_, args,
                      source().tiles(), problem().batch_count);
    }

  private:
    const select_instance& wide_;
    const select_instance& narrow_;
};

// The rows of B that all tiles gather, over what a multiprocessor gets from L2, or the products;
// for few columns A's bytes over the memory's bandwidth. As measured on an H200.
double cost(const context& ctx, const problem& p) {
    constexpr double launch_us = 4, clocks_per_us = 1700, bytes_per_clock = 18;
    constexpr double products_per_clock = 1300;  // of 16-bit operands, as if dense
    const auto& wide = *instance_for(p);
    const auto& narrow = *find_select(p.pattern.type, wide.tile_rows, true);
    const auto& instance = p.n_max <= narrow.tile_columns ? narrow : wide;
    const double tiles = static_cast<double>(ceil_div(p.pattern.rows, instance.tile_rows)) *
                         static_cast<double>(ceil_div(p.n_max, instance.tile_columns)) *
                         static_cast<double>(p.batch_count);
    const double rows = static_cast<double>(ceil_div(p.pattern.groups(), unit_groups)) * unit_rows;
    const double columns = std::min(static_cast<double>(p.n_max), 1.0 * instance.tile_columns);
    const double bytes = rows * (columns + instance.tile_rows * 0.6) * instance.element_bytes;
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
