// SPDX-License-Identifier: Apache-2.0
// Sparse softmax with the processor's SIMD instructions (row_kernels.hpp), chosen at run time.
//
// A task is one block row. Each of its rows is read once into a worker's part of the workspace, as
// floats, absent elements as -infinity: there its largest x, the exponentials and their sum are
// found, and from there it is written, so that the output may lie on the scores. The workspace
// holds for each worker three rows as long as a block row can be: x, scales of columns and bias.
// Workers take tasks as they become free. Bound: some 20 operations an element, and memory.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "core/common/thread_pool.hpp"
#include "core/ops/cpu/row_kernels.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/softmax/softmax.hpp"

namespace magicube::softmax {
namespace cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// Floats of one of a worker's rows. Columns of a block row differ.
int64_t row_floats(const problem& p) {
    return ceil_div(std::min(p.pattern.slots, p.pattern.cols), row_group_floats) * row_group_floats;
}

int64_t task_count(const problem& p) {
    return p.batch_count * p.pattern.block_rows();
}

int64_t worker_count(const problem& p) {
    return std::clamp<int64_t>(hardware_threads(), 1, std::max<int64_t>(task_count(p), 1));
}

// One execution.
struct softmax_job {
    const problem& shape;
    const sr_bcrs_view& pattern;
    const arguments& args;
    const row_kernels& kernels;
    int64_t in_stride;
    int64_t out_stride;
    int64_t floats;  // of a worker's row
    mutable std::atomic<int64_t> next{0};
};

// What one worker computes in.
struct scratch {
    float* x;
    float* cols;  // scales
    float* bias;
};

// One block row of one matrix of the batch.
class block_row {
  public:
    block_row(const softmax_job& job, int64_t task)
        : job_(job),
          pattern_(job.pattern),
          batch_(task / job.pattern.block_rows()),
          first_(task % job.pattern.block_rows() * job.pattern.vector_length) {
        const int64_t index =
            pattern_.block_row_index(pattern_.matrix_for(batch_), task % job.pattern.block_rows());
        begin_ = pattern_.row_begin[index];
        count_ = pattern_.row_end[index] - begin_;
        padded_ = round_up(begin_ + count_, pattern_.stride) - begin_;
        groups_ = round_up(count_, row_group_floats);
    }

    void compute(const scratch& s) const {
        const auto& p = job_.shape;
        const auto cols = read_scales(p.col_scale, job_.args.col_scale, batch_);
        for (int64_t i = 0; cols.data && i < count_; ++i)
            s.cols[i] = cols[pattern_.col_indices[begin_ + i]];
        for (int64_t v = 0; v < pattern_.vector_length; ++v) {
            if (first_ + v < pattern_.rows) {
                compute_row(s, v);
            } else {
                std::fill_n(s.x, padded_, 0.0f);
                write(s.x, v);
            }
        }
    }

  private:
    // Calls use(index in a value array whose matrices are `stride` apart, step, first slot, count)
    // for runs of a row's slots.
    template <class Use>
    void each_run(int64_t stride, int64_t v, int64_t count, const Use& use) const {
        const int64_t base = pattern_.different_patterns ? 0 : batch_ * stride;
        if (pattern_.stride == 1) {
            if (count > 0)
                use(base + pattern_.value_index(0, begin_, v), pattern_.vector_length, 0, count);
            return;
        }
        for (int64_t i = 0; i < count; i += pattern_.stride)
            use(base + pattern_.value_index(0, begin_ + i, v), 1, i,
                std::min<int64_t>(pattern_.stride, count - i));
    }

    void read(dtype type, const void* array, int64_t stride, int64_t v, float* to) const {
        each_run(stride, v, count_, [&](int64_t at, int64_t step, int64_t i, int64_t count) {
            if (step == 1) return job_.kernels.load(type, array, at, count, to + i);
            for (int64_t j = 0; j < count; ++j)
                job_.kernels.load(type, array, at + j * step, 1, to + i + j);
        });
    }

    void write(const float* from, int64_t v) const {
        const dtype type = job_.shape.out_type;
        each_run(job_.out_stride, v, padded_,
                 [&](int64_t at, int64_t step, int64_t i, int64_t count) {
                     job_.kernels.store(type, job_.args.out, at, step, count, from + i);
                 });
    }

