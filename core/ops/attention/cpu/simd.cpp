// SPDX-License-Identifier: Apache-2.0
// Sparse attention with the processor's SIMD instructions (row_kernels.hpp), chosen at run time.
//
// K and V of some heads at a time are unpacked into the workspace as floats, rows padded with zeros
// to whole groups. A task is one block row of one head: its V queries. All scores of the block row
// are dot products in blocks of four queries by four keys; what a query may not see becomes
// -infinity; a row of scores becomes exponentials; the sums of V's rows are formed in blocks of
// four queries. Each worker has in the workspace V queries, V sums and V rows of scores, as long as
// a block row can be. Workers take tasks as they become free, the last block rows first, which are
// the longest under a causal rule.
// Bound: 2 * head_dim multiply-adds for each element of the pattern; rows of K and V from the L2
// cache.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "core/common/thread_pool.hpp"
#include "core/ops/attention/visible_keys.hpp"
#include "core/ops/cpu/row_kernels.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/unpack.hpp"

namespace magicube::attention {
namespace cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t rows_per_task = 64;  // of K and V unpacked at once

int64_t whole_groups(int64_t floats) {
    return checked_mul(ceil_div(floats, row_group_floats), row_group_floats, "workspace");
}

// Sections of the workspace, in floats.
struct sections {
    int64_t width;        // of a row of Q, K, V and of the sums
    int64_t score_pitch;  // columns of a block row differ
    int64_t worker;       // of one worker
    int64_t workers;
    int64_t matrix;  // of K and V of one head
    int64_t heads;   // of K and V that are unpacked at once
    int64_t flags;   // bytes: whether V's rows are finite, one for each task of unpacking
    int64_t bytes;

    explicit sections(const problem& p)
        : width(whole_groups(p.head_dim)),
          score_pitch(whole_groups(std::min(p.pattern.slots, p.pattern.cols))) {
        const int64_t v = p.pattern.vector_length;
        worker = checked_mul(
            v, checked_add(checked_mul(2, width, "workspace"), score_pitch, "workspace"),
            "workspace");
        const int64_t tasks = p.batch_count * p.q_heads * p.pattern.block_rows();
        workers = std::clamp<int64_t>(hardware_threads(), 1, std::max<int64_t>(tasks, 1));
        matrix = checked_mul(checked_mul(2, p.pattern.cols, "workspace"), width, "workspace");
        const int64_t matrix_bytes = checked_mul(matrix, sizeof(float), "workspace");
        const int64_t all = std::max<int64_t>(p.batch_count * p.kv_heads, 1);
        heads = std::clamp<int64_t>(unpack_limit / std::max<int64_t>(matrix_bytes, 1), 1, all);
        flags = checked_mul(heads, ceil_div(p.pattern.cols, rows_per_task), "workspace");
        const int64_t floats = checked_add(checked_mul(workers, worker, "workspace"),
                                           checked_mul(heads, matrix, "workspace"), "workspace");
        bytes = checked_add(checked_mul(floats, sizeof(float), "workspace"), flags, "workspace");
    }
};

// One execution, while K and V of heads [first, first + count), counted through the batch, are
// unpacked.
struct attention_job {
    const problem& shape;
    const sr_bcrs_view& pattern;
    const arguments& args;
    const row_kernels& kernels;
    const sections& parts;
    float scale;
    float* workers;
    float* k;
    float* v;
    uint8_t* finite;
    int64_t first = 0;
    int64_t count = 0;
    mutable std::atomic<int64_t> next{0};

    int64_t parts_of_head() const { return ceil_div(pattern.cols, rows_per_task); }
    int64_t matrix() const { return pattern.cols * parts.width; }
    // Each head of K and V serves as many heads of Q.
    int64_t sharing() const { return shape.q_heads / shape.kv_heads; }
};

void unpack_row(const attention_job& job, const tensor& from, int64_t batch, int64_t head,
                int64_t i, float* to) {
    job.kernels.load(job.shape.in_type, from.values, from.row(batch, head, i), job.shape.head_dim,
                     to);
    std::fill(to + job.shape.head_dim, to + job.parts.width, 0.0f);
}

bool all_finite(const float* x, int64_t count) {
    uint32_t any = 0;
    for (int64_t i = 0; i < count; ++i)
        any |= static_cast<uint32_t>((bits_of(x[i]) & 0x7f800000) == 0x7f800000);
    return any == 0;
}

void unpack_keys(const attention_job& job, int64_t task) {
    const int64_t item = task / job.parts_of_head();
    const int64_t batch = (job.first + item) / job.shape.kv_heads;
    const int64_t head = (job.first + item) % job.shape.kv_heads;
    const int64_t begin = task % job.parts_of_head() * rows_per_task;
    const int64_t end = std::min(begin + rows_per_task, job.pattern.cols);
    bool finite = true;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t at = item * job.matrix() + i * job.parts.width;
        unpack_row(job, job.args.k, batch, head, i, job.k + at);
        unpack_row(job, job.args.v, batch, head, i, job.v + at);
        finite = finite && all_finite(job.v + at, job.parts.width);
    }
    job.finite[task] = finite ? 1 : 0;
}

