// SPDX-License-Identifier: Apache-2.0
// Notation: of a group's w weights of one row, P are pruned and Q kept, A is the inverse of the
// curvature and B = A^-1. Pruning P with the best change of all else costs w_P^T (A_PP)^-1 w_P / 2
// (optimal BERT surgeon, arXiv 2203.07259, and OBC, arXiv 2208.11580), which by the inverse of a
// block matrix is (w^T B w - y_Q^T (B_QQ)^-1 y_Q) / 2 with y = B w. So the pair that is best kept
// has the largest gain y_Q^T (B_QQ)^-1 y_Q: a 2 x 2 system in place of one of w - 2 unknowns, and
// all pairs are cheap. VENOM's pair-wise variant (arXiv 2310.02065) looks at the correlation within
// pairs alone: the pair is kept whose own removal costs most, w_Q^T (A_QQ)^-1 w_Q.
#include "core/prune/obs_group.hpp"

#include "core/prune/algebra.hpp"

namespace magicube {
namespace {

// x^T M^-1 x of columns i and j.
double pair_form(const double* m, int64_t ld, const double* x, int64_t i, int64_t j) {
    const double a = m[i * ld + i];
    const double b = m[i * ld + j];
    const double d = m[j * ld + j];
    return (x[i] * x[i] * d - 2 * x[i] * x[j] * b + x[j] * x[j] * a) / (a * d - b * b);
}

// M^-1 x of columns i and j.
void solve_pair(const double* m, int64_t ld, const double* x, int64_t i, int64_t j, double* out) {
    const double a = m[i * ld + i];
    const double b = m[i * ld + j];
    const double d = m[j * ld + j];
    const double det = a * d - b * b;
    out[0] = (d * x[i] - b * x[j]) / det;
    out[1] = (a * x[j] - b * x[i]) / det;
}

class group_choice {
  public:
    group_choice(const obs_params& params, const obs_group& group, const group_scratch& scratch,
                 const obs_choice& choice)
        : params_(params),
          g_(group),
          s_(scratch),
          choice_(choice),
          n_(params.pattern.kept(group.width)),
          budget_(params.pattern.budget(group.width)),
          matrices_(group.apart == 0 ? 1 : group.rows) {}

    void run() {
        std::fill_n(choice_.flags, g_.rows * g_.width, uint8_t{n_ == g_.width});
        std::fill_n(choice_.multipliers, g_.rows * g_.width, 0.0);
        if (n_ == g_.width) return;
        invert_all(g_.inverse, g_.width, s_.curvature);
        for (int64_t r = 0; r < g_.rows; ++r) multiply(curvature(r), weights(r), images(r));
        if (n_ <= 2) {
            choose_by_gain();
        } else {
            remove_columns();
            keep_in_rows();
        }
    }

  private:
    const double* inverse(int64_t r) const { return g_.inverse + r * g_.apart; }
    const double* weights(int64_t r) const { return g_.weights + r * g_.width; }
    double* curvature(int64_t r) const { return s_.curvature + r * g_.apart; }
    double* images(int64_t r) const { return s_.images + r * g_.width; }

    // Inverts `width` x `width` matrices that lie one behind the other.
    void invert_all(const double* from, int64_t width, double* to) const {
        for (int64_t i = 0; i < matrices_; ++i) {
            const int64_t at = i * width * width;
            if (!invert(from + at, width, to + at, s_.inversion)) {
                throw_not_definite(params_.damping, -1);
            }
        }
    }

    void multiply(const double* m, const double* x, double* y) const {
        for (int64_t i = 0; i < g_.width; ++i) {
            y[i] = 0;
            for (int64_t j = 0; j < g_.width; ++j) y[i] += m[i * g_.width + j] * x[j];
        }
    }

    // One or two weights a row are kept.
    void choose_by_gain() {
        const bool pairwise = params_.selection == obs_selection::pairwise;
        const bool one = n_ == 1;
        for (int64_t r = 0; r < g_.rows; ++r) {
            const double* m = pairwise ? inverse(r) : curvature(r);
            const double* x = pairwise ? weights(r) : images(r);
            for (int64_t j = 0; j < g_.width; ++j) {
                const double alone = x[j] * x[j] / m[j * g_.width + j];
                s_.gains[(one ? j : best_pair::pair_index(j, j)) * g_.rows + r] = alone;
                for (int64_t i = 0; i < j && !one; ++i) {
                    s_.gains[best_pair::pair_index(i, j) * g_.rows + r] =
                        pair_form(m, g_.width, x, i, j);
                }
            }
        }
        if (one) {
            top_two score(s_.gains, g_.rows, 1, s_.states);
            choose_columns(score, g_.width, budget_, s_.sets);
            for (int64_t r = 0; r < g_.rows; ++r) keep_one(r);
        } else {
            best_pair score(s_.gains, g_.rows, s_.states);
            choose_columns(score, g_.width, budget_, s_.sets);
            for (int64_t r = 0; r < g_.rows; ++r) keep_pair(score, r);
        }
    }

