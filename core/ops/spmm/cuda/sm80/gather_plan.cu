// SPDX-License-Identifier: Apache-2.0
// The gather family as implementations of SpMM: sm80_gather for every pair of types, and sm80_int4
// on the int4 Tensor Cores that compute capability 8 alone has. They keep A in the public layout;
// only int4 values are unpacked for sm80_gather, in the plan or, if they come with the call, in the
// workspace.
#include <algorithm>
#include <utility>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/spmm/cuda/prepare_b.hpp"
#include "core/ops/spmm/cuda/sm80/gather_launch.hpp"
#include "core/ops/spmm/spmm.hpp"

namespace magicube::spmm {
namespace sm80 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;

#define MAGICUBE_GATHER(OPERANDS, SETS) &gather_##OPERANDS##_##SETS,
const gather_instance* const instances[] = {MAGICUBE_GATHERS(MAGICUBE_GATHER)};
#undef MAGICUBE_GATHER

// Of a bundle's slots, whose numbers are 32 bits.
constexpr int64_t most_slots = INT32_MAX - 4096;

// The operands of the instances that compute a pair of types.
const char* operands_for(precision_pair pair) {
    switch (pair.lhs) {
        case dtype::int4:
        case dtype::int8:
            return "s8";
        case dtype::uint8:
            return "u8";
        case dtype::int12:
        case dtype::int16:
            return pair.rhs == dtype::int16 ? "s16s16" : "s16s8";
        default:
            return name_of(pair.lhs);
    }
}

// Block rows of a bundle; more than one only if V < 8.
int32_t blocks_of(const problem& p) {
    return std::max(1, 8 / p.pattern.vector_length);
}

int64_t bundles_of(const problem& p, int sets) {
    return p.pattern.vector_length < 8
               ? ceil_div(p.pattern.rows, int64_t{8})
               : p.pattern.block_rows() * (p.pattern.vector_length / (8 * sets));
}

int64_t tiles_of(const problem& p, const gather_shape& shape, int64_t n) {
    const int64_t groups = ceil_div(bundles_of(p, shape.sets), int64_t{shape.warps});
    const int64_t columns = ceil_div(n, int64_t{shape.tile_columns});
    return checked_mul(checked_mul(groups, columns, "tiles"), p.batch_count, "tiles");
}

// As many rows share a gather as V allows, unless that leaves multiprocessors idle.
const gather_instance& instance_for(const context& ctx, const problem& p,
                                    const std::string& operands) {
    const gather_instance* best = nullptr;
    for (const auto* i : instances) {
        if (i->operands != operands) continue;
        const bool shared =
            8 * i->shape.sets <= p.pattern.vector_length &&
            tiles_of(p, i->shape, p.n_max) >= magicube::cuda::multiprocessors(ctx.ordinal);
        if (!best || shared) best = i;
    }
    require(best != nullptr, status::internal_error, "no gather instance for ", operands);
    return *best;
}

gather_kernel_info describe(const context& ctx, const gather_instance& instance) {
    device_scope scope(ctx.ordinal);
    const auto info = instance.describe();
    check(info.code, "gather_kernel");
    return info;
}

bool brings_values(const problem& p) {
    return p.values == value_mode::per_call;
}

// Value arrays of the batch that lie apart.
int64_t value_arrays(const sr_bcrs_view& a) {
    const bool separate = a.batch_count > 1 && !a.different_patterns && a.values_stride != 0;
    return separate ? a.batch_count : std::min<int64_t>(a.batch_count, 1);
}

// Where the workspace's sections lie.
struct workspace_layout {
    int64_t b = 0, values = 0, totals = 0, bytes = 0;

    workspace_layout(const context& ctx, const problem& p, const gather_instance& instance,
                     bool unpacks, bool stages) {
        buffer_layout sections;
        if (stages) {
            const auto shape = cuda::shape_staged(p.b_type, p.pattern.cols, p.n_max, p.batch_count);
            b = sections.reserve(shape.bytes, 1, "B's copy");
        }
        if (unpacks && brings_values(p))
            values = sections.reserve(p.pattern.value_count(), value_arrays(p.pattern),
                                      "A's unpacked values");
        if (folds(p)) {
            const int64_t ctas =
                magicube::cuda::multiprocessors(ctx.ordinal) * describe(ctx, instance).ctas;
            totals = sections.reserve(ctas * instance.shape.warps * 32 * instance.shape.sums,
                                      sizeof(int64_t), "64-bit sums");
        }
        bytes = sections.bytes();
    }

    static bool folds(const problem& p) {
        return is_integer(p.pattern.type) && p.pattern.cols * blocks_of(p) > longest_sum;
    }
};

// A kernel family member: which operands it computes with.
struct variant {
    bool native_int4;

