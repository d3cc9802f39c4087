// SPDX-License-Identifier: Apache-2.0
// The resident family as an implementation of KroneckerMM: what it accepts, its packing, its
// launches.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/device/device.hpp"
#include "core/ops/kronecker_mm/cuda/arguments.hpp"
#include "core/ops/kronecker_mm/cuda/sm80/resident_launch.hpp"
#include "core/ops/kronecker_mm/cuda/sm80/resident_pack.hpp"
#include "core/ops/kronecker_mm/stored_factors.hpp"
#include "core/ops/make_plan.hpp"

namespace magicube::kronecker_mm {
namespace sm80 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;

const resident_instance& instance_for(dtype type, const resident_shape& shape) {
    const bool floats = type == dtype::fp32;
    const auto* all = floats ? resident_fp32 : type == dtype::fp16 ? resident_fp16 : resident_bf16;
    const int count = floats ? resident_float_instances : resident_instances;
    return *std::find_if(all, all + count, [&](const auto& instance) {
        return instance.kind == shape.kind && instance.high == shape.high &&
               instance.wide == shape.wide && instance.w_is_shared == (shape.w_bytes > 0);
    });
}

// Whether vectors, not features, are neighbours in memory.
bool vectors_are_neighbours(batch_layout layout, order storage) {
    return (layout == batch_layout::last) == (storage == order::row);
}

int attribute(const context& ctx, cudaDeviceAttr name) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, name, ctx.ordinal), "cudaDeviceGetAttribute");
    return value;
}

resident_limits limits_of(const context& ctx) {
    return {attribute(ctx, cudaDevAttrMaxSharedMemoryPerBlockOptin),
            attribute(ctx, cudaDevAttrMaxSharedMemoryPerMultiprocessor),
            magicube::cuda::multiprocessors(ctx.ordinal)};
}

// A factor of the chain, in the order of application.
struct stage {
    step factor;
    resident_choice choice;
    int64_t packed;  // where its values lie in those of all
};

// Empty if a factor has no division that fits.
std::vector<stage> stages_of(const context& ctx, const problem& p) {
    const auto limits = limits_of(ctx);
    std::vector<stage> stages;
    buffer_layout packed;
    for (const auto& factor : steps_of(p.pattern, p.transpose)) {
        const resident_work work{factor, p.pattern.type == dtype::fp32 ? 4 : 8,
                                 vectors_are_neighbours(p.layout, p.x_order),
                                 static_cast<double>(p.n_max) * static_cast<double>(p.batch_count),
                                 p.n_max};
        const auto choice = choose_shape(work, limits);
        if (!choice) return {};
        stages.push_back(
            {factor, *choice, packed.reserve(packed_bytes(choice->shape), 1, "the packed K")});
    }
    return stages;
}

std::string decline(const context& ctx, const problem& p) {
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (capability < 80) return text("it needs an sm_80 GPU; this is sm_", capability);
    if (!is_floating(p.pattern.type)) return text("it has no kernel for ", name_of(p.pattern.type));
    if (p.pattern.count() > 1 && p.pattern.type != dtype::fp32)
        return text("K is a chain of ", p.pattern.count(), " factors of ", name_of(p.pattern.type),
                    "; it takes one, or a chain of fp32");
    constexpr double most_blocks = INT32_MAX;
    if (static_cast<double>(p.batch_count) * static_cast<double>(p.n_max) > most_blocks)
        return "there are too many vectors for one launch";
    const auto stages = stages_of(ctx, p);
    if (stages.empty()) return "K is too large for one launch, or X of 8 vectors for shared memory";
    for (const auto& stage : stages)
        if (static_cast<double>(stage.choice.shape.parts()) * 1024 > most_blocks)
            return "there are too many blocks for one launch";
    return "";
}

// Sections of the plan's buffer and of the workspace: results that pass on, of even and of odd
// factors, then the values of a call.
struct sections {
    int64_t packed_bytes = 0;
    int64_t between[2];
    int64_t call_values;
    int64_t workspace_bytes;

    sections(const problem& p, const std::vector<stage>& stages) {
        int64_t lengths[2] = {0, 0};
        for (size_t i = 0; i + 1 < stages.size(); ++i) {
            const int64_t length = between_matrix(p, stages[i].factor.rows(), p.n_max).batch_stride;
            lengths[i % 2] =
                std::max(lengths[i % 2], checked_mul(length, p.batch_count, "workspace"));
        }
        const auto& last = stages.back();
        packed_bytes =
            checked_add(last.packed, sm80::packed_bytes(last.choice.shape), "the packed K");
        buffer_layout work;
        for (int i = 0; i < 2; ++i)
            between[i] = work.reserve(lengths[i], sizeof(float), "workspace");
        const bool per_call = p.values == value_mode::per_call;
        call_values = work.reserve(per_call ? packed_bytes : 0, 1, "workspace");
        workspace_bytes = work.bytes();
    }

    // What passes on, features x vectors, in lines of whole units that run as those of X.
    static dense_view between_matrix(const problem& p, int64_t features, int64_t vectors) {
        const bool by_vectors = vectors_are_neighbours(p.layout, p.x_order);
        dense_view view;
        view.rows = features;
        view.cols = vectors;
        view.storage = by_vectors ? order::row : order::col;
        view.ld = checked_add(view.inner(), 3, "workspace") / 4 * 4;
        view.batch_count = p.batch_count;
        view.batch_stride = checked_mul(view.ld, view.outer(), "workspace");
        return view;
    }
};