    void keep_one(int64_t r) {
        int32_t best = s_.sets.chosen[0];
        for (int64_t i = 1; i < budget_; ++i) {
            const int32_t column = s_.sets.chosen[i];
            if (s_.gains[column * g_.rows + r] > s_.gains[best * g_.rows + r]) best = column;
        }
        const double value = images(r)[best] / curvature(r)[best * g_.width + best];
        finish_row(r, &best, &value, 1);
    }

    void keep_pair(const best_pair& score, int64_t r) {
        const int32_t* chosen = s_.sets.chosen;
        int32_t pair[2] = {chosen[0], chosen[1]};
        for (int64_t i = 0; i < budget_; ++i) {
            for (int64_t j = i + 1; j < budget_; ++j) {
                if (!(score.gain(chosen[i], chosen[j])[r] > score.gain(pair[0], pair[1])[r])) {
                    continue;
                }
                pair[0] = chosen[i];
                pair[1] = chosen[j];
            }
        }
        double values[2];
        solve_pair(curvature(r), g_.width, images(r), pair[0], pair[1], values);
        finish_row(r, pair, values, 2);
    }

    // Three or more are kept: columns are removed one by one, that which costs all rows together
    // least, of equal ones the last.
    void remove_columns() {
        const int64_t w = g_.width;
        uint8_t* taken = s_.sets.taken;
        std::fill_n(taken, w, uint8_t{1});
        std::copy_n(g_.inverse, matrices_ * w * w, s_.reduced);
        std::copy_n(g_.weights, g_.rows * w, s_.reduced_weights);
        for (int64_t left = w; left > budget_; --left) {
            int64_t least = -1;
            double least_cost = 0;
            for (int64_t c = 0; c < w; ++c) {
                if (!taken[c]) continue;
                const double cost = cost_of_column(c);
                if (least < 0 || cost <= least_cost) {
                    least = c;
                    least_cost = cost;
                }
            }
            taken[least] = 0;
            remove_column(least);
        }
        int32_t* next = s_.sets.chosen;
        for (int32_t c = 0; c < w; ++c) {
            if (taken[c]) *next++ = c;
        }
    }

    double cost_of_column(int64_t c) const {
        double cost = 0;
        for (int64_t r = 0; r < g_.rows; ++r) {
            const double x = s_.reduced_weights[r * g_.width + c];
            cost += x * x / s_.reduced[r * g_.apart + c * g_.width + c];
        }
        return cost;
    }

    void remove_column(int64_t c) {
        const int64_t w = g_.width;
        for (int64_t r = 0; r < g_.rows; ++r) {
            const double* m = s_.reduced + r * g_.apart;
            double* x = s_.reduced_weights + r * w;
            const double factor = x[c] / m[c * w + c];
            for (int64_t i = 0; i < w; ++i) x[i] -= m[c * w + i] * factor;
        }
        for (int64_t k = 0; k < matrices_; ++k) {
            double* m = s_.reduced + k * w * w;
            const double pivot = m[c * w + c];
            for (int64_t i = 0; i < w; ++i) {
                if (i == c) continue;
                const double factor = m[i * w + c] / pivot;
                for (int64_t j = 0; j < w; ++j) m[i * w + j] -= factor * m[c * w + j];
            }
        }
    }

    // Drops one or two of the chosen columns in each row: those that cost least, of equal ones the
    // last. With C the chosen columns, (B_CC)^-1 is the inverse curvature once the others are gone.
    void keep_in_rows() {
        const int64_t size = budget_;
        double* subset = s_.reduced;  // no longer needed; has room for size x size a matrix
        for (int64_t k = 0; k < matrices_; ++k) {
            for (int64_t i = 0; i < size * size; ++i) {
                subset[k * size * size + i] =
                    s_.curvature[k * g_.width * g_.width + s_.sets.chosen[i / size] * g_.width +
                                 s_.sets.chosen[i % size]];
            }
        }
        invert_all(subset, size, s_.subset);
        for (int64_t r = 0; r < g_.rows; ++r) {
            keep_in_row(r, s_.subset + (g_.apart == 0 ? 0 : r * size * size));
        }
    }

