// SPDX-License-Identifier: Apache-2.0
// KroneckerMM with the processor's SIMD instructions (simd_kernels.hpp), chosen at run time.
//
// A task takes a tile of vectors through the whole chain (simd_pack.hpp), so that what lies between
// the factors stays in the L2 cache: X is read once and Y written once. Of a single factor a task
// is some blocks of a tile. Where a vector's features are neighbours in memory (batch first) lanes
// are features, read and written in place; else lanes are vectors, and a block's inputs are packed
// into a panel. One residue l of d is one product of b x c, so that d > 1 needs no permutation:
// with lanes as features, inputs of d residues are multipliers that repeat.
// Sums are formed in fp32 by fma, in the order of k; between factors results are fp32.
#include "core/ops/kronecker_mm/cpu/simd_pack.hpp"
#include "core/ops/kronecker_mm/cpu/tiles.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"

namespace magicube::kronecker_mm {
namespace cpu {
namespace {

constexpr int64_t largest_slot = int64_t{64} << 20;

// One execution.
struct execution {
    const chain_layout& layout;
    const simd_kernels& kernels;
    const float* packed;
    dense_view x;  // features x vectors
    dense_view y;
    const problem& shape;
    const arguments& args;
    load_function load;
    finish_function finish;
};

// What of a tile one task computes: of a chain all, of one factor some of its units.
struct task_state {
    int64_t batch;
    int64_t col;    // first vector
    int64_t count;  // of them
    int64_t first_unit;
    int64_t last_unit;
    float* input;
    float* from;
    float* to;
    epilogue after;
    bool direct;  // sums are results: they need no epilogue, and a row of 64 is stored as it is
};

row_finish finish_of(const epilogue& after, const float* scale, const float* bias) {
    return {scale, bias, after.beta, after.function, after.reciprocal};
}

float* floats_of(const dense_view& view, int64_t index) {
    return static_cast<float*>(view.values) + index;
}

// GCC takes a function that only prefetches for one without effect and drops its calls.
#define MAGICUBE_INLINE inline __attribute__((always_inline))

// Asks for `count` neighbouring elements, which will be read or written soon.
template <int Write>
MAGICUBE_INLINE void prefetch(const dense_view& view, int64_t index, int64_t count) {
    const auto* at = static_cast<const char*>(view.values) + storage_bytes(view.type, index);
    const int64_t bytes = storage_bytes(view.type, count);
    for (int64_t line = 0; line < bytes; line += 64) __builtin_prefetch(at + line, Write);
}

// ---- lanes are vectors: a unit is residue l of block i ------------------------------------------

// Inputs of 64 vectors, from `col` of the tile on, as a panel [k][64].
const float* input_panel(const execution& e, const task_state& t, const step& s, bool first,
                         int64_t unit, int64_t col) {
    const int64_t start = unit / s.d * s.c * s.d + unit % s.d;  // feature of k = 0
    const float* from = t.from + col * s.cols() + start * tile_lanes;
    if (!first && s.d == 1) return from;
    if (!first) {
        for (int64_t k = 0; k < s.c; ++k)
            std::copy_n(from + k * s.d * tile_lanes, tile_lanes, t.input + k * tile_lanes);
        return t.input;
    }
    const bool by_row = e.x.storage == order::row;
    const int64_t vectors = std::min(tile_lanes, t.count - col);
    const int64_t feature_step = (by_row ? e.x.ld : 1) * s.d;
    strided_run run{e.x.values, e.x.index(t.batch, start, t.col + col), by_row ? 1 : e.x.ld,
                    vectors};
    for (int64_t k = 0; k < s.c; ++k, run.index += feature_step)
        e.load(run, t.input + k * tile_lanes);
    return t.input;
}

void finish_columns(const execution& e, const task_state& t, int64_t feature, int64_t col,
                    const float* sums) {
    alignas(64) float scale[tile_lanes], bias[tile_lanes];
    const int64_t vectors = std::min(tile_lanes, t.count - col);
    const float row_scale = mul_rn(t.after.alpha, t.after.a_scale[feature]);
    std::fill_n(scale, tile_lanes, row_scale);
    for (int64_t n = 0; t.after.b_scale.data && n < vectors; ++n)
        scale[n] = mul_rn(row_scale, t.after.b_scale[t.col + col + n]);
    std::fill_n(bias, tile_lanes, t.after.bias[feature]);
    e.finish(finish_of(t.after, scale, bias), sums,
             {e.y.values, e.y.index(t.batch, feature, t.col + col),
              e.y.storage == order::row ? 1 : e.y.ld, vectors});
}

// Asks for the inputs [first, last) of the panel after this one, a few while each block of rows is
// multiplied, so that the loads do not wait for one another.
struct next_panel {
    const dense_view* x = nullptr;  // null: there is none, or a vector's features are neighbours
    int64_t index = 0;              // of k = 0
    int64_t feature_step = 0;

