// SPDX-License-Identifier: Apache-2.0
// The gather family as an implementation of SDDMM. It keeps the pattern as it is; operands whose
// rows along K do not lie as the kernels load them are first copied to the workspace.
#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/sddmm/cuda/sm80/gather_launch.hpp"
#include "core/ops/spmm/cuda/prepare_b.hpp"
#include "core/ops/unpack.hpp"

namespace magicube::sddmm {
namespace sm80 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;

#define MAGICUBE_GATHER(OPERANDS, SETS) \
    &gather_##OPERANDS##_##SETS##_any, &gather_##OPERANDS##_##SETS##_kept,
const gather_instance* const instances[] = {MAGICUBE_GATHERS(MAGICUBE_GATHER)};
#undef MAGICUBE_GATHER

int sets_for(const problem& p, dtype operands) {
    const bool shared = operands != dtype::int4 && operands != dtype::e4m3;
    return shared && p.pattern.vector_length >= 16 ? 2 : 1;
}

const gather_instance& instance_for(dtype operands, int sets, bool kept) {
    for (const auto* i : instances)
        if (i->operands == std::string(name_of(operands)) && i->sets == sets && i->kept == kept)
            return *i;
    fail(status::internal_error, "no gather instance for ", name_of(operands));
}

// Products that 32-bit sums surely hold; int4 are computed as 16 times their value.
int64_t longest_sum(dtype type) {
    switch (type) {
        case dtype::int16:
            return 32768;
        case dtype::int8:
        case dtype::int4:
            return 131071;
        default:
            return INT32_MAX / 8;
    }
}

// Where the copies of both operands lie in the workspace.
struct workspace_layout {
    int64_t a = 0, b = 0, bytes = 0;

    explicit workspace_layout(const problem& p) {
        buffer_layout sections;
        a = sections.reserve(bytes_of(p, p.pattern.rows), 1, "A's copy");
        b = sections.reserve(bytes_of(p, p.pattern.cols), 1, "B's copy");
        bytes = sections.bytes();
    }

  private:
    static int64_t bytes_of(const problem& p, int64_t rows) {
        return spmm::cuda::shape_staged(p.a_type, rows, p.k_max, p.batch_count).bytes;
    }
};

// Whether the kernels can load a matrix of rows along K as it is.
bool is_direct(const dense_view& rows) {
    const auto whole = [&](int64_t elements) {
        return elements % (128 / storage_bits(rows.type)) == 0;
    };
    return rows.storage == order::row && reinterpret_cast<uintptr_t>(rows.values) % 16 == 0 &&
           whole(rows.cols) && whole(rows.ld) && whole(rows.batch_stride) &&
           rows.ld <= UINT32_MAX / 4;
}

// Warps that share a block row's steps: enough to fill the GPU, if there are so many steps.
int32_t ways_for(const context& ctx, const sr_bcrs_view& pattern, int64_t warps) {
    constexpr int64_t resident_warps = 20;  // of a multiprocessor
    const int64_t matrices = pattern.different_patterns ? pattern.batch_count : 1;
    const int64_t steps =
        pattern.slots / std::max<int64_t>(matrices, 1) / pattern.block_rows() / step_slots;
    const int64_t wanted = magicube::cuda::multiprocessors(ctx.ordinal) * resident_warps / warps;
    return static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, std::clamp<int64_t>(steps, 1, 64)));
}

