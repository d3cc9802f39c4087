// SPDX-License-Identifier: Apache-2.0
// The slab kernels as an implementation of attention: what they accept, the packing of the
// pattern, their launches.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "core/common/checked.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/runtime.hpp"
#include "core/device/cuda/tensor_map.hpp"
#include "core/ops/attention/cuda/plain.hpp"
#include "core/ops/attention/cuda/sm90/slab_launch.hpp"
#include "core/ops/attention/quantised.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/spmm/cuda/sm90/slab_pack.hpp"

namespace magicube::attention {
namespace sm90 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;
using spmm::sm90::consumer_warps;
using spmm::sm90::pack_target;
using spmm::sm90::pattern_packer;
using spmm::sm90::slab_outline;
using spmm::sm90::slab_shape;

#define MAGICUBE_ATTENTION_SLAB(TYPE, DIM) &slab_##TYPE##_##DIM,
const slab_instance* const instances[] = {MAGICUBE_ATTENTION_SLABS(MAGICUBE_ATTENTION_SLAB)};
#undef MAGICUBE_ATTENTION_SLAB

constexpr int64_t longest_sum = 65'793;  // products of 8 bits that stay within 32
constexpr int prepare_threads = 256;

const slab_instance* find_instance(const problem& p) {
    for (const auto* i : instances)
        if (i->type == p.in_type && i->dim == p.head_dim) return i;
    return nullptr;
}

bool has_shared_keys(const problem& p) {
    return p.pattern.vector_length >= 16;
}

// How the pattern is packed: lists of keys for 8 queries, or for the 16 of a warp where they share
// theirs; row numbers alone.
slab_shape shape_of(const problem& p) {
    slab_shape shape;
    shape.bundles = has_shared_keys(p) ? 1 : warp_bundles;
    shape.row_sets = has_shared_keys(p) ? warp_bundles : 1;
    shape.floats = true;  // holes are told apart from keys
    shape.keys_only = true;
    shape.row_bytes = static_cast<int32_t>(p.head_dim * storage_bits(p.in_type) / 8);
    return shape;
}

int64_t patterns_of(const problem& p) {
    return p.pattern.different_patterns ? p.pattern.batch_count
                                        : std::min<int64_t>(p.pattern.batch_count, 1);
}

// Where the first step puts its highest score: at 90 if a query has keys enough that a higher one
// is likely to come, so that few references have to move; else at 180, nearer to 255.
float first_log2(const problem& p) {
    constexpr double many_keys = 128;
    const double rows = static_cast<double>(p.pattern.rows) *
                        static_cast<double>(std::max<int64_t>(1, patterns_of(p)));
    const double keys =
        static_cast<double>(p.pattern.slots) * static_cast<double>(p.pattern.vector_length) / rows;
    return keys > many_keys ? 6.4918531f : 7.4918531f;
}

pattern_packer count(const context& ctx, const problem& p) {
    return pattern_packer(ctx, p.pattern, shape_of(p), patterns_of(p), p.causal);
}

// Scales of K's rows, as the kernel adds exponents of 2; rows beyond the last have 0.
__global__ void __launch_bounds__(prepare_threads)
    key_scale_kernel(const __grid_constant__ cuda::kernel_arguments call, int64_t padded,
                     float* scales) {
    const int64_t head = blockIdx.y;
    const scale_reader given =
        scales_of_head(call.shape.k_scale, call.k_scale, head, call.pattern.cols);
    const float common = call.scale.get() * log2_e;
    for (int64_t i = int64_t{blockIdx.x} * prepare_threads + threadIdx.x; i < padded;
         i += int64_t{gridDim.x} * prepare_threads)
        scales[head * padded + i] = i < call.pattern.cols ? common * given[i] : 0.0f;
}

// The slabs that each group visits: those that its part or one of the `kept` after gathers from.
std::vector<slab_visit> list_visits(const std::vector<slab_part>& parts, const slab_geometry& g) {
    const auto slabs = static_cast<size_t>(g.slabs), kept = static_cast<size_t>(g.kept);
    const size_t groups = parts.size() / slabs;
    std::vector<slab_visit> visits(groups * (slabs + visits_read_ahead), {0, 0, no_slab});
    for (size_t group = 0; group < groups; ++group) {
        const slab_part* own = &parts[group * slabs];
        slab_visit* next = &visits[group * (slabs + visits_read_ahead)];
        for (size_t slab = 0; slab < slabs; ++slab) {
            const slab_part* end = own + std::min(slab + kept + 1, slabs);
            if (std::any_of(own + slab, end, [](const slab_part& part) {
                    return part.length > spmm::sm90::header_bytes / 16;
                }))
                *next++ = {own[slab].begin, static_cast<uint16_t>(own[slab].length),
                           static_cast<uint16_t>(slab)};
        }
    }
    return visits;
}

// Where the sections of the plan's buffer lie.
struct layout {
    int64_t visits, records, bundle_rows, bytes;
    int64_t workspace_bytes;