buffer_needs needs(const context& ctx, const problem& p) {
    const sections at(p, stages_of(ctx, p));
    const bool per_call = p.values == value_mode::per_call;
    return {per_call ? 0 : at.packed_bytes, at.workspace_bytes};
}

class resident_plan final : public plan {
  public:
    resident_plan(const context& ctx, const kronecker_mm::problem& p, plan_resources resources)
        : plan(ctx, p, std::move(resources)),
          limits_(limits_of(ctx)),
          stages_(stages_of(ctx, p)),
          sections_(p, stages_) {
        device_scope scope(ctx.ordinal);
        for (const auto& stage : stages_) {
            const auto& instance = instance_for(p.pattern.type, stage.choice.shape);
            check(instance.load(static_cast<int>(limits_.shared_bytes)), "resident_kernel");
            check(load_pack_values(stage.choice.shape), "values_kernel");
        }
        if (p.values == value_mode::per_call) return;
        resident_plan::pack_values(ctx, value_arrays(p).data());
        synchronize(ctx);  // K's arrays may be freed then
    }

    void pack_values(const context& ctx, const void* const* values) override {
        pack(ctx, values, resources().buffer.data());
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        auto* work = static_cast<char*>(args.workspace);
        const char* packed = resources().buffer.data();
        if (p.values == value_mode::per_call) {
            cuda::require_values_on_device(ctx, p, args.k_values);
            pack(ctx, args.k_values, work + sections_.call_values);
            packed = work + sections_.call_values;
        }
        const auto final_store = cuda::make_store(ctx, p, args);
        auto x = as_columns(args.x, p.layout);
        for (size_t i = 0; i < stages_.size(); ++i) {
            const auto& stage = stages_[i];
            if (i + 1 == stages_.size()) {
                launch(ctx, stage, packed, x, final_store, true);
                break;
            }
            auto y = sections::between_matrix(p, stage.factor.rows(), x.cols);
            y.values = work + sections_.between[i % 2];
            launch(ctx, stage, packed, x, plain_store(y), false);
            x = y;
        }
    }

  private:
    // Of sums as they are.
    static spmm::cuda::store_arguments plain_store(const dense_view& y) {
        spmm::cuda::store_arguments s{};
        s.c = y.values;
        s.type = y.type;
        s.row_stride = y.storage == order::row ? y.ld : 1;
        s.col_stride = y.storage == order::row ? 1 : y.ld;
        s.batch_stride = y.batch_stride;
        s.rows = y.rows;
        s.cols = y.cols;
        s.aligned = s.direct = true;
        s.alpha = 1;
        s.a_scale = s.b_scale = s.c_scale = {nullptr, 0, 0, 1};
        s.bias = {nullptr, 0, 0, 0};
        s.function = activation::none;
        return s;
    }

    void launch(const context& ctx, const stage& stage, const char* packed, const dense_view& x,
                const spmm::cuda::store_arguments& store, bool last) const {
        const auto& p = problem();
        const auto& shape = stage.choice.shape;
        resident_arguments k{};
        k.shape = shape;
        k.w = reinterpret_cast<const uint4*>(packed + stage.packed);
        k.x = x.values;
        k.x_feature_stride = x.storage == order::row ? x.ld : 1;
        k.x_vector_stride = x.storage == order::row ? 1 : x.ld;
        k.x_batch_stride = x.batch_stride;
        k.vectors = x.cols;
        k.row_tiles = ceil_div(x.cols, int64_t{shape.rows});
        k.tiles = k.row_tiles * p.batch_count;
        k.store = store;
        // Batch first: whether units of a block's features start at multiples of 16 bytes.
        const auto in_units = [&](int64_t features) {
            return shape.kind == 0 || shape.kind == shape.unit ||
                   (shape.d == shape.kind && features * shape.kind % shape.unit == 0);
        };
        k.x_units = reinterpret_cast<uintptr_t>(x.values) % 16 == 0 && x.ld % shape.unit == 0 &&
                    x.batch_stride % shape.unit == 0 && in_units(shape.c);
        k.y_units = store.aligned && (shape.kind == 0 ? store.col_stride : store.row_stride) == 1 &&
                    in_units(shape.b);
        k.scaled = last && (!store.direct || store.alpha_pointer || p.k_scale.present() ||
                            p.x_scale.present() || p.bias.present() || p.y_type != p.pattern.type);
        const dim3 grid(static_cast<unsigned>(shape.parts() * walkers_of(shape, k.tiles, limits_)));
        device_scope scope(ctx.ordinal);
        check(instance_for(p.pattern.type, shape).launch(k, grid, ctx.stream), "resident_kernel");
    }

    void pack(const context& ctx, const void* const* values, char* target) const {
        device_scope scope(ctx.ordinal);
        for (const auto& stage : stages_) {
            check(sm80::pack_values(stage.choice.shape, stage.factor, values[stage.factor.first],
                                    target + stage.packed, ctx.stream),
                  "values_kernel");
        }
    }

    resident_limits limits_;
    std::vector<stage> stages_;
    sections sections_;
};

double cost(const context& ctx, const problem& p) {
    double us = 0;
    for (const auto& stage : stages_of(ctx, p)) us += stage.choice.us;
    return us;
}

}  // namespace
}  // namespace sm80

extern const implementation<operation> cuda_sm80_resident;
const implementation<operation> cuda_sm80_resident = {"sm80_resident",
                                                      device_kind::cuda,
                                                      false,
                                                      sm80::decline,
                                                      sm80::cost,
                                                      sm80::needs,
                                                      make_plan<operation, sm80::resident_plan>};

}  // namespace magicube::kronecker_mm