class gather_plan final : public stored_plan<operation> {
  public:
    gather_plan(const context& ctx, const sddmm::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)) {
        spmm::cuda::load_prepare_b(ctx, p.a_type);
        spmm::cuda::load_prepare_b(ctx, p.b_type);
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const auto& pattern = stored().view();
        gather_arguments k{};
        k.out = cuda::make_output(ctx, p, pattern, args);
        const dtype operands = place_operands(ctx, args, k);
        const bool kept = k.row_bytes <= kept_segments * segment_bytes;
        const auto& instance = instance_for(operands, sets_for(p, operands), kept);
        k.parts = std::max(1, pattern.vector_length / (8 * instance.sets));
        const int64_t warps = checked_mul(checked_mul(pattern.block_rows(), k.parts, "block rows"),
                                          p.batch_count, "block rows");
        k.ways = ways_for(ctx, pattern, warps);
        k.tasks = checked_mul(warps, k.ways, "tasks");
        k.quads = pattern.stride >= 8;
        const int64_t bytes = storage_bits(p.out_type) / 8;
        k.aligned = k.quads && reinterpret_cast<uintptr_t>(args.values) % (4 * bytes) == 0 &&
                    (pattern.different_patterns || k.out.pattern.values_stride % 4 == 0);
        const int64_t blocks = std::min<int64_t>(ceil_div(k.tasks, block_warps), INT32_MAX);
        device_scope scope(ctx.ordinal);
        check(instance.launch(k, blocks, ctx.stream), "gather_kernel");
    }

  private:
    // Returns the type that the kernels compute with: int4 that had to be copied are int8.
    dtype place_operands(const context& ctx, const arguments& args, gather_arguments& k) const {
        dense_view a = args.a, b = transposed(args.b);
        const int64_t terms = a.cols;
        const bool both = problem().a_type == dtype::int4;
        const bool direct[] = {is_direct(a), is_direct(b)};
        const workspace_layout sections(problem());
        auto* workspace = static_cast<char*>(args.workspace);
        if (terms > 0 && !(direct[0] && (direct[1] || !both)))
            a = spmm::cuda::prepare_b(ctx, a, workspace + sections.a);
        if (terms > 0 && !(direct[1] && (direct[0] || !both)))
            b = spmm::cuda::prepare_b(ctx, b, workspace + sections.b);
        const int bits = storage_bits(a.type);
        k.a = static_cast<const uint8_t*>(a.values);
        k.a_pitch = a.ld * bits / 8;
        k.a_apart = a.batch_stride * bits / 8;
        k.b = static_cast<const uint8_t*>(b.values);
        k.b_pitch = static_cast<uint32_t>(b.ld * bits / 8);
        k.b_apart = b.batch_stride * bits / 8;
        // What a copy adds to a row is 0.
        k.row_bytes = static_cast<int32_t>(round_up(terms * bits / 8, 16));
        return a.type;
    }
};

std::string decline(const context& ctx, const problem& p) {
    if (p.a_type == dtype::fp32) return "it multiplies types of at most 16 bits; this is fp32";
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (capability < 80) return text("it needs an sm_80 GPU; this is sm_", capability);
    if (p.a_type == dtype::e4m3) {
        device_scope scope(ctx.ordinal);
        const auto info = gather_e4m3_1_any.describe();
        check(info.code, "gather_kernel");
        if (info.architecture < 89)
            return text("e4m3 needs sm_89; this library's code for the GPU is sm_",
                        info.architecture);
    }
    if (p.k_max > longest_sum(p.a_type))
        return text("K may be ", p.k_max, "; it takes at most ", longest_sum(p.a_type));
    if (p.pattern.cols > INT32_MAX / 128) {
        return text("N is ", p.pattern.cols, "; it takes at most ", INT32_MAX / 128);
    }
    return "";
}

buffer_needs needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, false).bytes(), workspace_layout(p).bytes};
}

// Rows gathered from L2, values written to memory, and operands copied if they lie across K. From
// the bounds in gather_kernel.cuh; not fitted.
double cost(const context& ctx, const problem& p) {
    constexpr double launch_us = 4, copy_us = 4;
    constexpr double gathered_per_us = 55e3;  // bytes, of a multiprocessor
    constexpr double moved_per_us = 3e6;      // bytes, of the GPU
    const double batch = static_cast<double>(p.batch_count);
    const double slots =
        static_cast<double>(p.pattern.slots) * (p.pattern.different_patterns ? 1 : batch);
    const double row = static_cast<double>(p.k_max) * storage_bits(p.a_type) / 8;
    const double parts = std::max(1, p.pattern.vector_length / (8 * sets_for(p, p.a_type)));
    const double values =
        slots * p.pattern.vector_length * (storage_bits(p.out_type) / 8.0) / moved_per_us;
    const auto copied = [&](bool across, int64_t rows) {
        return across ? copy_us + 2 * static_cast<double>(rows) * row * batch / moved_per_us : 0;
    };
    return launch_us + copied(p.a_order == order::col, p.pattern.rows) +
           copied(p.b_order == order::row, p.pattern.cols) +
           std::max(values, slots * row * parts / gathered_per_us /
                                magicube::cuda::multiprocessors(ctx.ordinal));
}

}  // namespace
}  // namespace sm80

extern const implementation<operation> cuda_sm80_gather;
const implementation<operation> cuda_sm80_gather = {"sm80_gather",
                                                    device_kind::cuda,
                                                    false,
                                                    sm80::decline,
                                                    sm80::cost,
                                                    sm80::needs,
                                                    make_plan<operation, sm80::gather_plan>};

}  // namespace magicube::sddmm