    next_panel(const execution& e, const task_state& t, const step& s, int64_t unit, int64_t col) {
        if (e.x.storage != order::row) return;
        col += tile_lanes;
        if (col >= t.count) {
            col = 0;
            ++unit;
        }
        if (unit >= t.last_unit || col + tile_lanes > t.count) return;
        x = &e.x;
        index = e.x.index(t.batch, unit / s.d * s.c * s.d + unit % s.d, t.col + col);
        feature_step = e.x.ld * s.d;
    }

    MAGICUBE_INLINE void ask(int64_t first, int64_t last) const {
        for (int64_t k = first; x && k < last; ++k)
            prefetch<0>(*x, index + k * feature_step, tile_lanes);
    }
};

// One unit for 64 vectors.
void multiply_columns(const execution& e, const task_state& t, size_t index, int64_t unit,
                      int64_t col) {
    const auto& s = e.layout.steps[index];
    const bool last = index + 1 == e.layout.steps.size();
    const bool direct = last && t.direct && col + tile_lanes <= t.count;
    const auto multiply = e.kernels.select_multiply(1);
    alignas(64) float sums[block_rows * tile_lanes];
    block_product p;
    p.row_step = p.terms = s.c;
    p.rows = e.packed + e.layout.offsets[index] + unit * s.b * s.c;
    p.panel = input_panel(e, t, s, index == 0, unit, col);
    int64_t feature = unit / s.d * s.b * s.d + unit % s.d;
    const next_panel next(e, t, s, unit, col);
    for (int64_t j = 0; j < s.b; j += block_rows) {
        const int64_t rows = std::min(block_rows, s.b - j);
        if (index == 0) next.ask(s.c * j / s.b, s.c * (j + rows) / s.b);
        if (direct) {
            p.sums = floats_of(e.y, e.y.index(t.batch, feature, t.col + col));
            p.sums_step = s.d * e.y.ld;
            // Of the next block of rows, in time for it.
            for (int64_t r = block_rows; r < std::min(2 * block_rows, s.b - j); ++r)
                prefetch<1>(e.y, e.y.index(t.batch, feature + r * s.d, t.col + col), tile_lanes);
        } else if (last) {
            p.sums = sums;
        } else {
            p.sums = t.to + col * s.rows() + feature * tile_lanes;
            p.sums_step = s.d * tile_lanes;
        }
        multiply(p, rows);
        for (int64_t r = 0; last && !direct && r < rows; ++r)
            finish_columns(e, t, feature + r * s.d, col, sums + r * tile_lanes);
        p.rows += rows * s.c;
        feature += rows * s.d;
    }
}

void run_columns(const execution& e, task_state& t) {
    for (size_t i = 0; i < e.layout.steps.size(); ++i) {
        for (int64_t unit = t.first_unit; unit < t.last_unit; ++unit)
            for (int64_t col = 0; col < t.count; col += tile_lanes)
                multiply_columns(e, t, i, unit, col);
        std::swap(t.from, t.to);
        if (i + 1 < e.layout.steps.size()) t.last_unit = e.layout.units(i + 1);
    }
}

// ---- lanes are features: a unit is 64 neighbouring results of block i ---------------------------

// Vectors as fp32, and the distance between them.
struct vector_rows {
    const float* data;
    int64_t pitch;
};

vector_rows input_rows(const execution& e, const task_state& t) {
    const int64_t features = e.x.rows;
    const int64_t start = e.x.index(t.batch, 0, t.col);
    if (e.x.type == dtype::fp32) return {floats_of(e.x, start), e.x.ld};
    const int64_t pitch = chain_layout::row_pitch(features);
    for (int64_t n = 0; n < t.count; ++n) {
        for (int64_t f = 0; f < features; f += tile_lanes) {
            e.load({e.x.values, start + n * e.x.ld + f, 1, std::min(tile_lanes, features - f)},
                   t.input + n * pitch + f);
        }
    }
    return {t.input, pitch};
}

// Vectors [n, n + rows) of the tile; sums are rows of 64.
void finish_features(const execution& e, const task_state& t, int64_t feature, int64_t features,
                     int64_t n, int64_t rows, const float* sums) {
    alignas(64) float row_scale[tile_lanes] = {}, bias[tile_lanes] = {}, scale[tile_lanes];
    for (int64_t f = 0; f < features; ++f) {
        row_scale[f] = mul_rn(t.after.alpha, t.after.a_scale[feature + f]);
        bias[f] = t.after.bias[feature + f];
    }
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t vector = t.col + n + r;
        const float x_scale = t.after.b_scale[vector];
        for (int64_t f = 0; f < tile_lanes; ++f) scale[f] = mul_rn(row_scale[f], x_scale);
        e.finish(finish_of(t.after, scale, bias), sums + r * tile_lanes,
                 {e.y.values, e.y.index(t.batch, feature, vector), 1, features});
    }
}

// One unit for up to six vectors.
void multiply_features(const execution& e, const task_state& t, size_t index, int64_t unit,
                       int64_t n, const vector_rows& x) {
    const auto& s = e.layout.steps[index];
    const bool last = index + 1 == e.layout.steps.size();
    const int64_t results = s.b * s.d, tiles = tiles_of(s);
    const int64_t i = unit / tiles, at = unit % tiles * tile_lanes;
    const int64_t feature = i * results + at;
    const int64_t features = std::min(tile_lanes, results - at);
    const int64_t rows = std::min(block_rows, t.count - n);
    alignas(64) float sums[block_rows * tile_lanes];
    block_product p;
    p.panel = e.packed + e.layout.offsets[index] + unit * s.c * tile_lanes;
    p.rows = x.data + n * x.pitch + i * s.c * s.d;
    p.row_step = x.pitch;
    p.k_step = p.period = s.d;
    p.terms = s.c;
    p.offset = at % s.d;
    const bool direct = last && t.direct && features == tile_lanes;
    if (direct) {
        p.sums = floats_of(e.y, e.y.index(t.batch, feature, t.col + n));
        p.sums_step = e.y.ld;
    } else if (last) {
        p.sums = sums;
    } else {
        // Padding that passes a block's end is overwritten by the next block.
        p.sums_step = chain_layout::row_pitch(s.rows());
        p.sums = t.to + n * p.sums_step + feature;
    }
    for (int64_t r = 0; last && r < rows; ++r)
        prefetch<1>(e.y, e.y.index(t.batch, feature, t.col + n + r), features);
    e.kernels.select_multiply(s.d)(p, rows);
    if (!last || direct) return;
    if (!t.direct) return finish_features(e, t, feature, features, n, rows, sums);
    for (int64_t r = 0; r < rows; ++r) {
        std::copy_n(sums + r * tile_lanes, features,
                    floats_of(e.y, e.y.index(t.batch, feature, t.col + n + r)));
    }
}

// Units [first, last) of one block for all vectors. What a unit reads of the vectors, c * d floats
// of each, or its panel, c * 64 for six of them, is read from the L2 cache again and again: the
// vectors where d is small.
void multiply_block_features(const execution& e, const task_state& t, size_t index, int64_t first,
                             int64_t last, const vector_rows& x) {
    if (e.layout.steps[index].d >= 8) {
        for (int64_t n = 0; n < t.count; n += block_rows)
            for (int64_t unit = first; unit < last; ++unit)
                multiply_features(e, t, index, unit, n, x);
        return;
    }
    for (int64_t unit = first; unit < last; ++unit)
        for (int64_t n = 0; n < t.count; n += block_rows)
            multiply_features(e, t, index, unit, n, x);
}

void run_features(const execution& e, task_state& t) {
    auto x = input_rows(e, t);
    for (size_t i = 0; i < e.layout.steps.size(); ++i) {
        const auto& s = e.layout.steps[i];
        const int64_t tiles = tiles_of(s);
        for (int64_t unit = t.first_unit; unit < t.last_unit;) {
            const int64_t last = std::min(t.last_unit, round_up(unit + 1, tiles));
            multiply_block_features(e, t, i, unit, last, x);
            unit = last;
        }
        x = {t.to, chain_layout::row_pitch(s.rows())};
        std::swap(t.from, t.to);
        if (i + 1 < e.layout.steps.size()) t.last_unit = e.layout.units(i + 1);
    }
}

bool needs_no_epilogue(const problem& p, const epilogue& after, const dense_view& y,
                       bool features) {
    return y.type == dtype::fp32 && y.storage == (features ? order::col : order::row) &&
           after.alpha == 1 && after.beta == 0 && !p.k_scale.present() && !p.x_scale.present() &&
           !p.bias.present() && p.function == activation::none;
}

void run_task(const execution& e, int64_t task, float* scratch) {
    const auto& layout = e.layout;
    const int64_t tiles = ceil_div(e.y.cols, layout.tile_width);
    const int64_t parts = layout.parts(), units = layout.units(0);
    const int64_t tile = task / parts % tiles;
    task_state t{};
    t.batch = task / parts / tiles;
    t.col = tile * layout.tile_width;
    t.count = std::min(layout.tile_width, e.y.cols - t.col);
    t.first_unit = task % parts * layout.units_per_part;
    t.last_unit = std::min(t.first_unit + layout.units_per_part, units);
    t.input = scratch;
    t.from = scratch + layout.input_floats;
    t.to = t.from + layout.between_floats;
    t.after = read_epilogue(e.shape, e.args, t.batch);
    t.direct = needs_no_epilogue(e.shape, t.after, e.y, layout.features);
    if (layout.features) {
        run_features(e, t);
    } else {
        run_columns(e, t);
    }
}

// ---- the plan -----------------------------------------------------------------------------------

// Sections of the workspace.
struct sections {
    int64_t packed;  // values of this call
    int64_t scratch;
    int64_t slot_bytes;
    int64_t slots;
    int64_t bytes;

