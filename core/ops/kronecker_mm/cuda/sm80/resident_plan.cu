// SPDX-License-Identifier: Apache-2.0
// The resident family as an implementation of KroneckerMM: what it accepts, its packing, its
// launches.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

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

step only_step(const problem& p) {
    return steps_of(p.pattern, p.transpose).front();
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

std::optional<resident_choice> choice_for(const context& ctx, const problem& p) {
    const resident_work work{only_step(p), p.pattern.type == dtype::fp32 ? 4 : 8,
                             vectors_are_neighbours(p.layout, p.x_order),
                             static_cast<double>(p.n_max) * static_cast<double>(p.batch_count),
                             p.n_max};
    return choose_shape(work, limits_of(ctx));
}

std::string decline(const context& ctx, const problem& p) {
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (capability < 80) return text("it needs an sm_80 GPU; this is sm_", capability);
    if (!is_floating(p.pattern.type)) return text("it has no kernel for ", name_of(p.pattern.type));
    if (p.pattern.count() > 1)
        return text("K is a chain of ", p.pattern.count(), " factors; it takes one");
    const auto found = choice_for(ctx, p);
    if (!found) return "K is too large for one launch, or X of 8 vectors for shared memory";
    constexpr double most_blocks = INT32_MAX;
    const double tiles = static_cast<double>(p.batch_count) * static_cast<double>(p.n_max);
    if (tiles > most_blocks || static_cast<double>(found->shape.parts()) * 1024 > most_blocks)
        return "there are too many blocks for one launch";
    return "";
}

buffer_needs needs(const context& ctx, const problem& p) {
    const int64_t bytes = packed_bytes(choice_for(ctx, p)->shape);
    return p.values == value_mode::per_call ? buffer_needs{0, bytes} : buffer_needs{bytes, 0};
}

class resident_plan final : public plan {
  public:
    resident_plan(const context& ctx, const kronecker_mm::problem& p, plan_resources resources)
        : plan(ctx, p, std::move(resources)),
          step_(only_step(p)),
          limits_(limits_of(ctx)),
          shape_(choice_for(ctx, p)->shape),
          instance_(instance_for(p.pattern.type, shape_)) {
        device_scope scope(ctx.ordinal);
        check(instance_.load(static_cast<int>(limits_.shared_bytes)), "resident_kernel");
        check(load_pack_values(shape_), "values_kernel");
        if (p.values == value_mode::per_call) return;
        resident_plan::pack_values(ctx, value_arrays(p).data());
        synchronize(ctx);  // K's arrays may be freed then
    }

    void pack_values(const context& ctx, const void* const* values) override {
        pack(ctx, values[0], resources().buffer.data());
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const void* packed = resources().buffer.data();
        if (p.values == value_mode::per_call) {
            cuda::require_values_on_device(ctx, p, args.k_values);
            pack(ctx, args.k_values[0], args.workspace);
            packed = args.workspace;
        }
        const auto x = as_columns(args.x, p.layout);
        resident_arguments k{};
        k.shape = shape_;
        k.w = static_cast<const uint4*>(packed);
        k.x = x.values;
        k.x_feature_stride = x.storage == order::row ? x.ld : 1;
        k.x_vector_stride = x.storage == order::row ? 1 : x.ld;
        k.x_batch_stride = x.batch_stride;
        k.vectors = x.cols;
        k.row_tiles = ceil_div(x.cols, int64_t{shape_.rows});
        k.tiles = k.row_tiles * p.batch_count;
        k.store = cuda::make_store(ctx, p, args);
        set_paths(x, k);
        const dim3 grid(
            static_cast<unsigned>(shape_.parts() * walkers_of(shape_, k.tiles, limits_)));
        device_scope scope(ctx.ordinal);
        check(instance_.launch(k, grid, ctx.stream), "resident_kernel");
    }

  private:
    void set_paths(const dense_view& x, resident_arguments& k) const {
        const auto& p = problem();
        const auto& s = k.store;
        const int kind = shape_.kind, unit = shape_.unit;
        // Batch first: whether units of a block's features start at multiples of 16 bytes.
        const auto in_units = [&](int64_t features) {
            return kind == 0 || kind == unit || (shape_.d == kind && features * kind % unit == 0);
        };
        k.x_units = reinterpret_cast<uintptr_t>(x.values) % 16 == 0 && x.ld % unit == 0 &&
                    x.batch_stride % unit == 0 && in_units(shape_.c);
        k.y_units =
            s.aligned && (kind == 0 ? s.col_stride : s.row_stride) == 1 && in_units(shape_.b);
        k.scaled = !s.direct || s.alpha_pointer || p.k_scale.present() || p.x_scale.present() ||
                   p.bias.present() || p.y_type != p.pattern.type;
    }

    void pack(const context& ctx, const void* values, void* target) const {
        device_scope scope(ctx.ordinal);
        check(sm80::pack_values(shape_, step_, values, target, ctx.stream), "values_kernel");
    }

    step step_;
    resident_limits limits_;
    resident_shape shape_;
    const resident_instance& instance_;
};

double cost(const context& ctx, const problem& p) {
    return choice_for(ctx, p)->us;
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
