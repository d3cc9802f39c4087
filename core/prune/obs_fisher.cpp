// SPDX-License-Identifier: Apache-2.0
// The Fisher information of a row is estimated from s gradients as lambda I + sum g g^T / s and
// kept in diagonal blocks of B columns; its inverse is made by s rank-one updates (Woodbury), as
// in the optimal BERT surgeon (arXiv 2203.07259). A row group's blocks are made when the first
// group of columns that meets them is reached, and given up after the last one: what is in memory
// at a time are the blocks that meet one group. Pruned columns leave their block by elimination,
// so that all kept weights of a block go on making up for what is pruned later.
#include "core/prune/obs_forms.hpp"

namespace magicube {
namespace {

struct fisher_scratch {
    double* weights;   // rows x K, changed group by group
    double* local;     // those of the group
    double* inverse;   // of the group, one matrix a row
    double* blocks;    // ring x rows x B x B
    double* gradient;  // of a row's block
    double* image;     // inverse times gradient
    obs_choice choice;
    float* floats;
    group_scratch group;
};

class fisher_form {
  public:
    fisher_form(const context& ctx, const obs_operands& operands, const obs_params& params)
        : ctx_(ctx), o_(operands), params_(params), cut_{o_.weight, params_.pattern} {}

    int64_t bytes() const {
        arena memory(nullptr);
        lay_out(memory);
        return checked_mul(memory.bytes(), workers(), "workspace");
    }

    void run(void* workspace) {
        const double numbers = static_cast<double>(k()) * static_cast<double>(o_.weight.rows) *
                               static_cast<double>(samples());
        lambda_ = params_.damping * sum_of_squares(ctx_, o_.curvature) / numbers;
        require_value(lambda_ > 0, "curvature holds gradients that are all 0; they must not be");
        arena measure(nullptr);
        lay_out(measure);
        for_each_item(ctx_, workers(), cut_.row_groups(), [&](int64_t worker, int64_t group) {
            arena memory(static_cast<char*>(workspace) + worker * measure.bytes());
            prune_rows(group, lay_out(memory));
        });
    }

  private:
    int64_t k() const { return o_.weight.cols; }
    int64_t samples() const { return o_.curvature.batch_count; }
    int64_t side() const { return std::min<int64_t>(params_.fisher_block, k()); }
    int64_t workers() const { return worker_count(ctx_, cut_.row_groups()); }
    // Blocks that a group of columns can meet.
    int64_t ring() const { return (cut_.most_cols() - 1) / side() + 2; }

    fisher_scratch lay_out(arena& memory) const {
        const auto times = [](int64_t a, int64_t b) { return checked_mul(a, b, "workspace"); };
        const int64_t rows = cut_.most_rows();
        const int64_t width = cut_.most_cols();
        const int64_t area = times(rows, width);
        fisher_scratch s;
        s.weights = memory.take<double>(times(rows, k()));
        s.local = memory.take<double>(area);
        s.inverse = memory.take<double>(times(area, width));
        s.blocks = memory.take<double>(times(times(rows, ring()), side() * side()));
        s.gradient = memory.take<double>(side());
        s.image = memory.take<double>(side());
        s.choice.flags = memory.take<uint8_t>(area);
        s.choice.multipliers = memory.take<double>(area);
        s.floats = memory.take<float>(k());
        s.group = group_scratch::lay_out(memory, params_, rows, width, false);
        return s;
    }

    double* block_of(const fisher_scratch& s, int64_t block, int64_t row) const {
        return s.blocks + (block % ring() * cut_.most_rows() + row) * side() * side();
    }
    int64_t block_width(int64_t block) const { return std::min(side(), k() - block * side()); }

    void prune_rows(int64_t group, const fisher_scratch& s) const {
        const int64_t first_row = cut_.first_row(group);
        const int64_t rows = cut_.rows(group);
        for (int64_t r = 0; r < rows; ++r) {
            load_row(o_.weight, 0, first_row + r, 0, k(), s.weights + r * k());
        }
        int64_t made = 0;
        for (int64_t col = 0; col < k(); col += params_.pattern.m) {
            const int64_t width = cut_.width(col);
            for (; made * side() < col + width; ++made) {
                for (int64_t r = 0; r < rows; ++r) make_block(s, made, first_row, r);
            }
            for (int64_t r = 0; r < rows; ++r) gather(s, r, col, width);
            choose_in_group(params_, {rows, width, s.local, s.inverse, width * width}, s.group,
                            s.choice);
            store_flags(o_.mask, 0, first_row, rows, col, width, s.choice.flags);
            for (int64_t r = 0; r < rows; ++r) update(s, r, col, width);
        }
        for (int64_t r = 0; r < rows; ++r) {
            store_row(o_.updated, first_row + r, s.weights + r * k(), s.floats);
        }
    }

