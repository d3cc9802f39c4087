// SPDX-License-Identifier: Apache-2.0
// Second-order pruning straight from its definition: every cost is a linear system solved by Gauss,
// every inverse that of the curvature restricted to what is still free.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace support {

using numbers = std::vector<double>;
using indices = std::vector<int>;

struct square {
    int n = 0;
    numbers a;

    explicit square(int size) : n(size), a(static_cast<size_t>(size * size), 0.0) {}
    double& at(int i, int j) { return a[static_cast<size_t>(i * n + j)]; }
    double at(int i, int j) const { return a[static_cast<size_t>(i * n + j)]; }
    square restricted(const indices& set) const {
        square result(static_cast<int>(set.size()));
        for (int i = 0; i < result.n; ++i)
            for (int j = 0; j < result.n; ++j)
                result.at(i, j) = at(set[static_cast<size_t>(i)], set[static_cast<size_t>(j)]);
        return result;
    }
};

// m^-1 b of several columns, row after row, by elimination with the largest pivot of each column.
inline numbers gauss(square m, numbers b) {
    const int columns = m.n == 0 ? 0 : static_cast<int>(b.size()) / m.n;
    const auto right = [&](int i, int j) -> double& {
        return b[static_cast<size_t>(i * columns + j)];
    };
    for (int k = 0; k < m.n; ++k) {
        int best = k;
        for (int i = k + 1; i < m.n; ++i)
            if (std::fabs(m.at(i, k)) > std::fabs(m.at(best, k))) best = i;
        for (int j = 0; j < m.n; ++j) std::swap(m.at(k, j), m.at(best, j));
        for (int j = 0; j < columns; ++j) std::swap(right(k, j), right(best, j));
        for (int i = 0; i < m.n; ++i) {
            if (i == k) continue;
            const double factor = m.at(i, k) / m.at(k, k);
            for (int j = k; j < m.n; ++j) m.at(i, j) -= factor * m.at(k, j);
            for (int j = 0; j < columns; ++j) right(i, j) -= factor * right(k, j);
        }
    }
    for (int k = 0; k < m.n; ++k)
        for (int j = 0; j < columns; ++j) right(k, j) /= m.at(k, k);
    return b;
}

inline square inverse_of(const square& m) {
    square unit(m.n);
    for (int i = 0; i < m.n; ++i) unit.at(i, i) = 1;
    unit.a = gauss(m, unit.a);
    return unit;
}

inline numbers picked(const numbers& x, const indices& set) {
    numbers result;
    for (const int i : set) result.push_back(x[static_cast<size_t>(i)]);
    return result;
}

// (A_PP)^-1 w_P, and what pruning P costs.
inline numbers multipliers(const square& a, const numbers& w, const indices& p) {
    return gauss(a.restricted(p), picked(w, p));
}
inline double saliency(const square& a, const numbers& w, const indices& p) {
    if (p.empty()) return 0;
    const numbers z = multipliers(a, w, p);
    double sum = 0;
    for (size_t i = 0; i < p.size(); ++i) sum += w[static_cast<size_t>(p[i])] * z[i];
    return sum / 2;
}

inline indices without(int width, const indices& kept) {
    indices rest;
    for (int c = 0; c < width; ++c) {
        bool found = false;
        for (const int k : kept) found = found || k == c;
        if (!found) rest.push_back(c);
    }
    return rest;
}

// Every set of `size` of the given columns, in lexicographic order.
inline void each_subset(const indices& of, size_t size,
                        const std::function<void(const indices&)>& visit) {
    indices set;
    const std::function<void(size_t)> grow = [&](size_t first) {
        if (set.size() == size) return visit(set);
        for (size_t i = first; i < of.size(); ++i) {
            set.push_back(of[i]);
            grow(i + 1);
            set.pop_back();
        }
    };
    grow(0);
}

struct obs_case {
    int v;
    int n;
    int m;
    bool pairwise = false;
    bool one_curvature = true;  // layer-wise: weights of earlier groups are not changed
    bool refit = true;
};

struct obs_result {
    std::vector<indices> kept;  // columns of each row
    std::vector<numbers> weights;
};

// What each row of a group keeps, given A and the weights of each row within the group.
class group_oracle {
  public:
    group_oracle(const obs_case& c, std::vector<square> inverses, std::vector<numbers> weights)
        : c_(c), a_(std::move(inverses)), w_(std::move(weights)), width_(a_[0].n) {}

    std::vector<indices> kept() const {
        const int n = std::min(c_.n, width_);
        const int budget = std::min(c_.n > 3 ? c_.n + 2 : 4, width_);
        const indices columns = n <= 2 ? best_columns(n, budget) : columns_left(budget);
        std::vector<indices> result;
        for (size_t r = 0; r < w_.size(); ++r) result.push_back(best_of(r, columns, n).first);
        return result;
    }

