// SPDX-License-Identifier: Apache-2.0
// With U upper triangular and H^-1 = U^T U, the inverse of H restricted to columns c and on is the
// product of U's rows and columns c and on with themselves. So one U serves all rows: a group's A
// is made of its own rows of U, and the change of all later columns is a product with those rows.
// That leaves the kept weights of earlier groups as they were when later ones are pruned; where
// params ask for it, a second pass then solves H_SS v = (H w)_S for the kept columns S of every
// row, which is the best that the mask allows.
#include "core/prune/algebra.hpp"
#include "core/prune/obs_forms.hpp"
#include "core/types/runs.hpp"

namespace magicube {
namespace {

constexpr int64_t token_panel = 64;

// What all workers share.
struct shared {
    double* hessian;  // K x K
    double* root;     // U, K x K
    double* diagonal;
};

struct selecting {
    double* weights;  // rows x K, changed group by group
    double* local;    // those of the group
    double* inverse;
    obs_choice choice;
    double* steps;  // U z, width x rows
    float* floats;
    group_scratch group;
};

struct refitting {
    double* weights;
    double* system;
    double* solution;
    int64_t* kept;
    float* floats;
};

class layer_form {
  public:
    layer_form(const context& ctx, const obs_operands& operands, const obs_params& params)
        : ctx_(ctx), o_(operands), params_(params), cut_{o_.weight, params_.pattern} {}

    int64_t bytes() const {
        arena rest(nullptr);
        lay_out_shared(rest);
        const int64_t phases[] = {
            panel_bytes(),
            checked_mul(measure(&layer_form::lay_out_selecting), selectors(), "workspace"),
            params_.refit
                ? checked_mul(measure(&layer_form::lay_out_refitting), refitters(), "workspace")
                : 0};
        const int64_t largest = *std::max_element(std::begin(phases), std::end(phases));
        return checked_add(rest.bytes(), largest, "workspace");
    }

    void run(void* workspace) {
        arena memory(workspace);
        s_ = lay_out_shared(memory);
        char* rest = static_cast<char*>(workspace) + memory.bytes();
        make_hessian(rest);
        make_root();
        const int64_t of_selector = measure(&layer_form::lay_out_selecting);
        for_each_item(ctx_, selectors(), cut_.row_groups(), [&](int64_t worker, int64_t group) {
            arena own(rest + worker * of_selector);
            select(group, lay_out_selecting(own));
        });
        if (!params_.refit) return;
        const int64_t of_refitter = measure(&layer_form::lay_out_refitting);
        for_each_item(ctx_, refitters(), o_.weight.rows, [&](int64_t worker, int64_t row) {
            arena own(rest + worker * of_refitter);
            refit(row, lay_out_refitting(own));
        });
    }

  private:
    int64_t k() const { return o_.weight.cols; }
    int64_t selectors() const { return worker_count(ctx_, cut_.row_groups()); }
    int64_t refitters() const { return worker_count(ctx_, o_.weight.rows); }

    // Kept weights of a row.
    int64_t kept_of_row() const {
        const int64_t m = params_.pattern.m;
        return k() / m * params_.pattern.n + params_.pattern.kept(k() % m);
    }

    template <class Result>
    int64_t measure(Result (layer_form::*lay_out)(arena&) const) const {
        arena memory(nullptr);
        (this->*lay_out)(memory);
        return memory.bytes();
    }

    shared lay_out_shared(arena& memory) const {
        const int64_t square = checked_mul(k(), k(), "workspace");
        shared s;
        s.hessian = memory.take<double>(square);
        s.root = memory.take<double>(square);
        s.diagonal = memory.take<double>(k());
        return s;
    }

    int64_t panel_bytes() const {
        arena memory(nullptr);
        memory.take<double>(checked_mul(token_panel, k(), "workspace"));
        return memory.bytes();
    }

    selecting lay_out_selecting(arena& memory) const {
        const int64_t rows = cut_.most_rows();
        const int64_t width = cut_.most_cols();
        const int64_t area = checked_mul(rows, width, "workspace");
        selecting s;
        s.weights = memory.take<double>(checked_mul(rows, k(), "workspace"));
        s.local = memory.take<double>(area);
        s.inverse = memory.take<double>(checked_mul(width, width, "workspace"));
        s.choice.flags = memory.take<uint8_t>(area);
        s.choice.multipliers = memory.take<double>(area);
        s.steps = memory.take<double>(area);
        s.floats = memory.take<float>(k());
        s.group = group_scratch::lay_out(memory, params_, rows, width, true);
        return s;
    }

    refitting lay_out_refitting(arena& memory) const {
        const int64_t kept = kept_of_row();
        refitting s;
        s.weights = memory.take<double>(k());
        s.system = memory.take<double>(checked_mul(kept, kept, "workspace"));
        s.solution = memory.take<double>(kept);
        s.kept = memory.take<int64_t>(kept);
        s.floats = memory.take<float>(k());
        return s;
    }

    // H = X^T X or as given, plus the damping; the upper triangle.
    void make_hessian(void* rest) {
        std::fill_n(s_.hessian, k() * k(), 0.0);
        if (params_.curvature == curvature_kind::hessian) {
            for (int64_t i = 0; i < k(); ++i) {
                load_row(o_.curvature, 0, i, i, k() - i, s_.hessian + i * k() + i);
            }
        } else {
            add_inputs(static_cast<double*>(rest));
        }
        double trace = 0;
        for (int64_t i = 0; i < k(); ++i) trace += s_.hessian[i * k() + i];
        const double damping = params_.damping * trace / static_cast<double>(k());
        for (int64_t i = 0; i < k(); ++i) s_.hessian[i * k() + i] += damping;
    }

