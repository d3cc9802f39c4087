// SPDX-License-Identifier: Apache-2.0
// Sparse softmax as its definition reads, for every problem: the oracle of the other
// implementations. A task is one block row. Each of its rows is read three times, for the largest
// x, for the sum of exponentials (in double) and for the result, so that no scratch is needed and
// the output may lie on the scores.
#include <limits>

#include "core/ops/reference.hpp"
#include "core/ops/softmax/probability.hpp"
#include "core/ops/softmax/softmax.hpp"
#include "core/ops/unpack.hpp"

namespace magicube::softmax {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// One execution.
struct softmax_job {
    const problem& shape;
    const sr_bcrs_view& pattern;
    const arguments& args;
    void (*task)(const softmax_job&, int64_t batch, int64_t block_row);
};

// One row of a matrix of the batch.
struct row_range {
    int64_t batch;
    int64_t row;
    int64_t v;
    int64_t begin;  // slots
    int64_t end;
    bool inside;  // not past the matrix's last row
};

// Index of an element in a value array whose matrices are `stride` apart.
int64_t value_at(const softmax_job& job, int64_t stride, const row_range& r, int64_t slot) {
    return (job.pattern.different_patterns ? 0 : r.batch * stride) +
           job.pattern.value_index(0, slot, r.v);
}

template <class Visitor>
void each_element(const softmax_job& job, const row_range& r, Visitor&& visitor) {
    if (!r.inside) return;
    for (int64_t slot = r.begin; slot < r.end; ++slot)
        if (job.pattern.exists(slot, r.v)) visitor(slot);
}

// x of a row's elements.
template <dtype In>
class row_reader {
  public:
    row_reader(const softmax_job& job, const row_range& r)
        : job_(job),
          r_(r),
          stride_(value_stride(job.pattern, job.shape.in_batch_stride)),
          cols_(read_scales(job.shape.col_scale, job.args.col_scale, r.batch)),
          factor_(read_scalar(job.args.alpha, 1)) {
        if (r.inside) {
            const auto rows = read_scales(job.shape.row_scale, job.args.row_scale, r.batch);
            factor_ = mul_rn(factor_, rows[r.row]);
        }
    }

    float operator()(int64_t slot) const {
        const auto score = static_cast<float>(
            element<In>::load(job_.args.scores, value_at(job_, stride_, r_, slot)));
        float bias = 0;
        if (job_.shape.bias) {
            bias = job_.args.bias[value_at(job_, job_.shape.bias_batch_stride, r_, slot)];
        }
        return scaled_score(factor_, cols_[job_.pattern.col_indices[slot]], score, bias);
    }

  private:
    const softmax_job& job_;
    const row_range& r_;
    int64_t stride_;
    scale_reader cols_;
    float factor_;
};

template <dtype In>
row_sum sum_of_row(const softmax_job& job, const row_range& r, const row_reader<In>& x) {
    row_sum result;
    bool invalid = false;
    each_element(job, r, [&](int64_t slot) {
        const float value = x(slot);
        invalid = invalid || !(value < infinity);
        if (value > result.largest) result.largest = value;
    });
    if (invalid) result.largest = nan_value;
    if (invalid || result.empty()) return result;
    each_element(job, r, [&](int64_t slot) { result.sum += result.exponential(x(slot)); });
    return result;
}

// An existing element.
template <dtype Out>
void store_element(void* out, int64_t index, const row_sum& row, float x) {
    if constexpr (is_floating(Out)) {
        element<Out>::store(out, index, row.probability(x));
    } else {
        element<Out>::store(out, index,
                            row.quantised(x, static_cast<double>(range_of(Out).highest)));
    }
}

template <dtype In, dtype Out>
void write_row(const softmax_job& job, const row_range& r) {
    const row_reader<In> x(job, r);
    const row_sum row = sum_of_row(job, r, x);
    const int64_t stride = value_stride(job.pattern, job.shape.out_batch_stride);
    for (int64_t slot = r.begin; slot < round_up(r.end, job.pattern.stride); ++slot) {
        const int64_t at = value_at(job, stride, r, slot);
        if (r.inside && slot < r.end && job.pattern.exists(slot, r.v)) {
            store_element<Out>(job.args.out, at, row, x(slot));
        } else {
            element<Out>::store(job.args.out, at, 0);
        }
    }
    if (is_integer(Out) && r.inside) {
        job.args.out_scale[r.batch * job.shape.out_scale_stride() + r.row] =
            row.scale(static_cast<double>(range_of(Out).highest));
    }
}

template <dtype In, dtype Out>
void write_block_row(const softmax_job& job, int64_t batch, int64_t block_row) {
    const auto& pattern = job.pattern;
    const int64_t index = pattern.block_row_index(pattern.matrix_for(batch), block_row);
    for (int64_t v = 0; v < pattern.vector_length; ++v) {
        const int64_t row = block_row * pattern.vector_length + v;
        const row_range r{
            batch, row, v, pattern.row_begin[index], pattern.row_end[index], row < pattern.rows};
        write_row<In, Out>(job, r);
    }
}

template <dtype In>
void select_output(softmax_job& job) {
    visit(job.shape.out_type, [&](auto type) {
        constexpr dtype Out = decltype(type)::value;
        if constexpr (Out != dtype::int32 && Out != dtype::int12 && Out != dtype::e4m3) {
            job.task = write_block_row<In, Out>;
        }
    });
}

class reference_plan final : public stored_plan<operation> {
  public:
    using stored_plan::stored_plan;

    void run(const context& ctx, const arguments& args) const override {
        const auto& pattern = stored().view();
        softmax_job job{problem(), pattern, args, nullptr};
        visit(job.shape.in_type, [&](auto type) {
            constexpr dtype In = decltype(type)::value;
            if constexpr (In == dtype::fp32 || In == dtype::fp16 || In == dtype::int32) {
                select_output<In>(job);
            }
        });
        const int64_t block_rows = pattern.block_rows();
        constexpr int64_t products_per_element = 64;  // what exponentials cost
        const int64_t per_task = pattern.value_count() / block_rows * products_per_element;
        ctx.parallel(job.shape.batch_count * block_rows, grain_for(per_task),
                     [&job](int64_t begin, int64_t end) {
                         const int64_t rows = job.pattern.block_rows();
                         for (int64_t i = begin; i < end; ++i) job.task(job, i / rows, i % rows);
                     });
    }
};

double reference_cost(const context&, const problem& p) {
    constexpr double elements_per_us = 30;
    return static_cast<double>(p.pattern.value_count()) * static_cast<double>(p.batch_count) /
           elements_per_us;
}

buffer_needs reference_needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, false).bytes(), 0};
}

}  // namespace

extern const implementation<operation> cpu_reference;
const implementation<operation> cpu_reference = reference_implementation<operation, reference_plan>(
    "reference", device_kind::cpu, reference_cost, reference_needs);

}  // namespace magicube::softmax
