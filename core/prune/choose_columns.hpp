// SPDX-License-Identifier: Apache-2.0
// Which columns of a group the rows of a V:N:M block share.
//
// A score gives a set of columns a number, the sum over the rows of what each row keeps of them. It
// grows set by set: extend(d, chosen) makes the state of chosen[0..d] from that of chosen[0..d),
// and value(d) is the number of the first d columns. Up to 2,000 sets all are tried. Above that
// columns are taken one by one, the best first, and then exchanged one for one as long as that
// helps; the tests hold this to 98 % of the best set's score.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "core/prune/workers.hpp"

namespace magicube {

constexpr int64_t most_exhaustive_sets = 2000;
constexpr int most_exchanges = 64;

// Whether there are at most 2,000 sets of `budget` of `width` columns.
inline bool tries_all_sets(int64_t width, int64_t budget) {
    int64_t sets = 1;
    for (int64_t i = 0; i < std::min(budget, width - budget); ++i) {
        sets = sets * (width - i) / (i + 1);
        if (sets > most_exhaustive_sets) return false;
    }
    return true;
}

// The sum over rows of the one or two largest scores among the chosen columns.
class top_two {
  public:
    // scores: column after column, `rows` each, none negative.
    top_two(const double* scores, int64_t rows, int64_t n, double* states)
        : scores_(scores), rows_(rows), n_(n), states_(states) {
        std::fill_n(states, 2 * rows, 0.0);
    }
    static int64_t state_size(int64_t rows, int64_t budget) {
        return checked_mul(checked_mul(budget + 1, 2, "workspace"), rows, "workspace");
    }

    void extend(int64_t depth, const int32_t* chosen) {
        const double* column = scores_ + chosen[depth] * rows_;
        const double* from = states_ + depth * 2 * rows_;
        double* to = states_ + (depth + 1) * 2 * rows_;
        for (int64_t r = 0; r < rows_; ++r) {
            const double largest = from[r];
            to[r] = std::max(largest, column[r]);
            to[rows_ + r] = std::max(from[rows_ + r], std::min(largest, column[r]));
        }
    }
    double value(int64_t depth) const {
        const double* largest = states_ + depth * 2 * rows_;
        double sum = 0;
        for (int64_t r = 0; r < rows_; ++r) {
            sum += n_ == 1 ? largest[r] : largest[r] + largest[rows_ + r];
        }
        return sum;
    }

  private:
    const double* scores_;
    int64_t rows_;
    int64_t n_;
    double* states_;
};

// The sum over rows of all but the least scores among the chosen columns: of all beyond `n`, which
// are two at most.
class all_but_least {
  public:
    all_but_least(const double* scores, int64_t rows, int64_t n, double* states)
        : scores_(scores), rows_(rows), n_(n), states_(states) {
        std::fill_n(states, rows, 0.0);
        std::fill_n(states + rows, 2 * rows, std::numeric_limits<double>::infinity());
    }
    static int64_t state_size(int64_t rows, int64_t budget) {
        return checked_mul(checked_mul(budget + 1, 3, "workspace"), rows, "workspace");
    }

    void extend(int64_t depth, const int32_t* chosen) {
        const double* column = scores_ + chosen[depth] * rows_;
        const double* from = states_ + depth * 3 * rows_;
        double* to = states_ + (depth + 1) * 3 * rows_;
        for (int64_t r = 0; r < rows_; ++r) {
            const double least = from[rows_ + r];
            to[r] = from[r] + column[r];
            to[rows_ + r] = std::min(least, column[r]);
            to[2 * rows_ + r] = std::min(from[2 * rows_ + r], std::max(least, column[r]));
        }
    }
    double value(int64_t depth) const {
        const int64_t dropped = std::max<int64_t>(depth - n_, 0);
        const double* state = states_ + depth * 3 * rows_;
        double sum = 0;
        for (int64_t r = 0; r < rows_; ++r) {
            double kept = state[r];
            for (int64_t i = 1; i <= dropped; ++i) kept -= state[i * rows_ + r];
            sum += kept;
        }
        return sum;
    }

  private:
    const double* scores_;
    int64_t rows_;
    int64_t n_;
    double* states_;
};

// The sum over rows of the best pair's gain among the chosen columns.
class best_pair {
  public:
    // Gains of pairs i <= j, pair after pair, `rows` each; pair (i, i) is column i alone.
    best_pair(const double* gains, int64_t rows, double* states)
        : gains_(gains), rows_(rows), states_(states) {}
    static int64_t state_size(int64_t rows, int64_t budget) {
        return checked_mul(budget + 1, rows, "workspace");
    }
    static int64_t pair_index(int64_t i, int64_t j) { return j * (j + 1) / 2 + i; }

