// SPDX-License-Identifier: Apache-2.0
// Sparse attention as its definition reads, for every problem: the oracle of the other
// implementations.
//
// A task is one block row of one head: its V queries. Rows of K and V are read once a task, in the
// order of the pattern's slots, and used for all queries that may see them. The workspace holds for
// each worker, in floats and with rows padded to whole lanes: V queries, V sums of values, one row
// of K or V, and V rows of scores, as long as a block row can be. Sums of integers are in double,
// which holds them exactly. Workers take tasks in turn, so that a causal pattern's long and short
// rows are shared out. Order of operations: attention.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/common/thread_pool.hpp"
#include "core/ops/attention/quantised.hpp"
#include "core/ops/attention/visible_keys.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/unpack.hpp"
#include "core/types/runs.hpp"

namespace magicube::attention {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

int64_t pitch_of(const problem& p) {
    return checked_mul(ceil_div(p.head_dim, unpack_lanes), unpack_lanes, "problem->head_dim");
}

// Slots of the longest block row that the pattern may have: columns of a block row differ.
int64_t most_slots(const problem& p) {
    return std::min(p.pattern.slots, p.pattern.cols);
}

// Floats of one worker, a multiple of what keeps the next one's aligned.
int64_t floats_of_worker(const problem& p) {
    const int64_t v = p.pattern.vector_length;
    const int64_t count = p.quantised() ? 3 * v + 1 : 2 * v + 1;
    const int64_t rows = checked_mul(count, pitch_of(p), "workspace");
    const int64_t floats =
        checked_add(rows, checked_mul(v, most_slots(p), "workspace"), "workspace");
    return checked_mul(ceil_div(floats, 64), 64, "workspace");
}

int64_t task_count(const problem& p) {
    return p.batch_count * p.q_heads * p.pattern.block_rows();
}

int64_t worker_count(const problem& p) {
    return std::clamp<int64_t>(hardware_threads(), 1, std::max<int64_t>(task_count(p), 1));
}

buffer_needs reference_needs(const context&, const problem& p) {
    const int64_t bytes = checked_mul(floats_of_worker(p), sizeof(float), "workspace");
    return {stored_matrix(p.pattern, false).bytes(),
            checked_mul(bytes, worker_count(p), "workspace")};
}

// One execution.
struct attention_job {
    const problem& shape;
    const sr_bcrs_view& pattern;
    const arguments& args;
    float scale;
    int64_t pitch;
};

// What one worker computes in.
struct scratch {
    float* queries;  // V rows of `pitch`, padded with zeros
    float* sums;     // the same
    double* exact;   // of integers, in its place
    float* row;      // of K or V
    float* scores;   // V rows, most_slots apart
    int64_t score_pitch;
};

scratch scratch_of(const attention_job& job, int64_t worker) {
    const int64_t rows = job.pattern.vector_length * job.pitch;
    auto* first = static_cast<float*>(job.args.workspace) + worker * floats_of_worker(job.shape);
    float* sums = first + rows;
    float* row = sums + (job.shape.quantised() ? 2 * rows : rows);
    return {
        first, sums, reinterpret_cast<double*>(sums), row, row + job.pitch, most_slots(job.shape)};
}

float dot(const float* a, const float* b, int64_t length) {
    float lanes[unpack_lanes] = {};
    for (int64_t d = 0; d < length; d += unpack_lanes)
        for (int64_t lane = 0; lane < unpack_lanes; ++lane)
            lanes[lane] += a[d + lane] * b[d + lane];
    float sum = 0;
    for (const float lane : lanes) sum += lane;
    return sum;
}

// Of integers, exact.
int32_t integer_dot(const float* a, const float* b, int64_t length) {
    double sum = 0;
    for (int64_t d = 0; d < length; ++d)
        sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
    return static_cast<int32_t>(sum);
}

// The queries of one task, and which keys each may see.
class block_row {
  public:
    block_row(const attention_job& job, int64_t task)
        : job_(job),
          keys_(
              job.shape, job.pattern, job.args, task / job.pattern.block_rows() / job.shape.q_heads,
              task / job.pattern.block_rows() % job.shape.q_heads, task % job.pattern.block_rows()),
          kv_head_(keys_.head / (job.shape.q_heads / job.shape.kv_heads)) {
        const auto& p = job.shape;
        const int64_t kv = keys_.batch * p.kv_heads + kv_head_;
        q_scale_ = scales_of_head(p.q_scale, job.args.q_scale, keys_.batch * p.q_heads + keys_.head,
                                  job.pattern.rows);
        k_scale_ = scales_of_head(p.k_scale, job.args.k_scale, kv, job.pattern.cols);
        v_scale_ = scales_of_head(p.v_scale, job.args.v_scale, kv, p.head_dim);
    }