    sections(const problem& p, const chain_layout& layout) {
        buffer_layout work;
        const bool per_call = p.values == value_mode::per_call;
        packed = work.reserve(per_call ? layout.packed_floats : 0, sizeof(float),
                              "problem's packed values");
        slots = slot_count(p, layout.tile_width, layout.parts());
        const int64_t floats = checked_add(
            layout.input_floats, checked_mul(layout.between_floats, 2, "workspace"), "workspace");
        slot_bytes = checked_add(checked_mul(floats, sizeof(float), "workspace"),
                                 buffer_alignment - 1, "workspace") /
                     buffer_alignment * buffer_alignment;
        scratch = work.reserve(slots, slot_bytes, "workspace");
        bytes = work.bytes();
    }
};

class simd_plan final : public plan {
  public:
    simd_plan(const context& ctx, const kronecker_mm::problem& p, plan_resources resources)
        : plan(ctx, p, std::move(resources)),
          kernels_(kernels_of(usable_level())),
          layout_(p, kernels_),
          sections_(p, layout_) {
        if (p.values == value_mode::per_call) return;
        std::vector<const void*> values;
        for (const auto& factor : p.pattern.factors) values.push_back(factor.values);
        simd_plan::pack_values(ctx, values.data());
    }

    void pack_values(const context& ctx, const void* const* values) override {
        cpu::pack_values(ctx, problem(), layout_, values,
                         reinterpret_cast<float*>(resources().buffer.data()));
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        auto* work = static_cast<char*>(args.workspace);
        const auto* packed = reinterpret_cast<const float*>(resources().buffer.data());
        if (p.values == value_mode::per_call) {
            auto* target = reinterpret_cast<float*>(work + sections_.packed);
            cpu::pack_values(ctx, p, layout_, args.k_values, target);
            packed = target;
        }
        const execution e{layout_,
                          kernels_,
                          packed,
                          as_columns(args.x, p.layout),
                          as_columns(args.y, p.layout),
                          p,
                          args,
                          kernels_.select_load(p.pattern.type),
                          kernels_.select_finish(p.y_type)};
        const int64_t tasks =
            ceil_div(e.y.cols, layout_.tile_width) * p.batch_count * layout_.parts();
        char* scratch = work ? work + sections_.scratch : nullptr;
        for_each_task(ctx, tasks, sections_.slots, [&](int64_t slot, int64_t task) {
            char* area = scratch ? scratch + slot * sections_.slot_bytes : nullptr;
            run_task(e, task, reinterpret_cast<float*>(area));
        });
    }

