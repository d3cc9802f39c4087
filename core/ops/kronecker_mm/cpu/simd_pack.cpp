// SPDX-License-Identifier: Apache-2.0
#include "core/ops/kronecker_mm/cpu/simd_pack.hpp"

#include <algorithm>
#include <limits>

#include "core/formats/kronecker/convert.hpp"
#include "core/types/runs.hpp"

namespace magicube::kronecker_mm::cpu {
namespace {

bool features_are_neighbours(batch_layout layout, order storage) {
    return storage == (layout == batch_layout::first ? order::row : order::col);
}

bool features_are_neighbours(const problem& p) {
    return features_are_neighbours(p.layout, p.x_order) &&
           features_are_neighbours(p.layout, p.y_order);
}

// Of one vector through a step, in multiplications: those of its values, with lanes as features
// also of the padding, and as many for each result and operand as storing and loading it costs.
double cost_of(const step& s, bool features) {
    const double results = features ? static_cast<double>(tiles_of(s)) * tile_lanes
                                    : static_cast<double>(s.b) * static_cast<double>(s.d);
    return static_cast<double>(s.a) * results * static_cast<double>(s.c) +
           12 * static_cast<double>(s.rows()) + 4 * static_cast<double>(s.cols());
}

// The chain as groups of neighbours to merge, each [first, last), of least cost in all.
std::vector<step> merged_steps(const problem& p) {
    const auto& view = p.pattern;
    const bool features = features_are_neighbours(p);
    const int64_t count = view.count();
    struct best {
        double cost = std::numeric_limits<double>::infinity();
        int64_t first = 0;
        kronecker_shape shape;
    };
    std::vector<best> ends(static_cast<size_t>(count) + 1);  // of the first so many factors
    ends[0].cost = 0;
    for (int64_t first = 0; first < count; ++first) {
        kronecker_shape product = view.factors[static_cast<size_t>(first)];
        for (int64_t last = first + 1; last <= count; ++last) {
            if (last - first > 1) {
                const auto& next = view.factors[static_cast<size_t>(last - 1)];
                const auto& before = view.factors[static_cast<size_t>(last - 2)];
                if (!pair_of(before, next).chainable) break;
                product = pair_of(product, next).product;
                // Sizes of products may pass 64 bits; such a product costs more than its factors.
                if (static_cast<double>(product.b) * static_cast<double>(product.c) > 1 << 20)
                    break;
            }
            const double cost = ends[static_cast<size_t>(first)].cost +
                                cost_of(step_of(product, first, last, p.transpose), features);
            auto& end = ends[static_cast<size_t>(last)];
            if (cost < end.cost) end = {cost, first, product};
        }
    }
    std::vector<step> steps;
    for (int64_t last = count; last > 0;) {
        const auto& end = ends[static_cast<size_t>(last)];
        steps.push_back(step_of(end.shape, end.first, last, p.transpose));
        last = end.first;
    }
    // Rightmost first, as K applies them.
    if (p.transpose) std::reverse(steps.begin(), steps.end());
    return steps;
}

// Lanes can be features: they are neighbours in memory, and their multipliers can be made of what
// lies there. Even where most lanes are padding that costs less than transposing the vectors.
bool lanes_are_features(const problem& p, const std::vector<step>& steps,
                        const simd_kernels& kernels) {
    return features_are_neighbours(p) &&
           std::all_of(steps.begin(), steps.end(),
                       [&](const step& s) { return kernels.select_multiply(s.d) != nullptr; });
}

int64_t packed_count(const step& s, bool features) {
    if (!features) return s.value_count();
    const char* what = "problem's packed values";
    return checked_mul(checked_mul(s.a * tiles_of(s), s.c, what), tile_lanes, what);
}

// Packs block i of a step: load(index) is a value.
template <class Load>
void pack_columns(const step& s, int64_t i, const Load& load, float* target) {
    for (int64_t l = 0; l < s.d; ++l)
        for (int64_t j = 0; j < s.b; ++j)
            for (int64_t k = 0; k < s.c; ++k) *target++ = load(s.index(i, j, k, l));
}

template <class Load>
void pack_features(const step& s, int64_t i, const Load& load, float* target) {
    const int64_t results = s.b * s.d;
    for (int64_t tile = 0; tile < tiles_of(s); ++tile) {
        for (int64_t k = 0; k < s.c; ++k) {
            for (int64_t lane = 0; lane < tile_lanes; ++lane) {
                const int64_t result = tile * tile_lanes + lane;
                *target++ =
                    result < results ? load(s.index(i, result / s.d, k, result % s.d)) : 0.0f;
            }
        }
    }
}

template <class Load>
void pack_step(const context& ctx, const step& s, bool features, const Load& load, float* target) {
    const int64_t block = packed_count(s, features) / s.a;
    const auto body = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            if (features) {
                pack_features(s, i, load, target + i * block);
            } else {
                pack_columns(s, i, load, target + i * block);
            }
        }
    };
    ctx.parallel(s.a, grain_for(block), body);
}