    layout(const problem& p, const slab_outline& outline) {
        const char* what = "the packed pattern";
        buffer_layout sections;
        sections.reserve(stored_matrix(p.pattern, false).bytes(), 1, what);  // of stored_plan
        visits = sections.reserve(outline.groups() * (outline.geometry.slabs + visits_read_ahead),
                                  sizeof(slab_visit), what);
        records = sections.reserve(outline.record_bytes, 1, what);
        bundle_rows = sections.reserve(static_cast<int64_t>(outline.bundle_rows.size()), 4, what);
        bytes = sections.bytes();
        buffer_layout of_call;
        const int64_t heads = checked_mul(p.batch_count, p.kv_heads, "heads");
        of_call.reserve(
            p.quantised() ? checked_mul(heads, padded_keys(outline.geometry), "scales") : 0, 4,
            "the scales of K");
        workspace_bytes = of_call.bytes();
    }
    static int64_t padded_keys(const slab_geometry& g) { return int64_t{g.slabs} * g.slab_rows; }
};

buffer_needs needs(const context& ctx, const problem& p) {
    const layout at(p, count(ctx, p).outline());
    return {at.bytes, at.workspace_bytes};
}

class slab_plan final : public stored_plan<operation> {
  public:
    slab_plan(const context& ctx, const attention::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)), instance_(*find_instance(p)) {
        const pattern_packer packer = count(ctx, p);
        const layout at(p, packer.outline());
        pack(ctx, p, packer, at);
        device_scope scope(ctx.ordinal);
        check(instance_.load(), "slab_kernel");
        check(magicube::cuda::load_kernel(key_scale_kernel), "key_scale_kernel");
        cuda::load_plain(ctx);
        ctas_ = magicube::cuda::multiprocessors(ctx.ordinal);
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const auto& pattern = stored().view();
        slab_arguments k = arguments_;
        k.call = cuda::make_arguments(ctx, p, pattern, args);
        const bool copied =
            cuda::is_aligned(args.k, p.in_type, 16) && cuda::is_aligned(args.v, p.in_type, 16);
        if (!copied || !cuda::is_aligned(args.q, p.in_type, 4)) {
            cuda::run_plain(ctx, k.call);
            return;
        }
        k.paired_out = storage_bits(p.out_type) == 16 && cuda::is_aligned(args.out, p.out_type, 4);
        if (p.quantised()) {
            auto* scales = static_cast<float*>(args.workspace);
            prepare_scales(ctx, k.call, scales);
            k.key_scales = scales;
        }
        const int64_t heads = checked_mul(p.batch_count, p.q_heads, "problem->batch_count");
        const int64_t tiles = checked_mul(heads, k.groups.value(), "tiles");
        require(tiles <= INT32_MAX, status::not_supported, "attention has ", tiles,
                " tiles of heads and queries; one launch takes 2^31 - 1");
        k.tiles = static_cast<uint32_t>(tiles);
        k.heads = divisor(static_cast<uint32_t>(p.q_heads));
        k.heads_a_kv_head = divisor(static_cast<uint32_t>(p.q_heads / p.kv_heads));
        device_scope scope(ctx.ordinal);
        const CUtensorMap k_map = map_of(args.k), v_map = map_of(args.v);
        const int ctas = static_cast<int>(std::min<int64_t>(tiles, ctas_));
        check(instance_.launch(k_map, v_map, k, ctas, ctx.stream), "slab_kernel");
    }

  private:
    void pack(const context& ctx, const attention::problem& p, const pattern_packer& packer,
              const layout& at) {
        char* buffer = resources().buffer.data();
        const slab_outline& outline = packer.outline();
        pack_target target{};
        target.a = p.pattern;
        target.shape = shape_of(p);
        target.groups = outline.groups();
        target.groups_a_matrix = outline.groups_a_matrix;
        target.geometry = outline.geometry;
        target.bundle_rows = reinterpret_cast<int32_t*>(buffer + at.bundle_rows);
        const spmm::cuda::scratch parts(
            ctx, checked_mul(outline.parts() + spmm::sm90::parts_read_ahead, sizeof(slab_part),
                             "parts"));
        target.parts = parts.as<slab_part>();
        target.records = reinterpret_cast<uint8_t*>(buffer + at.records);
        const spmm::cuda::scratch slots(ctx, packer.slot_map_bytes());
        target.slots = slots.as<int32_t>();
        packer.write(ctx, target);
        auto* visits = reinterpret_cast<slab_visit*>(buffer + at.visits);
        if (target.groups > 0) {
            std::vector<slab_part> made(static_cast<size_t>(outline.parts()));
            copy_memory(ctx, made.data(), target.parts, made.size() * sizeof(slab_part));
            synchronize(ctx);
            const auto listed = list_visits(made, target.geometry);
            copy_memory(ctx, visits, listed.data(), listed.size() * sizeof(slab_visit));
            synchronize(ctx);  // the list on the host ends here
        }
        arguments_.geometry = target.geometry;
        arguments_.visits = visits;
        arguments_.shared_keys = has_shared_keys(p);
        arguments_.first_log2 = first_log2(p);
        arguments_.records = target.records;
        arguments_.bundle_rows = target.bundle_rows;
        // An empty pattern has no groups, and is not run.
        arguments_.groups =
            divisor(static_cast<uint32_t>(std::max<int64_t>(target.groups_a_matrix, 1)));
    }