    std::string operands(const problem& p) const {
        return native_int4 ? "s4" : operands_for(p.pair());
    }
    bool unpacks(const problem& p) const { return !native_int4 && p.pattern.type == dtype::int4; }
    bool stages(const problem& p) const { return !native_int4 && p.b_type != dtype::fp32; }
    stored_matrix stored(const problem& p) const {
        return stored_matrix(p.pattern, !brings_values(p) && !unpacks(p));
    }
    int64_t unpacked_bytes(const problem& p) const {
        return unpacks(p) && !brings_values(p)
                   ? checked_mul(p.pattern.value_count(), value_arrays(p.pattern),
                                 "A's unpacked values")
                   : 0;
    }
};

template <bool NativeInt4>
class gather_plan final : public stored_plan<operation> {
  public:
    static constexpr variant kind{NativeInt4};

    gather_plan(const context& ctx, const spmm::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources), !brings_values(p) && !kind.unpacks(p)),
          instance_(instance_for(ctx, p, kind.operands(p))),
          sections_(ctx, p, instance_, kind.unpacks(p), kind.stages(p)),
          resident_ctas_(magicube::cuda::multiprocessors(ctx.ordinal) *
                         int64_t{describe(ctx, instance_).ctas}) {
        cuda::load_prepare_b(ctx, p.b_type);
        if (kind.unpacks(p)) load_unpack_int4(ctx);
        if (kind.unpacked_bytes(p) > 0) unpack(ctx, p.pattern.values, unpacked_values());
    }

    void pack_values(const context& ctx, const void* values) override {
        if (kind.unpacks(problem())) {
            unpack(ctx, values, unpacked_values());
        } else {
            stored().copy_values(ctx, values);
        }
    }

    sr_bcrs_view matrix_with(const void* values) const override {
        return stored().view_with(values);
    }

  private:
    char* unpacked_values() const {
        return resources().buffer.data() + kind.stored(problem()).bytes();
    }

    void unpack(const context& ctx, const void* values, void* target) const {
        const auto& a = problem().pattern;
        unpack_int4(ctx, values, a.values_stride, a.value_count(), value_arrays(a), target);
    }

    // A with the values of this execution.
    sr_bcrs_view matrix_for(const context& ctx, const arguments& args) const {
        const auto& p = problem();
        if (!kind.unpacks(p))
            return brings_values(p) ? stored().view_with(args.a_values) : stored().view();
        void* values = unpacked_values();
        if (brings_values(p)) {
            values = static_cast<char*>(args.workspace) + sections_.values;
            unpack(ctx, args.a_values, values);
        }
        sr_bcrs_view a = stored().view_with(values);
        a.type = dtype::int8;
        a.values_stride = value_arrays(a) > 1 ? a.value_count() : 0;
        return a;
    }

    void place_a(const sr_bcrs_view& a, gather_arguments& k) const {
        const int bits = storage_bits(a.type);
        k.a = a;
        k.blocks = blocks_of(problem());
        k.parts = std::max(1, a.vector_length / (8 * instance_.shape.sets));
        while (1 << k.stride_shift < a.stride) ++k.stride_shift;
        k.copied = a.vector_length >= 8 && a.stride >= 8 &&
                   reinterpret_cast<uintptr_t>(a.values) % 16 == 0 &&
                   (a.different_patterns || a.values_stride * bits / 8 % 16 == 0);
        k.bundles = bundles_of(problem(), instance_.shape.sets);
        k.bundle_groups = ceil_div(k.bundles, int64_t{instance_.shape.warps});
    }

    void place_b(const dense_view& b, gather_arguments& k) const {
        const int bits = storage_bits(b.type);
        const bool by_rows = b.storage == order::row;
        k.b = static_cast<const uint8_t*>(b.values);
        k.pitch = (by_rows ? b.ld : 1) * bits / 8;
        k.col_pitch = (by_rows ? 1 : b.ld) * bits / 8;
        k.apart = b.batch_stride * bits / 8;
        k.row_bytes = storage_bytes(b.type, b.cols);
        k.aligned = by_rows && reinterpret_cast<uintptr_t>(b.values) % 16 == 0 &&
                    k.pitch % 16 == 0 && k.apart % 16 == 0;
        k.column_tiles = ceil_div(b.cols, int64_t{instance_.shape.tile_columns});
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        gather_arguments k{};
        k.store = cuda::make_store_arguments(ctx, p, args);
        place_a(matrix_for(ctx, args), k);
        const bool as_it_is = !kind.stages(p) || p.pattern.cols == 0 || cuda::is_staged(args.b);
        place_b(as_it_is ? args.b
                         : cuda::prepare_b(ctx, args.b,
                                           static_cast<char*>(args.workspace) + sections_.b),
                k);
        k.tiles = tiles_of(p, instance_.shape, args.b.cols);
        int64_t ctas = std::min<int64_t>(k.tiles, INT32_MAX);
        if (workspace_layout::folds(p)) {
            k.totals =
                reinterpret_cast<int64_t*>(static_cast<char*>(args.workspace) + sections_.totals);
            ctas = std::min(ctas, resident_ctas_);
        }
        device_scope scope(ctx.ordinal);
        check(instance_.launch(k, ctas, ctx.stream), "gather_kernel");
    }

