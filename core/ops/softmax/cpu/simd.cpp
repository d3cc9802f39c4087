// SPDX-License-Identifier: Apache-2.0
// Sparse softmax with the processor's SIMD instructions (row_kernels.hpp), chosen at run time.
//
// A task is one block row. Its rows are read in tiles of 4096 slots, as floats on the stack, absent
// elements as -infinity: for the largest x, for the exponentials and their sum, and for the
// results. Almost every row is one tile, which is read once; the longer ones are read three times.
// A tile is read before it is written, so that the output may lie on the scores. Bound: some 20
// operations an element, and memory.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ops/cpu/row_kernels.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/softmax/softmax.hpp"
#include "core/ops/unpack.hpp"

namespace magicube::softmax {
namespace cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

constexpr int64_t tile_slots = 4096;  // a multiple of every stride

// One execution.
struct softmax_job {
    const problem& shape;
    const sr_bcrs_view& pattern;
    const arguments& args;
    const row_kernels& kernels;
    int64_t in_stride;
    int64_t out_stride;
};

// Slots of a block row, and what is computed of one row of them.
struct tile {
    int64_t begin;  // slot
    int64_t count;  // of slots that hold vectors; the pattern's padding may follow
    alignas(64) float x[tile_slots];
    float factors[tile_slots];  // scales of columns
    float addends[tile_slots];

    // In whole groups of floats.
    int64_t groups() const { return round_up(count, row_group_floats); }
};

// One block row of one matrix of the batch.
class block_row {
  public:
    block_row(const softmax_job& job, int64_t batch, int64_t block)
        : job_(job),
          pattern_(job.pattern),
          batch_(batch),
          first_(block * job.pattern.vector_length),
          cols_(read_scales(job.shape.col_scale, job.args.col_scale, batch)) {
        const int64_t index = pattern_.block_row_index(pattern_.matrix_for(batch), block);
        begin_ = pattern_.row_begin[index];
        end_ = pattern_.row_end[index];
    }

    void compute() const {
        tile t;
        for (int64_t v = 0; v < pattern_.vector_length; ++v) {
            if (first_ + v < pattern_.rows) {
                compute_row(t, v);
                continue;
            }
            each_tile(t, [&] {
                std::fill_n(t.x, tile_slots, 0.0f);
                write(t, v);
            });
        }
    }

  private:
    template <class Use>
    void each_tile(tile& t, const Use& use) const {
        for (t.begin = begin_; t.begin < end_; t.begin += tile_slots) {
            t.count = std::min(tile_slots, end_ - t.begin);
            use();
        }
    }

    // Calls use(index in a value array whose matrices are `stride` apart, step, place in the tile,
    // count) for runs of a row's slots.
    template <class Use>
    void each_run(const tile& t, int64_t stride, int64_t v, int64_t count, const Use& use) const {
        const int64_t base = pattern_.different_patterns ? 0 : batch_ * stride;
        if (pattern_.stride == 1) {
            use(base + pattern_.value_index(0, t.begin, v), pattern_.vector_length, 0, count);
            return;
        }
        for (int64_t i = 0; i < count; i += pattern_.stride)
            use(base + pattern_.value_index(0, t.begin + i, v), 1, i,
                std::min<int64_t>(pattern_.stride, count - i));
    }

    void read(const tile& t, dtype type, const void* array, int64_t stride, int64_t v,
              float* to) const {
        each_run(t, stride, v, t.count, [&](int64_t at, int64_t step, int64_t i, int64_t count) {
            if (step == 1) return job_.kernels.load(type, array, at, count, to + i);
            for (int64_t j = 0; j < count; ++j)
                job_.kernels.load(type, array, at + j * step, 1, to + i + j);
        });
    }

    void write(const tile& t, int64_t v) const {
        const dtype type = job_.shape.out_type;
        const int64_t padded = round_up(t.begin + t.count, pattern_.stride) - t.begin;
        each_run(t, job_.out_stride, v, padded,
                 [&](int64_t at, int64_t step, int64_t i, int64_t count) {
                     job_.kernels.store(type, job_.args.out, at, step, count, t.x + i);
                 });
    }