  private:
    // What is lost by keeping Q alone; pair-wise, minus what removing Q alone would cost.
    double loss(size_t r, const indices& q) const {
        return c_.pairwise && q.size() <= 2 ? -saliency(a_[r], w_[r], q)
                                            : saliency(a_[r], w_[r], without(width_, q));
    }
    std::pair<indices, double> best_of(size_t r, const indices& columns, int n) const {
        std::pair<indices, double> best{{}, std::numeric_limits<double>::infinity()};
        each_subset(columns, static_cast<size_t>(n), [&](const indices& q) {
            const double cost = loss(r, q);
            if (cost < best.second) best = {q, cost};
        });
        return best;
    }
    indices best_columns(int n, int budget) const {
        indices best;
        double least = std::numeric_limits<double>::infinity();
        each_subset(without(width_, {}), static_cast<size_t>(budget), [&](const indices& set) {
            double sum = 0;
            for (size_t r = 0; r < w_.size(); ++r) sum += best_of(r, set, n).second;
            if (sum >= least) return;
            least = sum;
            best = set;
        });
        return best;
    }
    indices columns_left(int budget) const {
        indices removed;
        while (width_ - static_cast<int>(removed.size()) > budget) {
            double least = std::numeric_limits<double>::infinity();
            int column = -1;
            for (const int c : without(width_, removed)) {
                indices more = removed;
                more.push_back(c);
                double sum = 0;
                for (size_t r = 0; r < w_.size(); ++r) sum += saliency(a_[r], w_[r], more);
                if (sum >= least) continue;
                least = sum;
                column = c;
            }
            removed.push_back(column);
        }
        return without(width_, removed);
    }

    obs_case c_;
    std::vector<square> a_;
    std::vector<numbers> w_;
    int width_;
};

// The change of all weights that pruning P asks for, with everything free.
inline numbers closed_form(const square& curvature, numbers w, const indices& p) {
    const square a = inverse_of(curvature);
    if (p.empty()) return w;
    const numbers z = multipliers(a, w, p);
    for (int i = 0; i < a.n; ++i)
        for (size_t j = 0; j < p.size(); ++j) w[static_cast<size_t>(i)] -= a.at(i, p[j]) * z[j];
    for (const int c : p) w[static_cast<size_t>(c)] = 0;
    return w;
}

// curvatures: one, or one a row.
inline obs_result obs_oracle(const obs_case& c, const std::vector<square>& curvatures,
                             const std::vector<numbers>& weights) {
    const int rows = static_cast<int>(weights.size());
    const int k = static_cast<int>(weights[0].size());
    const auto curvature = [&](int r) -> const square& {
        return curvatures[curvatures.size() == 1 ? 0 : static_cast<size_t>(r)];
    };
    obs_result result{std::vector<indices>(weights.size()), weights};
    std::vector<indices> pruned(weights.size());
    for (int row = 0; row < rows; row += c.v)
        for (int col = 0; col < k; col += c.m) {
            const int width = std::min(c.m, k - col);
            const int count = std::min(c.v, rows - row);
            indices group;
            for (int i = 0; i < width; ++i) group.push_back(col + i);
            std::vector<square> inverses;
            std::vector<numbers> local;
            std::vector<square> whole;  // the inverse over all columns, 0 where nothing is free
            for (int r = row; r < row + count; ++r) {
                indices fixed = pruned[static_cast<size_t>(r)];
                if (c.one_curvature) {
                    fixed.clear();
                    for (int i = 0; i < col; ++i) fixed.push_back(i);
                }
                const indices free = without(k, fixed);
                const square inverse = inverse_of(curvature(r).restricted(free));
                square spread(k);
                for (int i = 0; i < inverse.n; ++i)
                    for (int j = 0; j < inverse.n; ++j)
                        spread.at(free[static_cast<size_t>(i)], free[static_cast<size_t>(j)]) =
                            inverse.at(i, j);
                whole.push_back(spread);
                inverses.push_back(spread.restricted(group));
                local.push_back(picked(result.weights[static_cast<size_t>(r)], group));
            }
            const auto kept = group_oracle(c, inverses, local).kept();
            for (int r = 0; r < count; ++r) {
                const auto at = static_cast<size_t>(row + r);
                const auto here = static_cast<size_t>(r);
                for (const int q : kept[here]) result.kept[at].push_back(col + q);
                const indices p = without(width, kept[here]);
                if (p.empty()) continue;
                const numbers z = multipliers(inverses[here], local[here], p);
                for (int i = 0; i < k; ++i)
                    for (size_t j = 0; j < p.size(); ++j)
                        result.weights[at][static_cast<size_t>(i)] -=
                            whole[here].at(i, col + p[j]) * z[j];
                for (const int i : p) {
                    result.weights[at][static_cast<size_t>(col + i)] = 0;
                    pruned[at].push_back(col + i);
                }
            }
        }
    for (int r = 0; r < rows && c.one_curvature && c.refit; ++r) {
        const auto at = static_cast<size_t>(r);
        result.weights[at] = closed_form(curvature(r), weights[at], pruned[at]);
    }
    return result;
}

}  // namespace support