  private:
    const simd_kernels& kernels_;
    chain_layout layout_;
    sections sections_;
};

std::string decline(const context&, const problem& p) {
    if (!is_floating(p.pattern.type))
        return text("computes in floating point; K is ", name_of(p.pattern.type));
    const chain_layout layout(p, kernels_of(usable_level()));
    const sections parts(p, layout);
    if (parts.slot_bytes <= largest_slot) return {};
    return text("the intermediate results of ", layout.tile_width, " vectors take ",
                parts.slot_bytes, " bytes, more than ", largest_slot);
}

buffer_needs needs(const context&, const problem& p) {
    const chain_layout layout(p, kernels_of(usable_level()));
    const bool per_call = p.values == value_mode::per_call;
    return {per_call ? 0 : checked_mul(layout.packed_floats, sizeof(float), "plan buffer"),
            sections(p, layout).bytes};
}

double cost(const context& ctx, const problem& p) {
    const auto level = usable_level();
    const chain_layout layout(p, kernels_of(level));
    // A core of a server of 2023.
    const double products_per_us = level == simd_level::portable ? 5e3
                                   : level == simd_level::avx2   ? 26e3
                                                                 : 40e3;
    const int threads =
        ctx.threads > 0 ? std::min(ctx.threads, hardware_threads()) : hardware_threads();
    const double vectors = static_cast<double>(ceil_div(p.n_max, layout.tile_width)) *
                           static_cast<double>(layout.tile_width) *
                           static_cast<double>(p.batch_count);
    return 5 + layout.work() * vectors / (products_per_us * threads);
}

}  // namespace
}  // namespace cpu

extern const implementation<operation> cpu_simd;
const implementation<operation> cpu_simd = {"simd",
                                            device_kind::cpu,
                                            false,
                                            cpu::decline,
                                            cpu::cost,
                                            cpu::needs,
                                            make_plan<operation, cpu::simd_plan>};

}  // namespace magicube::kronecker_mm