    void compute(const scratch& s) const {
        load_queries(s);
        if (job_.shape.quantised()) {
            compute_quantised(s);
        } else {
            compute_floats(s);
        }
    }

  private:
    static constexpr int64_t max_rows = 64;  // the largest vector length

    void compute_floats(const scratch& s) const {
        each_key(job_.args.k, s, [&](int64_t slot, int64_t v) {
            s.scores[v * s.score_pitch + slot - keys_.begin] =
                job_.scale * dot(s.queries + v * job_.pitch, s.row, job_.pitch);
        });
        float largest[max_rows];
        float total[max_rows];
        for (int64_t v = 0; v < keys_.count; ++v) take_exponentials(s, v, largest[v], total[v]);
        std::fill(s.sums, s.sums + keys_.count * job_.pitch, 0.0f);
        each_key(job_.args.v, s, [&](int64_t slot, int64_t v) {
            const float e = s.scores[v * s.score_pitch + slot - keys_.begin];
            float* sums = s.sums + v * job_.pitch;
            for (int64_t d = 0; d < job_.pitch; ++d) sums[d] += e * s.row[d];
        });
        for (int64_t v = 0; v < keys_.count; ++v) write_query(s, v, largest[v], total[v]);
    }

    void compute_quantised(const scratch& s) const {
        const int32_t highest = highest_probability(job_.shape.probability_bits);
        each_key(job_.args.k, s, [&](int64_t slot, int64_t v) {
            s.scores[v * s.score_pitch + slot - keys_.begin] = quantised_score(
                job_.scale, q_scale_[keys_.first + v], k_scale_[job_.pattern.col_indices[slot]],
                integer_dot(s.queries + v * job_.pitch, s.row, job_.pitch));
        });
        float largest[max_rows];
        float total[max_rows];
        for (int64_t v = 0; v < keys_.count; ++v) {
            largest[v] = largest_of(s, v);
            total[v] = take_probabilities(s, v, largest[v], highest);
        }
        std::fill(s.exact, s.exact + keys_.count * job_.pitch, 0.0);
        each_key(job_.args.v, s, [&](int64_t slot, int64_t v) {
            const double p = s.scores[v * s.score_pitch + slot - keys_.begin];
            double* sums = s.exact + v * job_.pitch;
            for (int64_t d = 0; d < job_.pitch; ++d) sums[d] += p * static_cast<double>(s.row[d]);
        });
        for (int64_t v = 0; v < keys_.count; ++v)
            write_quantised(s, v, largest[v], total[v], highest);
    }

    // Scores become probabilities, integers in [0, highest], whose sum this is.
    float take_probabilities(const scratch& s, int64_t v, float largest, int32_t highest) const {
        float* scores = s.scores + v * s.score_pitch;
        const bool regular = largest > -infinity;  // and no NaN
        int64_t total = 0;
        for (int64_t slot = keys_.begin; slot < keys_.end; ++slot) {
            if (!keys_.allowed(slot, v)) continue;
            float& score = scores[slot - keys_.begin];
            const int32_t p = regular ? quantised_probability(score, largest, highest) : 0;
            score = static_cast<float>(p);
            total += p;
        }
        return static_cast<float>(total);
    }

    void write_quantised(const scratch& s, int64_t v, float largest, float total,
                         int32_t highest) const {
        const double* sums = s.exact + v * job_.pitch;
        for (int64_t d = 0; d < job_.shape.head_dim; ++d)
            s.row[d] = quantised_output(v_scale_[d], static_cast<float>(sums[d]), total);
        const bool regular = largest > -infinity;
        if (!regular)
            std::fill(s.row, s.row + job_.shape.head_dim, std::isnan(largest) ? nan_value : 0.0f);
        store(v, s.row, regular ? quantised_statistic(largest, total, highest) : largest);
    }

    void load_row(const tensor& from, int64_t head, int64_t i, float* to) const {
        load_run(job_.shape.in_type, from.values, from.row(keys_.batch, head, i),
                 job_.shape.head_dim, to);
        std::fill(to + job_.shape.head_dim, to + job_.pitch, 0.0f);
    }

    void load_queries(const scratch& s) const {
        for (int64_t v = 0; v < keys_.count; ++v)
            load_row(job_.args.q, keys_.head, keys_.first + v, s.queries + v * job_.pitch);
    }