// The product of factors [first, last) of the chain.
std::vector<double> merge(const kronecker_view& view, const step& s, const void* const* values) {
    const auto load = [&](int64_t i) {
        const auto& factor = view.factors[static_cast<size_t>(i)];
        std::vector<double> loaded(static_cast<size_t>(factor.value_count()));
        load_run(view.type, values[i], 0, factor.value_count(), loaded.data());
        return loaded;
    };
    kronecker_shape shape = view.factors[static_cast<size_t>(s.first)];
    auto product = load(s.first);
    for (int64_t i = s.first + 1; i < s.last; ++i) {
        const auto& factor = view.factors[static_cast<size_t>(i)];
        product = multiply_pair(shape, product.data(), factor, load(i).data());
        shape = pair_of(shape, factor).product;
    }
    return product;
}

}  // namespace

chain_layout::chain_layout(const problem& p, const simd_kernels& kernels)
    : steps(p.values == value_mode::per_call ? steps_of(p.pattern, p.transpose) : merged_steps(p)),
      features(lanes_are_features(p, steps, kernels)) {
    const char* what = "problem's packed values";
    int64_t widest_block = 0, widest_between = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
        offsets.push_back(packed_floats);
        // Each step's on a cache line.
        const int64_t count = checked_add(packed_count(steps[i], features), 15, what) / 16 * 16;
        packed_floats = checked_add(packed_floats, count, what);
        widest_block = std::max(widest_block, steps[i].c);
        if (i > 0) widest_between = std::max(widest_between, steps[i].cols());
    }
    const bool chain = steps.size() > 1;
    const char* scratch = "workspace";
    if (features) {
        tile_width = feature_rows;
        const auto rows_of = [&](int64_t count) {
            return checked_mul(checked_add(count, 2 * tile_lanes, scratch), feature_rows, scratch);
        };
        input_floats = p.pattern.type == dtype::fp32 ? 0 : rows_of(p.k());
        between_floats = chain ? rows_of(widest_between) : 0;
    } else {
        // Two intermediate results of a tile fill half of an L2 cache of 1 MiB.
        constexpr int64_t cached = int64_t{1} << 16;
        const int64_t fitting = cached / std::max<int64_t>(widest_between, 1) / tile_lanes;
        // Vectors whose features are neighbours share no cache line: fewer at a time stay cached.
        const bool by_vector = features_are_neighbours(p.layout, p.x_order) ||
                               features_are_neighbours(p.layout, p.y_order);
        tile_width =
            by_vector ? tile_lanes : std::clamp(fitting * tile_lanes, tile_lanes, widest_columns);
        input_floats = checked_mul(widest_block, tile_lanes, scratch);
        between_floats = checked_mul(widest_between, tile_width, scratch);
    }
    // A part of a chain would need the others' results; converted inputs serve all units.
    const bool whole = chain || (features && input_floats > 0);
    const double unit_work = static_cast<double>(tile_width) * static_cast<double>(steps[0].c) *
                             static_cast<double>(features ? tile_lanes : steps[0].b);
    constexpr double part_work = 1 << 20;
    units_per_part =
        whole ? units(0)
              : std::min<int64_t>(units(0), 1 + static_cast<int64_t>(part_work / unit_work));
}

int64_t chain_layout::units(size_t index) const {
    const auto& s = steps[index];
    return features ? s.a * tiles_of(s) : s.a * s.d;
}

double chain_layout::work() const {
    double sum = 0;
    for (const auto& s : steps) {
        const double outputs = features ? static_cast<double>(tiles_of(s)) * tile_lanes
                                        : static_cast<double>(s.b) * static_cast<double>(s.d);
        sum += static_cast<double>(s.a) * outputs * (static_cast<double>(s.c) + 12);
    }
    return sum;
}

void pack_values(const context& ctx, const problem& p, const chain_layout& layout,
                 const void* const* values, float* target) {
    for (size_t i = 0; i < layout.steps.size(); ++i) {
        const auto& s = layout.steps[i];
        float* to = target + layout.offsets[i];
        if (s.last - s.first > 1) {
            const auto product = merge(p.pattern, s, values);
            pack_step(
                ctx, s, layout.features,
                [&](int64_t at) { return static_cast<float>(product[static_cast<size_t>(at)]); },
                to);
            continue;
        }
        const void* array = values[s.first];
        visit(p.pattern.type, [&](auto type) {
            constexpr dtype T = decltype(type)::value;
            if constexpr (is_floating(T)) {
                pack_step(
                    ctx, s, layout.features,
                    [array](int64_t at) { return static_cast<float>(element<T>::load(array, at)); },
                    to);
            }
        });
    }
}

}  // namespace magicube::kronecker_mm::cpu