    void add_inputs(double* panel) {
        const int64_t tokens = o_.curvature.rows;
        for (int64_t i = 0; i < checked_mul(tokens, o_.curvature.batch_count, "tokens");) {
            const int64_t batch = i / tokens;
            const int64_t first = i % tokens;
            const int64_t count = std::min(token_panel, tokens - first);
            ctx_.parallel(count, 4, [&](int64_t begin, int64_t end) {
                for (int64_t t = begin; t < end; ++t) {
                    load_row(o_.curvature, batch, first + t, 0, k(), panel + t * k());
                }
            });
            add_product(ctx_, 1, count, panel, k(), k(), panel, k(), k(), s_.hessian, k(),
                        part::upper);
            i += count;
        }
    }

    // U, from the Cholesky factor of H with rows and columns in reverse order; H whole again after.
    void make_root() {
        const int64_t n = k();
        double* h = s_.hessian;
        for (int64_t i = 0; i < n; ++i) {
            s_.diagonal[i] = h[i * n + i];
            for (int64_t j = 0; j < i; ++j) h[i * n + j] = h[j * n + i];
        }
        std::reverse(h, h + n * n);
        const int64_t failed = cholesky(ctx_, h, n, n);
        if (failed >= 0) throw_not_definite(params_.damping, n - 1 - failed);
        invert_transposed(ctx_, h, n, n, s_.root, n);
        std::reverse(s_.root, s_.root + n * n);
        std::reverse(h, h + n * n);
        for (int64_t i = 0; i < n; ++i) {
            h[i * n + i] = s_.diagonal[i];
            for (int64_t j = 0; j < i; ++j) h[i * n + j] = h[j * n + i];
        }
    }

    void select(int64_t group, const selecting& s) const {
        const int64_t first_row = cut_.first_row(group);
        const int64_t rows = cut_.rows(group);
        for (int64_t r = 0; r < rows; ++r) {
            load_row(o_.weight, 0, first_row + r, 0, k(), s.weights + r * k());
        }
        for (int64_t col = 0; col < k(); col += params_.pattern.m) {
            const int64_t width = cut_.width(col);
            select_in_group(rows, col, width, s);
            store_flags(o_.mask, 0, first_row, rows, col, width, s.choice.flags);
        }
        for (int64_t r = 0; r < rows && !params_.refit; ++r) {
            store_row(o_.updated, first_row + r, s.weights + r * k(), s.floats);
        }
    }

    void select_in_group(int64_t rows, int64_t col, int64_t width, const selecting& s) const {
        const double* root = s_.root + col * k() + col;  // U's rows of the group, from col on
        std::fill_n(s.inverse, width * width, 0.0);
        add_product(ctx_, 1, width, root, k(), width, root, k(), width, s.inverse, width);
        for (int64_t r = 0; r < rows; ++r) {
            std::copy_n(s.weights + r * k() + col, width, s.local + r * width);
        }
        choose_in_group(params_, {rows, width, s.local, s.inverse, 0}, s.group, s.choice);
        for (int64_t i = 0; i < width; ++i) {
            for (int64_t r = 0; r < rows; ++r) {
                double sum = 0;
                for (int64_t j = i; j < width; ++j) {
                    sum += root[i * k() + j] * s.choice.multipliers[r * width + j];
                }
                s.steps[i * rows + r] = sum;
            }
        }
        add_product(ctx_, -1, width, s.steps, rows, rows, root, k(), k() - col, s.weights + col,
                    k());
        for (int64_t i = 0; i < rows * width; ++i) {
            if (!s.choice.flags[i]) s.weights[i / width * k() + col + i % width] = 0;
        }
    }

    void refit(int64_t row, const refitting& s) const {
        const auto* mask = static_cast<const uint8_t*>(o_.mask.values);
        int64_t count = 0;
        for (int64_t c = 0; c < k(); ++c) {
            if (mask[o_.mask.index(0, row, c)]) s.kept[count++] = c;
        }
        load_row(o_.weight, 0, row, 0, k(), s.weights);
        for (int64_t i = 0; i < count; ++i) {
            const double* line = s_.hessian + s.kept[i] * k();
            double sum = 0;
            for (int64_t c = 0; c < k(); ++c) sum += line[c] * s.weights[c];
            s.solution[i] = sum;
            for (int64_t j = i; j < count; ++j) s.system[i * count + j] = line[s.kept[j]];
        }
        const int64_t failed = cholesky(ctx_, s.system, count, count);
        if (failed >= 0) throw_not_definite(params_.damping, s.kept[failed]);
        solve(s.system, count, count, s.solution);
        std::fill_n(s.weights, k(), 0.0);
        for (int64_t i = 0; i < count; ++i) s.weights[s.kept[i]] = s.solution[i];
        store_row(o_.updated, row, s.weights, s.floats);
    }

    const context& ctx_;
    const obs_operands& o_;
    const obs_params& params_;
    obs_cut cut_;
    shared s_ = {};
};

}  // namespace

int64_t layer_form_bytes(const context& ctx, const dense_view& weight, const obs_params& params) {
    obs_operands shapes;
    shapes.weight = weight;
    return layer_form(ctx, shapes, params).bytes();
}

void prune_layer_form(const context& ctx, const obs_operands& operands, const obs_params& params,
                      void* workspace) {
    layer_form(ctx, operands, params).run(workspace);
}

}  // namespace magicube