    const gather_instance& instance_;
    workspace_layout sections_;
    int64_t resident_ctas_;
};

std::string decline_sizes(const problem& p) {
    if (p.pattern.cols * blocks_of(p) > most_slots)
        return text("K is ", p.pattern.cols, "; it takes at most ", most_slots / blocks_of(p));
    return "";
}

std::string decline_gather(const context& ctx, const problem& p) {
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (capability < 80) return text("it needs an sm_80 GPU; this is sm_", capability);
    if (p.pattern.type == dtype::e4m3) {
        const int compiled = describe(ctx, gather_e4m3_1).architecture;
        if (compiled < 89)
            return text("e4m3 needs sm_89; this library's code for the GPU is sm_", compiled);
    }
    return decline_sizes(p);
}

std::string decline_int4(const context& ctx, const problem& p) {
    const auto& a = p.pattern;
    if (a.type != dtype::int4 || p.b_type != dtype::int4)
        return text("it multiplies int4/int4; this is ", name_of(a.type), "/", name_of(p.b_type));
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    const bool forced = p.implementation != nullptr;
    if (capability / 10 != 8 && !(capability == 90 && forced))
        return text("int4 Tensor Cores are in sm_80 to sm_89; this is sm_", capability);
    if (a.vector_length < 8 || a.stride < 8)
        return text("V is ", a.vector_length, " and S ", a.stride, "; both must be at least 8");
    if (p.b_order != order::row) return "B is column-major";
    if (brings_values(p)) return "values of each call may not be aligned to 16 bytes";
    return decline_sizes(p);
}

template <bool NativeInt4>
buffer_needs needs(const context& ctx, const problem& p) {
    constexpr variant kind{NativeInt4};
    const auto& instance = instance_for(ctx, p, kind.operands(p));
    return {checked_add(kind.stored(p).bytes(), kind.unpacked_bytes(p), "the plan's buffer"),
            workspace_layout(ctx, p, instance, kind.unpacks(p), kind.stages(p)).bytes};
}

// Every slot brings a row of B's tile from L2, where 128 bytes for Tensor Cores come faster than
// 512 for fp32; then C is written. Fitted on an H200.
template <bool NativeInt4>
double cost(const context& ctx, const problem& p) {
    constexpr double launch_us = 5, stores_per_us = 3.2e3;  // of a multiprocessor
    constexpr variant kind{NativeInt4};
    const auto& shape = instance_for(ctx, p, kind.operands(p)).shape;
    const bool fp32 = p.b_type == dtype::fp32;
    const double bytes_per_us = fp32 ? 43e3 : 60e3;
    // Values of V < 8 are stored one by one; int16 x int16 takes four MMAs.
    const double effort = p.pattern.vector_length < 8 ? 1.5 : p.b_type == dtype::int16 ? 1.25 : 1;
    const auto columns = static_cast<double>(ceil_div(p.n_max, int64_t{shape.tile_columns}));
    const double gathers = std::max(1, p.pattern.vector_length / (8 * shape.sets));
    const double bytes =
        static_cast<double>(p.pattern.slots) * gathers * columns * (fp32 ? 512 : 128);
    const double batch = static_cast<double>(p.batch_count);
    const double patterns = p.pattern.different_patterns ? 1 : batch;
    const double c = static_cast<double>(p.pattern.rows) * static_cast<double>(p.n_max) * batch;
    return launch_us + (patterns * bytes * effort / bytes_per_us + c / stores_per_us) /
                           magicube::cuda::multiprocessors(ctx.ordinal);
}

}  // namespace
}  // namespace sm80

extern const implementation<operation> cuda_sm80_gather;
const implementation<operation> cuda_sm80_gather = {"sm80_gather",
                                                    device_kind::cuda,
                                                    false,
                                                    sm80::decline_gather,
                                                    sm80::cost<false>,
                                                    sm80::needs<false>,
                                                    make_plan<operation, sm80::gather_plan<false>>};

extern const implementation<operation> cuda_sm80_int4;
const implementation<operation> cuda_sm80_int4 = {"sm80_int4",
                                                  device_kind::cuda,
                                                  false,
                                                  sm80::decline_int4,
                                                  sm80::cost<true>,
                                                  sm80::needs<true>,
                                                  make_plan<operation, sm80::gather_plan<true>>};

}  // namespace magicube::spmm