    void read_x(const scratch& s, int64_t v) const {
        const auto& p = job_.shape;
        const auto rows = read_scales(p.row_scale, job_.args.row_scale, batch_);
        const float factor = mul_rn(read_scalar(job_.args.alpha, 1), rows[first_ + v]);
        read(p.in_type, job_.args.scores, job_.in_stride, v, s.x);
        if (p.bias) read(dtype::fp32, job_.args.bias, p.bias_batch_stride, v, s.bias);
        job_.kernels.scale(s.x, count_, factor, p.col_scale.present() ? s.cols : nullptr,
                           p.bias ? s.bias : nullptr, 1);
        for (int64_t i = 0; pattern_.element_mask && i < count_; ++i)
            if (!pattern_.exists(begin_ + i, v)) s.x[i] = -infinity;
        std::fill(s.x + count_, s.x + groups_, -infinity);
    }

    void compute_row(const scratch& s, int64_t v) const {
        const dtype out = job_.shape.out_type;
        const auto& kernels = job_.kernels;
        read_x(s, v);
        const float largest = kernels.largest(s.x, groups_);
        const bool invalid = std::isnan(largest);
        const double highest = is_floating(out) ? 1 : static_cast<double>(range_of(out).highest);
        float scale = 1;
        if (invalid || largest == -infinity) {
            std::fill_n(s.x, groups_, 0.0f);
            if (invalid) scale = nan_value;
            for (int64_t i = 0; invalid && is_floating(out) && i < count_; ++i)
                if (pattern_.exists(begin_ + i, v)) s.x[i] = nan_value;
        } else {
            const double sum = kernels.exponentials(s.x, groups_, largest);
            const double factor = is_floating(out) ? 1 / sum : highest;
            kernels.scale(s.x, count_, static_cast<float>(factor), nullptr, nullptr, 1);
            scale = static_cast<float>(1 / sum / highest);
        }
        std::fill(s.x + count_, s.x + std::max(padded_, count_), 0.0f);
        write(s.x, v);
        if (is_integer(out))
            job_.args.out_scale[batch_ * job_.shape.out_scale_stride() + first_ + v] = scale;
    }

    const softmax_job& job_;
    const sr_bcrs_view& pattern_;
    int64_t batch_;
    int64_t first_;   // row
    int64_t begin_;   // slot
    int64_t count_;   // of slots that hold vectors
    int64_t padded_;  // with the padding of their last chunk
    int64_t groups_;  // in whole groups of floats
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
                              value_stride(pattern, p.out_batch_stride),
                              worker_floats(p) / rows_of_worker};
        const int64_t tasks = task_count(p);
        ctx.parallel(worker_count(p), 1, [&](int64_t begin, int64_t end) {
            for (int64_t worker = begin; worker < end; ++worker) {
                float* x = static_cast<float*>(args.workspace) + worker * worker_floats(p);
                const scratch s{x, x + job.floats, x + 2 * job.floats};
                for (int64_t task = job.next++; task < tasks; task = job.next++)
                    block_row(job, task).compute(s);
            }
        });
    }

    static constexpr int64_t rows_of_worker = 3;

    // A chunk's padding may reach past the columns.
    static int64_t worker_floats(const softmax::problem& p) {
        const int64_t longest = row_floats(p);
        return checked_mul(checked_add(longest, 2 * row_group_floats, "workspace"), rows_of_worker,
                           "workspace");
    }

  private:
    const row_kernels& kernels_;
};

std::string decline(const context&, const problem&) {
    return {};
}

buffer_needs needs(const context&, const problem& p) {
    const int64_t each = checked_mul(simd_plan::worker_floats(p), sizeof(float), "workspace");
    return {stored_matrix(p.pattern, false).bytes(),
            checked_mul(each, worker_count(p), "workspace")};
}

double cost(const context& ctx, const problem& p) {
    const double elements_per_us = usable_level() == simd_level::portable ? 60 : 400;
    const int threads =
        ctx.threads > 0 ? std::min(ctx.threads, hardware_threads()) : hardware_threads();
    return 5 + static_cast<double>(p.pattern.value_count()) * static_cast<double>(p.batch_count) /
                   (elements_per_us * threads);
}

std::unique_ptr<plan> make(const context& ctx, const problem& p, plan_resources resources) {
    return std::make_unique<simd_plan>(ctx, p, std::move(resources));
}

}  // namespace
}  // namespace cpu

extern const implementation<operation> cpu_simd;
const implementation<operation> cpu_simd = {"simd",    device_kind::cpu, false,    cpu::decline,
                                            cpu::cost, cpu::needs,       cpu::make};

}  // namespace magicube::softmax