    // Inverse Fisher of one block of one row.
    void make_block(const fisher_scratch& s, int64_t block, int64_t first_row, int64_t r) const {
        const int64_t n = block_width(block);
        double* a = block_of(s, block, r);
        std::fill_n(a, side() * side(), 0.0);
        for (int64_t i = 0; i < n; ++i) a[i * side() + i] = 1 / lambda_;
        for (int64_t sample = 0; sample < samples(); ++sample) {
            load_row(o_.curvature, sample, first_row + r, block * side(), n, s.gradient);
            double scale = static_cast<double>(samples());
            for (int64_t i = 0; i < n; ++i) {
                s.image[i] = 0;
                for (int64_t j = 0; j < n; ++j) s.image[i] += a[i * side() + j] * s.gradient[j];
                scale += s.gradient[i] * s.image[i];
            }
            for (int64_t i = 0; i < n; ++i) {
                const double factor = s.image[i] / scale;
                for (int64_t j = 0; j < n; ++j) a[i * side() + j] -= factor * s.image[j];
            }
        }
    }

    // The group's part of a row's weights and of its inverse Fisher.
    void gather(const fisher_scratch& s, int64_t r, int64_t col, int64_t width) const {
        std::copy_n(s.weights + r * k() + col, width, s.local + r * width);
        double* a = s.inverse + r * width * width;
        for (int64_t i = 0; i < width; ++i) {
            for (int64_t j = 0; j < width; ++j) {
                const int64_t block = (col + i) / side();
                const bool same = block == (col + j) / side();
                a[i * width + j] =
                    same ? block_of(s, block, r)[(col + i) % side() * side() + (col + j) % side()]
                         : 0;
            }
        }
    }

    // Changes the weights of the blocks that the group meets, then takes the pruned columns out.
    void update(const fisher_scratch& s, int64_t r, int64_t col, int64_t width) const {
        double* w = s.weights + r * k();
        const double* z = s.choice.multipliers + r * width;
        const uint8_t* flags = s.choice.flags + r * width;
        for (int64_t i = 0; i < width; ++i) {
            if (flags[i]) continue;
            const int64_t block = (col + i) / side();
            const double* line = block_of(s, block, r) + (col + i) % side() * side();
            double* target = w + block * side();
            for (int64_t j = 0; j < block_width(block); ++j) target[j] -= z[i] * line[j];
        }
        for (int64_t i = 0; i < width; ++i) {
            if (flags[i]) continue;
            w[col + i] = 0;
            eliminate(block_of(s, (col + i) / side(), r), (col + i) % side());
        }
    }

    void eliminate(double* a, int64_t c) const {
        const int64_t n = side();
        const double pivot = a[c * n + c];
        if (!(pivot > 0)) throw_not_definite(params_.damping, -1);
        for (int64_t i = 0; i < n; ++i) {
            if (i == c) continue;
            const double factor = a[i * n + c] / pivot;
            for (int64_t j = 0; j < n; ++j) a[i * n + j] -= factor * a[c * n + j];
        }
        for (int64_t i = 0; i < n; ++i) a[c * n + i] = a[i * n + c] = 0;
    }

    const context& ctx_;
    const obs_operands& o_;
    const obs_params& params_;
    obs_cut cut_;
    double lambda_ = 0;
};

}  // namespace

int64_t fisher_form_bytes(const context& ctx, const dense_view& weight, const dense_view& gradients,
                          const obs_params& params) {
    obs_operands shapes;
    shapes.weight = weight;
    shapes.curvature = gradients;
    return fisher_form(ctx, shapes, params).bytes();
}

void prune_fisher_form(const context& ctx, const obs_operands& operands, const obs_params& params,
                       void* workspace) {
    fisher_form(ctx, operands, params).run(workspace);
}

}  // namespace magicube