    void prepare_scales(const context& ctx, const cuda::kernel_arguments& call,
                        float* scales) const {
        const int64_t padded = layout::padded_keys(arguments_.geometry);
        const int64_t heads = call.shape.batch_count * call.shape.kv_heads;
        const dim3 grid(static_cast<unsigned>(ceil_div(padded, prepare_threads * 4)),
                        static_cast<unsigned>(heads));
        device_scope scope(ctx.ordinal);
        check(magicube::cuda::launch_kernel(
                  key_scale_kernel, {grid, prepare_threads, 0, ctx.stream}, call, padded, scales),
              "key_scale_kernel");
    }

    CUtensorMap map_of(const tensor& t) const {
        const auto& p = problem();
        return magicube::cuda::make_head_map(
            {t.values, p.in_type, p.head_dim, p.pattern.cols, p.kv_heads, p.batch_count,
             t.row_stride, t.head_stride, t.batch_stride},
            arguments_.geometry.box_rows);
    }

    const slab_instance& instance_;
    slab_arguments arguments_{};
    int ctas_ = 0;
};

std::string decline(const context& ctx, const problem& p) {
    constexpr int64_t most_heads = 65'535;
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (capability != 90) return text("it needs an sm_90 GPU; this is sm_", capability);
    if (built_architectures().find("sm_90a") == std::string::npos)
        return "this library was built without sm_90a";
    if (!find_instance(p))
        return text("it has no kernel for ", name_of(p.in_type), " and head_dim ", p.head_dim);
    if (p.quantised() && p.probability_bits != 8)
        return text("probability_bits is ", p.probability_bits, "; it takes 8");
    if (p.pattern.vector_length < 8)
        return text("vectors are ", p.pattern.vector_length, " long; it takes 8 and longer");
    if (p.pattern.element_mask) return "the pattern has an element mask";
    if (p.pattern.cols == 0) return "there are no keys";
    if (p.pattern.cols > longest_sum)
        return text("there are ", p.pattern.cols, " keys; its 32-bit sums hold ", longest_sum);
    if (p.batch_count * p.kv_heads > most_heads)
        return text("K has ", p.batch_count * p.kv_heads, " heads in all; it takes ", most_heads);
    return "";
}

// Gathers of a row of K and one of V a key and bundle of 8 queries, and the filling of the rings.
double cost(const context& ctx, const problem& p) {
    constexpr double launch_us = 4, clocks_a_us = 1750, clocks_a_step = 60, filled_bytes = 37;
    constexpr double slots_used = 0.8 * spmm::sm90::step_slots;
    const auto matrices = static_cast<double>(std::max<int64_t>(1, patterns_of(p)));
    const double columns = static_cast<double>(p.pattern.slots) / matrices;
    const double slots = columns * static_cast<double>(p.pattern.vector_length / 8);
    const double heads = static_cast<double>(p.batch_count) * static_cast<double>(p.q_heads);
    const int row_bytes = shape_of(p).row_bytes;
    const double groups = static_cast<double>(ceil_div(p.pattern.rows, consumer_warps * 16));
    const double multiprocessors = magicube::cuda::multiprocessors(ctx.ordinal);
    // Queries with one list of keys gather them once for 16.
    const double a_query = has_shared_keys(p) ? 0.6 : 1;
    const double gather = slots / slots_used * clocks_a_step * a_query * row_bytes / 64 * heads;
    // Slabs without slots of a group are left out.
    const double brought = std::min(static_cast<double>(p.pattern.cols), columns / groups);
    const double fill = 2.0 * brought * row_bytes / filled_bytes * groups * heads;
    return launch_us + std::hypot(gather, fill) / multiprocessors / clocks_a_us;
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

}  // namespace magicube::attention