// The queries of one task.
class block_row {
  public:
    block_row(const attention_job& job, int64_t task)
        : job_(job), keys_(place_of(job, task)), width_(job.parts.width) {
        item_ = keys_.batch * job.shape.kv_heads + keys_.head / job.sharing() - job.first;
        // No query of the block row sees further than its last.
        count_ = keys_.limit_of(keys_.count - 1) - keys_.begin;
        groups_ = round_up(count_, row_group_floats);
        const auto* flags = job.finite + item_ * job.parts_of_head();
        finite_ = std::all_of(flags, flags + job.parts_of_head(), [](uint8_t f) { return f != 0; });
    }

    void compute(float* worker) const {
        const auto& kernels = job_.kernels;
        const int64_t rows = keys_.count;
        float* queries = worker;
        float* sums = queries + job_.pattern.vector_length * width_;
        float* scores = sums + job_.pattern.vector_length * width_;
        const int64_t pitch = job_.parts.score_pitch;
        const int32_t* cols = job_.pattern.col_indices + keys_.begin;
        const float* k = job_.k + item_ * job_.matrix();
        const float* v = job_.v + item_ * job_.matrix();
        for (int64_t i = 0; i < rows; ++i)
            unpack_row(job_, job_.args.q, keys_.batch, keys_.head, keys_.first + i,
                       queries + i * width_);
        kernels.float_dots({reinterpret_cast<const uint32_t*>(queries), width_}, rows,
                           {reinterpret_cast<const uint32_t*>(k), width_}, cols, count_, width_,
                           reinterpret_cast<uint32_t*>(scores), pitch);
        float largest[most_rows];
        double total[most_rows];
        for (int64_t i = 0; i < rows; ++i)
            take_exponentials(scores + i * pitch, i, largest[i], total[i]);
        if (finite_) {
            kernels.weighted_sums(scores, pitch, rows, v, cols, count_, width_, sums);
        } else {
            for (int64_t i = 0; i < rows; ++i)
                add_visible(scores + i * pitch, i, v, sums + i * width_);
        }
        for (int64_t i = 0; i < rows; ++i) write(sums + i * width_, i, largest[i], total[i]);
    }

  private:
    static visible_keys place_of(const attention_job& job, int64_t task) {
        const int64_t block_rows = job.pattern.block_rows();
        const int64_t block = block_rows - 1 - task % block_rows;
        const int64_t query_head = job.first * job.sharing() + task / block_rows;
        return {job.shape,
                job.pattern,
                job.args,
                query_head / job.shape.q_heads,
                query_head % job.shape.q_heads,
                block};
    }

    // Scores of a query become exponentials, 0 where it may not look. largest is NaN if one was NaN
    // or +infinity.
    void take_exponentials(float* scores, int64_t i, float& largest, double& total) const {
        job_.kernels.scale(scores, count_, job_.scale, nullptr, nullptr, 1);
        // Columns ascend: what lengths and the causal rule hide is at the end.
        const int64_t seen = keys_.limit_of(i) - keys_.begin;
        std::fill(scores + seen, scores + groups_, -infinity);
        for (int64_t s = 0; job_.pattern.element_mask && s < seen; ++s)
            if (!job_.pattern.exists(keys_.begin + s, i)) scores[s] = -infinity;
        largest = job_.kernels.largest(scores, groups_);
        total = 0;
        if (std::isnan(largest) || largest == -infinity) {
            std::fill_n(scores, groups_, 0.0f);
        } else {
            total = job_.kernels.exponentials(scores, groups_, largest);
        }
    }