    void read_x(tile& t, int64_t v) const {
        const auto& p = job_.shape;
        const auto rows = read_scales(p.row_scale, job_.args.row_scale, batch_);
        const float factor = mul_rn(read_scalar(job_.args.alpha, 1), rows[first_ + v]);
        read(t, p.in_type, job_.args.scores, job_.in_stride, v, t.x);
        for (int64_t i = 0; cols_.data && i < t.count; ++i)
            t.factors[i] = cols_[pattern_.col_indices[t.begin + i]];
        if (p.bias) read(t, dtype::fp32, job_.args.bias, p.bias_batch_stride, v, t.addends);
        job_.kernels.scale(t.x, t.count, factor, cols_.data ? t.factors : nullptr,
                           p.bias ? t.addends : nullptr, 1);
        for (int64_t i = 0; pattern_.element_mask && i < t.count; ++i)
            if (!pattern_.exists(t.begin + i, v)) t.x[i] = -infinity;
        std::fill(t.x + t.count, t.x + t.groups(), -infinity);
    }

    void compute_row(tile& t, int64_t v) const {
        const dtype out = job_.shape.out_type;
        const auto& kernels = job_.kernels;
        float largest = -infinity;
        bool invalid = false;
        each_tile(t, [&] {
            read_x(t, v);
            const float most = kernels.largest(t.x, t.groups());
            invalid = invalid || std::isnan(most);
            largest = std::max(largest, most);
        });
        if (invalid || largest == -infinity) return write_special(t, v, invalid);
        const bool one = end_ - begin_ <= tile_slots;
        double sum = 0;
        each_tile(t, [&] {
            if (!one) read_x(t, v);
            sum += kernels.exponentials(t.x, t.groups(), largest);
        });
        const double highest = is_floating(out) ? 1 : static_cast<double>(range_of(out).highest);
        const auto factor = static_cast<float>(is_floating(out) ? 1 / sum : highest);
        each_tile(t, [&] {
            if (!one) {
                read_x(t, v);
                kernels.exponentials(t.x, t.groups(), largest);
            }
            kernels.scale(t.x, t.count, factor, nullptr, nullptr, 1);
            clear_padding(t);
            write(t, v);
        });
        write_scale(v, static_cast<float>(1 / sum / highest));
    }

    // A row whose x are all -infinity, or which holds NaN or +infinity.
    void write_special(tile& t, int64_t v, bool invalid) const {
        each_tile(t, [&] {
            std::fill_n(t.x, t.count, 0.0f);
            for (int64_t i = 0; invalid && is_floating(job_.shape.out_type) && i < t.count; ++i)
                if (pattern_.exists(t.begin + i, v)) t.x[i] = nan_value;
            clear_padding(t);
            write(t, v);
        });
        write_scale(v, invalid ? nan_value : 1.0f);
    }

    void clear_padding(tile& t) const {
        const int64_t padded = round_up(t.begin + t.count, pattern_.stride) - t.begin;
        std::fill(t.x + t.count, t.x + padded, 0.0f);
    }

    void write_scale(int64_t v, float scale) const {
        if (is_integer(job_.shape.out_type))
            job_.args.out_scale[batch_ * job_.shape.out_scale_stride() + first_ + v] = scale;
    }

    const softmax_job& job_;
    const sr_bcrs_view& pattern_;
    int64_t batch_;
    int64_t first_;  // row
    scale_reader cols_;
    int64_t begin_;  // slots
    int64_t end_;
};

class simd_plan final : public stored_plan<operation> {
  public:
    simd_plan(const context& ctx, const softmax::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)), kernels_(rows_of(usable_level())) {}

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const auto& pattern = stored().view();
        const softmax_job job{p,
                              pattern,
                              args,
                              kernels_,
                              value_stride(pattern, p.in_batch_stride),
                              value_stride(pattern, p.out_batch_stride)};
        const int64_t rows = pattern.block_rows();
        constexpr int64_t products_per_element = 8;  // what exponentials cost
        const int64_t per_task = pattern.value_count() / rows * products_per_element;
        ctx.parallel(p.batch_count * rows, grain_for(per_task), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) block_row(job, i / rows, i % rows).compute();
        });
    }

  private:
    const row_kernels& kernels_;
};

std::string decline(const context&, const problem&) {
    return {};
}

buffer_needs needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, false).bytes(), 0};
}

double cost(const context& ctx, const problem& p) {
    const double elements_per_us = usable_level() == simd_level::portable ? 60 : 400;
    const int threads =
        ctx.threads > 0 ? std::min(ctx.threads, hardware_threads()) : hardware_threads();
    return 5 + static_cast<double>(p.pattern.value_count()) * static_cast<double>(p.batch_count) /
                   (elements_per_us * threads);
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

}  // namespace magicube::softmax