    void keep_in_row(int64_t r, const double* m) {
        const int64_t size = budget_;
        double* x = s_.states;  // the weights of the chosen columns once the others are gone
        for (int64_t i = 0; i < size; ++i) {
            x[i] = 0;
            for (int64_t j = 0; j < size; ++j) x[i] += m[i * size + j] * images(r)[chosen(j)];
        }
        const bool two = size - n_ == 2;
        int64_t out[2] = {0, two ? 1 : 0};
        double least = std::numeric_limits<double>::infinity();
        for (int64_t i = 0; i < size; ++i) {
            for (int64_t j = two ? i + 1 : i; j < (two ? size : i + 1); ++j) {
                const double cost =
                    two ? pair_form(m, size, x, i, j) : x[i] * x[i] / m[i * size + i];
                if (!(cost <= least)) continue;
                least = cost;
                out[0] = i;
                out[1] = j;
            }
        }
        double z[2] = {x[out[0]] / m[out[0] * size + out[0]], 0};
        if (two) solve_pair(m, size, x, out[0], out[1], z);
        int32_t* kept = s_.sets.trial;
        double* values = x + size;
        for (int64_t i = 0; i < size; ++i) {
            if (i == out[0] || i == out[1]) continue;
            *kept++ = chosen(i);
            *values++ =
                x[i] - m[out[0] * size + i] * z[0] - (two ? m[out[1] * size + i] * z[1] : 0);
        }
        finish_row(r, s_.sets.trial, x + size, n_);
    }

    int32_t chosen(int64_t i) const { return s_.sets.chosen[i]; }

    // Keeps `columns`, whose weights become `values`: z = B (w - v), where v holds the values.
    void finish_row(int64_t r, const int32_t* columns, const double* values, int64_t count) {
        double* z = choice_.multipliers + r * g_.width;
        std::copy_n(images(r), g_.width, z);
        for (int64_t k = 0; k < count; ++k) {
            const double* row = curvature(r) + columns[k] * g_.width;
            for (int64_t i = 0; i < g_.width; ++i) z[i] -= row[i] * values[k];
        }
        for (int64_t k = 0; k < count; ++k) {
            z[columns[k]] = 0;
            choice_.flags[r * g_.width + columns[k]] = 1;
        }
    }

    const obs_params& params_;
    const obs_group& g_;
    const group_scratch& s_;
    const obs_choice& choice_;
    int64_t n_;
    int64_t budget_;
    int64_t matrices_;
};

}  // namespace

group_scratch group_scratch::lay_out(arena& memory, const obs_params& params, int64_t rows,
                                     int64_t width, bool one_inverse) {
    const auto times = [](int64_t a, int64_t b) { return checked_mul(a, b, "workspace"); };
    const int64_t n = params.pattern.kept(width);
    const int64_t budget = params.pattern.budget(width);
    const int64_t square = times(width, width);
    const int64_t matrices = one_inverse ? 1 : rows;
    group_scratch s;
    s.curvature = memory.take<double>(times(matrices, square));
    s.reduced = memory.take<double>(n > 2 ? times(matrices, square) : 0);
    s.reduced_weights = memory.take<double>(n > 2 ? times(rows, width) : 0);
    s.images = memory.take<double>(times(rows, width));
    s.gains = memory.take<double>(n > 2 ? 0 : times(rows, times(width, width + 1) / 2));
    const int64_t of_score =
        std::max(top_two::state_size(rows, budget), best_pair::state_size(rows, budget));
    s.states = memory.take<double>(n > 2 ? 2 * budget : of_score);
    s.subset = memory.take<double>(n > 2 ? times(matrices, times(budget, budget)) : 0);
    s.inversion = memory.take<double>(times(2, square));
    s.sets = column_sets::lay_out(memory, width, budget);
    return s;
}

void choose_in_group(const obs_params& params, const obs_group& group, const group_scratch& scratch,
                     const obs_choice& choice) {
    group_choice(params, group, scratch, choice).run();
}

void throw_not_definite(double damping, int64_t column) {
    if (column < 0) {
        fail(status::invalid_value, "curvature with params->damping ", damping,
             " is not positive definite; raise params->damping");
    }
    fail(status::invalid_value, "curvature with params->damping ", damping,
         " is not positive definite at column ", column, "; raise params->damping");
}

}  // namespace magicube