    const double* gain(int64_t a, int64_t b) const {
        return gains_ + pair_index(std::min(a, b), std::max(a, b)) * rows_;
    }
    void extend(int64_t depth, const int32_t* chosen) {
        double* to = states_ + (depth + 1) * rows_;
        const int64_t column = chosen[depth];
        std::copy_n(depth == 0 ? gain(column, column) : to - rows_, rows_, to);
        for (int64_t i = 0; i < depth; ++i) {
            const double* pair = gain(chosen[i], column);
            for (int64_t r = 0; r < rows_; ++r) to[r] = std::max(to[r], pair[r]);
        }
    }
    double value(int64_t depth) const {
        const double* state = states_ + depth * rows_;
        return std::accumulate(state, state + rows_, 0.0);
    }

  private:
    const double* gains_;
    int64_t rows_;
    double* states_;
};

// Scratch of choose_columns, and its result.
struct column_sets {
    int32_t* chosen = nullptr;  // ascending
    int32_t* trial = nullptr;
    uint8_t* taken = nullptr;  // a flag a column

    static column_sets lay_out(arena& memory, int64_t width, int64_t budget) {
        column_sets result;
        result.chosen = memory.take<int32_t>(budget);
        result.trial = memory.take<int32_t>(budget);
        result.taken = memory.take<uint8_t>(width);
        return result;
    }
};

// The next set in lexicographic order; returns the first place that changed, -1 after the last.
inline int64_t next_set(int32_t* set, int64_t budget, int64_t width) {
    int64_t place = budget - 1;
    while (place >= 0 && set[place] == width - budget + place) --place;
    if (place < 0) return -1;
    ++set[place];
    for (int64_t i = place + 1; i < budget; ++i) set[i] = set[i - 1] + 1;
    return place;
}

template <class Score>
void choose_among_all(Score& score, int64_t width, int64_t budget, const column_sets& sets) {
    std::iota(sets.trial, sets.trial + budget, 0);
    std::copy_n(sets.trial, budget, sets.chosen);
    double best = -std::numeric_limits<double>::infinity();
    for (int64_t place = 0; place >= 0; place = next_set(sets.trial, budget, width)) {
        for (int64_t d = place; d < budget; ++d) score.extend(d, sets.trial);
        const double value = score.value(budget);
        if (value > best) {
            best = value;
            std::copy_n(sets.trial, budget, sets.chosen);
        }
    }
}

// Puts the column that is best beside trial[0..depth) there; returns the score with it.
template <class Score>
double add_best(Score& score, int64_t width, int64_t depth, const column_sets& sets) {
    double best = -std::numeric_limits<double>::infinity();
    int32_t best_column = -1;
    for (int32_t column = 0; column < width; ++column) {
        if (sets.taken[column]) continue;
        if (best_column < 0) best_column = column;
        sets.trial[depth] = column;
        score.extend(depth, sets.trial);
        const double value = score.value(depth + 1);
        if (value > best) {
            best = value;
            best_column = column;
        }
    }
    sets.trial[depth] = best_column;
    return best;
}

// The best exchange of one chosen column for another; false if none gains.
template <class Score>
bool exchange(Score& score, int64_t width, int64_t budget, const column_sets& sets, double& best) {
    int64_t out = -1;
    int32_t in = -1;
    for (int64_t place = 0; place < budget; ++place) {
        std::copy_n(sets.chosen, place, sets.trial);
        std::copy(sets.chosen + place + 1, sets.chosen + budget, sets.trial + place);
        for (int64_t d = 0; d + 1 < budget; ++d) score.extend(d, sets.trial);
        const double value = add_best(score, width, budget - 1, sets);
        if (value > best) {
            best = value;
            out = place;
            in = sets.trial[budget - 1];
        }
    }
    if (out < 0) return false;
    sets.taken[sets.chosen[out]] = 0;
    sets.taken[in] = 1;
    sets.chosen[out] = in;
    return true;
}

template <class Score>
void choose_one_by_one(Score& score, int64_t width, int64_t budget, const column_sets& sets) {
    std::fill_n(sets.taken, width, uint8_t{0});
    double best = 0;
    for (int64_t d = 0; d < budget; ++d) {
        best = add_best(score, width, d, sets);
        score.extend(d, sets.trial);
        sets.taken[sets.trial[d]] = 1;
    }
    std::copy_n(sets.trial, budget, sets.chosen);
    for (int i = 0; i < most_exchanges; ++i) {
        if (!exchange(score, width, budget, sets, best)) break;
    }
    std::sort(sets.chosen, sets.chosen + budget);
}

// Writes the chosen columns of a group, ascending. Ties go to the set that comes first in
// lexicographic order where all are tried.
template <class Score>
void choose_columns(Score& score, int64_t width, int64_t budget, const column_sets& sets) {
    if (tries_all_sets(width, budget)) return choose_among_all(score, width, budget, sets);
    choose_one_by_one(score, width, budget, sets);
}

}  // namespace magicube
