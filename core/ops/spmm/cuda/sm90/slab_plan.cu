// SPDX-License-Identifier: Apache-2.0
// The slab family as an implementation of SpMM: what it accepts, its packing, its launches.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/device/cuda/tensor_map.hpp"
#include "core/device/device.hpp"
#include "core/ops/spmm/cuda/host_copy.hpp"
#include "core/ops/spmm/cuda/prepare_b.hpp"
#include "core/ops/spmm/cuda/sm90/slab_launch.hpp"
#include "core/ops/spmm/cuda/sm90/slab_pack.hpp"

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
    return checked_mul(
        ceil_div(p.pattern.rows, instance_for(ctx, p).shape.group_rows()),
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
    if (p.values != value_mode::fixed) return "it packs the values: the value mode must be FIXED";
    if (is_integer(p.pattern.type) && p.pattern.cols > longest_sum)
        return text("K is ", p.pattern.cols, "; its 32-bit sums hold ", longest_sum, " products");
    if (const int64_t tiles = tiles_of(ctx, p); tiles > INT32_MAX)
        return text("C has ", tiles, " tiles; one launch takes 2^31 - 1");
    return "";
}

// Where the sections of the plan's buffer lie.
struct layout {
    int64_t parts, records, bundle_rows, bytes;

    explicit layout(const packed_slabs& packed) {
        buffer_layout sections;
        const auto reserve = [&](const auto& array) {
            return sections.reserve(static_cast<int64_t>(array.size()), sizeof(array[0]),
                                    "the packed A");
        };
        parts = reserve(packed.parts);
        records = reserve(packed.records);
        bundle_rows = reserve(packed.bundle_rows);
        bytes = sections.bytes();
    }
};

packed_slabs pack(const context& ctx, const problem& p) {
    const cuda::host_copy a(ctx, p.pattern);
    return pack_slabs(a.view(), instance_for(ctx, p).shape, matrices_of(p),
                      p.c_order == order::col);
}

// Bytes of B's copy, if the execution's B should need one.
int64_t workspace_bytes(const problem& p) {
    return cuda::shape_staged(p.b_type, p.pattern.cols, p.n_max, p.batch_count).bytes;
}

buffer_needs needs(const context& ctx, const problem& p) {
    return {layout(pack(ctx, p)).bytes, workspace_bytes(p)};
}

class slab_plan final : public plan {
  public:
    slab_plan(const context& ctx, const spmm::problem& p, plan_resources resources)
        : plan(ctx, p, std::move(resources)), instance_(instance_for(ctx, p)) {
        const packed_slabs packed = pack(ctx, p);
        const layout at(packed);
        char* buffer = this->resources().buffer.data();
        const auto upload = [&](int64_t offset, const auto& array) {
            copy_memory(ctx, buffer + offset, array.data(), array.size() * sizeof(array[0]));
            return buffer + offset;
        };
        arguments_.geometry = packed.geometry;
        arguments_.parts = reinterpret_cast<const slab_part*>(upload(at.parts, packed.parts));
        arguments_.records = reinterpret_cast<const uint8_t*>(upload(at.records, packed.records));
        arguments_.bundle_rows =
            reinterpret_cast<const int32_t*>(upload(at.bundle_rows, packed.bundle_rows));
        // An empty matrix has no groups, and is not run.
        const auto groups =
            packed.bundle_rows.size() / static_cast<size_t>(instance_.shape.group_bundles());
        arguments_.groups = divisor(static_cast<uint32_t>(std::max<size_t>(groups, 1)));
        arguments_.groups_a_matrix =
            divisor(static_cast<uint32_t>(std::max<int64_t>(packed.groups_a_matrix, 1)));
        arguments_.one_pattern = matrices_of(p) == 1;
        arguments_.order = packed.uneven                ? tile_order::snake
                           : packed.geometry.resident() ? tile_order::contiguous
                                                        : tile_order::interleaved;
        device_scope scope(ctx.ordinal);
        check(instance_.load(), "slab_kernel");
        synchronize(ctx);  // the arrays on the host end here
        ctas_ = magicube::cuda::multiprocessors(ctx.ordinal);
    }

    void pack_values(const context&, const void*) override {
        fail(status::internal_error, "slab plans have fixed values");
    }
    sr_bcrs_view matrix_with(const void*) const override {
        fail(status::internal_error, "slab plans have fixed values");
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
        device_scope scope(ctx.ordinal);
        const CUtensorMap map =
            magicube::cuda::make_row_map(b, tile_columns(p.b_type), k.geometry.box_rows);
        const int ctas = static_cast<int>(std::min<int64_t>(tiles, ctas_));
        k.ctas = divisor(static_cast<uint32_t>(ctas));
        check(instance_.launch(map, k, ctas, ctx.stream), "slab_kernel");
    }

  private:
    const instance& instance_;
    slab_arguments arguments_{};
    int ctas_ = 0;
};

// What a tile takes on the H200, in clocks, as fitted to tests/benchmark/RESULTS.md: the filling of
// the ring and the gathers overlap in part, the stores with nothing.
double cost(const context& ctx, const problem& p) {
    constexpr double clocks_per_us = 1750, launch_us = 2;
    constexpr double clocks_a_row = 3.6, clocks_a_step = 35, clocks_a_stored_row = 29;
    constexpr double slots_used = 0.8 * step_slots;
    const slab_shape& shape = instance_for(ctx, p).shape;
    const int rows_a_tile = shape.group_rows();
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

std::unique_ptr<plan> make(const context& ctx, const problem& p, plan_resources resources) {
    return std::make_unique<slab_plan>(ctx, p, std::move(resources));
}

}  // namespace
}  // namespace sm90

extern const implementation<operation> cuda_sm90_slab;
const implementation<operation> cuda_sm90_slab = {
    "sm90_slab", device_kind::cuda, false, sm90::decline, sm90::cost, sm90::needs, sm90::make};

}  // namespace magicube::spmm