    // Calls visit(slot, v) for each allowed key, with the key's row of `from` in s.row.
    template <class Visit>
    void each_key(const tensor& from, const scratch& s, const Visit& visit) const {
        for (int64_t slot = keys_.begin; slot < keys_.end; ++slot) {
            bool loaded = false;
            for (int64_t v = 0; v < keys_.count; ++v) {
                if (!keys_.allowed(slot, v)) continue;
                if (!loaded) load_row(from, kv_head_, job_.pattern.col_indices[slot], s.row);
                loaded = true;
                visit(slot, v);
            }
        }
    }

    // NaN if a score is NaN or +infinity.
    float largest_of(const scratch& s, int64_t v) const {
        const float* scores = s.scores + v * s.score_pitch;
        bool invalid = false;
        float largest = -infinity;
        for (int64_t slot = keys_.begin; slot < keys_.end; ++slot) {
            if (!keys_.allowed(slot, v)) continue;
            const float score = scores[slot - keys_.begin];
            invalid = invalid || !(score < infinity);
            if (score > largest) largest = score;
        }
        return invalid ? nan_value : largest;
    }

    // Scores become exponentials.
    void take_exponentials(const scratch& s, int64_t v, float& largest, float& total) const {
        float* scores = s.scores + v * s.score_pitch;
        largest = largest_of(s, v);
        total = 0;
        for (int64_t slot = keys_.begin; slot < keys_.end; ++slot) {
            if (!keys_.allowed(slot, v)) continue;
            float& score = scores[slot - keys_.begin];
            score = static_cast<float>(
                std::exp(static_cast<double>(score) - static_cast<double>(largest)));
            total += score;
        }
    }

    void write_query(const scratch& s, int64_t v, float largest, float total) const {
        const auto& p = job_.shape;
        float* sums = s.sums + v * job_.pitch;
        float statistic = largest;  // NaN and -infinity stay
        if (largest == -infinity || std::isnan(largest)) {
            std::fill(sums, sums + p.head_dim, std::isnan(largest) ? nan_value : 0.0f);
        } else {
            for (int64_t d = 0; d < p.head_dim; ++d) sums[d] /= total;
            statistic = static_cast<float>(static_cast<double>(largest) +
                                           std::log(static_cast<double>(total)));
        }
        store(v, sums, statistic);
    }

    void store(int64_t v, const float* values, float statistic) const {
        const auto& p = job_.shape;
        const int64_t row = keys_.first + v;
        store_run(p.out_type, job_.args.out.values, job_.args.out.row(keys_.batch, keys_.head, row),
                  p.head_dim, values);
        if (p.log_sum_exp) {
            job_.args
                .log_sum_exp[(keys_.batch * p.q_heads + keys_.head) * job_.pattern.rows + row] =
                statistic;
        }
    }

    const attention_job& job_;
    const visible_keys keys_;
    int64_t kv_head_;
    scale_reader q_scale_;  // of integers; so for the next two
    scale_reader k_scale_;
    scale_reader v_scale_;
};

class reference_plan final : public stored_plan<operation> {
  public:
    using stored_plan::stored_plan;

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        const auto& pattern = stored().view();
        const float standard = static_cast<float>(1 / std::sqrt(static_cast<double>(p.head_dim)));
        const attention_job job{p, pattern, args, read_scalar(args.scale, standard), pitch_of(p)};
        const int64_t workers = worker_count(p);
        const int64_t tasks = task_count(p);
        ctx.parallel(workers, 1, [&](int64_t begin, int64_t end) {
            for (int64_t worker = begin; worker < end; ++worker) {
                const scratch s = scratch_of(job, worker);
                for (int64_t task = worker; task < tasks; task += workers)
                    block_row(job, task).compute(s);
            }
        });
    }
};

double reference_cost(const context&, const problem& p) {
    constexpr double products_per_us = 2000;
    const auto matrices =
        static_cast<double>(p.pattern.different_patterns ? p.pattern.batch_count : 1);
    const double each = static_cast<double>(p.pattern.value_count()) / std::max(matrices, 1.0);
    return each * static_cast<double>(p.batch_count * p.q_heads) * 2.0 *
           static_cast<double>(p.head_dim) / products_per_us;
}

}  // namespace

extern const implementation<operation> cpu_reference;
const implementation<operation> cpu_reference = reference_implementation<operation, reference_plan>(
    "reference", device_kind::cpu, reference_cost, reference_needs);

}  // namespace magicube::attention