    // The weighted sum where V holds NaN or infinity, which keys that the query may not see must
    // not contribute.
    void add_visible(const float* weights, int64_t i, const float* v, float* sums) const {
        std::fill_n(sums, width_, 0.0f);
        for (int64_t slot = keys_.begin; slot < keys_.limit_of(i); ++slot) {
            if (!job_.pattern.exists(slot, i)) continue;
            const float* row = v + job_.pattern.col_indices[slot] * width_;
            for (int64_t d = 0; d < width_; ++d) sums[d] += weights[slot - keys_.begin] * row[d];
        }
    }

    void write(float* sums, int64_t i, float largest, double total) const {
        const auto& p = job_.shape;
        float statistic = largest;  // NaN and -infinity stay
        if (largest == -infinity || std::isnan(largest)) {
            std::fill_n(sums, width_, std::isnan(largest) ? nan_value : 0.0f);
        } else {
            job_.kernels.scale(sums, width_, static_cast<float>(1 / total), nullptr, nullptr, 1);
            statistic = static_cast<float>(static_cast<double>(largest) + std::log(total));
        }
        const int64_t row = keys_.first + i;
        job_.kernels.store(p.out_type, job_.args.out.values,
                           job_.args.out.row(keys_.batch, keys_.head, row), 1, p.head_dim, sums);
        if (p.log_sum_exp) {
            const int64_t head = keys_.batch * p.q_heads + keys_.head;
            job_.args.log_sum_exp[head * job_.pattern.rows + row] = statistic;
        }
    }

    const attention_job& job_;
    const visible_keys keys_;
    int64_t width_;
    int64_t item_;    // of the heads of K and V that are unpacked
    int64_t count_;   // of slots that any query may see
    int64_t groups_;  // in whole groups
    bool finite_;     // V of the head
};

class simd_plan final : public stored_plan<operation> {
  public:
    simd_plan(const context& ctx, const attention::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)),
          kernels_(rows_of(usable_level())),
          sections_(p) {}

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const auto& pattern = stored().view();
        const float standard = static_cast<float>(1 / std::sqrt(static_cast<double>(p.head_dim)));
        auto* workers = static_cast<float*>(args.workspace);
        float* k = workers + sections_.workers * sections_.worker;
        float* v = k + sections_.heads * sections_.matrix / 2;
        auto* flags = reinterpret_cast<uint8_t*>(v + sections_.heads * sections_.matrix / 2);
        attention_job job{
            p,       pattern, args, kernels_, sections_, read_scalar(args.scale, standard),
            workers, k,       v,    flags};
        const int64_t heads = p.batch_count * p.kv_heads;
        for (; job.first < heads; job.first += job.count) {
            job.count = std::min(sections_.heads, heads - job.first);
            ctx.parallel(job.count * job.parts_of_head(), 1, [&job](int64_t begin, int64_t end) {
                for (int64_t task = begin; task < end; ++task) unpack_keys(job, task);
            });
            const int64_t tasks = job.count * job.sharing() * pattern.block_rows();
            job.next = 0;
            ctx.parallel(sections_.workers, 1, [&job, tasks](int64_t begin, int64_t end) {
                for (int64_t worker = begin; worker < end; ++worker) {
                    float* mine = job.workers + worker * job.parts.worker;
                    for (int64_t task = job.next++; task < tasks; task = job.next++)
                        block_row(job, task).compute(mine);
                }
            });
        }
    }

  private:
    const row_kernels& kernels_;
    sections sections_;
};

std::string decline(const context&, const problem& p) {
    return p.quantised()
               ? text("Q, K and V are ", name_of(p.in_type), "; it takes fp32, fp16 or bf16")
               : "";
}

buffer_needs needs(const context&, const problem& p) {
    return {stored_matrix(p.pattern, false).bytes(), sections(p).bytes};
}

// Two products of whole groups of floats for each element of the patterns, and its exponential.
double cost(const context& ctx, const problem& p) {
    const auto level = usable_level();
    // A core of a server of 2023.
    const double groups_per_us = level == simd_level::portable ? 150
                                 : level == simd_level::avx2   ? 900
                                                               : 2000;
    const int threads =
        ctx.threads > 0 ? std::min(ctx.threads, hardware_threads()) : hardware_threads();
    const auto matrices =
        static_cast<double>(p.pattern.different_patterns ? p.pattern.batch_count : 1);
    const double each = static_cast<double>(p.pattern.value_count()) / std::max(matrices, 1.0);
    const double groups = 2 * static_cast<double>(p.head_dim) / row_group_floats + 8;
    return 5 + each * static_cast<double>(p.batch_count) * static_cast<double>(p.q_heads) * groups /
                   (groups_per_us * threads);
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

}  // namespace magicube::attention
