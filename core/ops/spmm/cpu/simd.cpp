// SPDX-License-Identifier: Apache-2.0
// SpMM with the processor's SIMD instructions (simd_kernels.hpp), chosen at run time.
//
// A is packed in the plan, or for values of each call in the workspace; B is packed a call into
// tiles of 64 columns, or of 16 where C has few (simd_pack.hpp). A task is one block row and one
// tile: the rows of B that 64 groups of slots name are interleaved into a panel of 16 KiB, which
// the L1 cache holds, and multiplied by all V rows; one or two rows are multiplied as B's rows
// arrive. Floats of which each row has two in four slots (an A in V:N:M) are multiplied one by one,
// with rows of the tile itself. Sums of the tile stay on the stack. Where a block row is too long
// for 32 bits, the sums of each segment are folded into 64 bits; a 16-bit B makes two passes, one a
// plane. Neighbouring tasks share a tile of B, which the L2 cache holds up to some 10,000 rows.
#include <algorithm>

#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/spmm/cpu/simd_pack.hpp"
#include "core/ops/spmm/spmm.hpp"
#include "core/ops/unpack.hpp"

namespace magicube::spmm {
namespace cpu {
namespace {

// Of B packed at once, unless one tile takes more.
constexpr int64_t packed_b_limit = int64_t{32} << 20;
constexpr int64_t largest_tile = int64_t{64} << 20;

int64_t tile_bytes(const problem& p, const packing& how) {
    return checked_mul(p.pattern.cols, how.row_bytes() * how.planes, "a packed tile of B");
}

int64_t value_arrays(const sr_bcrs_view& a) {
    return separate_values(a) ? a.batch_count : std::min<int64_t>(a.batch_count, 1);
}

// Sections of a plan's buffer and of the workspace.
struct sections {
    int64_t array_units;  // of one packed array of A
    int64_t starts;       // offsets into the plan's buffer, after the stored pattern
    int64_t plan_a;
    int64_t plan_bytes;
    int64_t workspace_b;  // offset into the workspace, after A packed for the call
    int64_t packed_b_bytes;
    int64_t workspace_bytes;

    sections(const problem& p, const packing& how, int64_t stored_bytes)
        : array_units(packed_a_units(p.pattern, how)) {
        const auto& a = p.pattern;
        const bool per_call = p.values == value_mode::per_call;
        const int64_t a_bytes = checked_mul(checked_mul(array_units, 4, "problem's packed values"),
                                            value_arrays(a), "problem's packed values");
        buffer_layout plan;
        plan.reserve(stored_bytes, 1, "problem's pattern");
        starts = plan.reserve(a.block_rows() * (a.different_patterns ? a.batch_count : 1),
                              sizeof(int64_t), "problem's block rows");
        plan_a = plan.reserve(per_call ? 0 : a_bytes, 1, "problem's packed values");
        plan_bytes = plan.bytes();

        buffer_layout work;
        work.reserve(per_call ? a_bytes : 0, 1, "problem's packed values");
        const int64_t all_tiles =
            checked_mul(ceil_div(p.n_max, how.tile_cols), std::max<int64_t>(p.batch_count, 1),
                        "problem's tiles of columns");
        const int64_t bytes = tile_bytes(p, how);
        const int64_t at_once =
            std::min(all_tiles, std::max<int64_t>(packed_b_limit / std::max<int64_t>(bytes, 1), 1));
        packed_b_bytes = at_once * bytes;
        workspace_b = work.reserve(at_once, bytes, "B's packed tiles");
        workspace_bytes = work.bytes();
    }
};

// One execution.
struct multiplication {
    const problem& shape;
    const arguments& args;
    const packing& how;
    const sr_bcrs_view& a;  // the pattern
    const int64_t* starts;
    const uint32_t* packed_a;
    int64_t matrix_units;  // between packed arrays of the batch; 0: one serves all
    bool long_sums;        // 32 bits hold a segment's sums, but not a row's
    finish_function finish;
    const char* packed_b = nullptr;
    tile_range tiles{};
    bool shared_b = false;

    int64_t tasks() const {
        return tiles.count * a.block_rows() * (shared_b ? shape.batch_count : 1);
    }
};

// Holds the thread's matrix registers ready while it lives, if the product uses them.
class matrix_session {
  public:
    matrix_session(const packing& how, int64_t pitch) : kernels_(*how.kernels) {
        if (kernels_.enter) kernels_.enter(pitch);
    }
    matrix_session(const matrix_session&) = delete;
    matrix_session& operator=(const matrix_session&) = delete;
    ~matrix_session() {
        if (kernels_.leave) kernels_.leave();
    }

  private:
    const product_kernels& kernels_;
};

// sums += factor * part
void fold(const uint32_t* part, int64_t count, int64_t factor, int64_t* sums) {
    for (int64_t i = 0; i < count; ++i) sums[i] += factor * static_cast<int32_t>(part[i]);
}

struct block_row {
    const uint32_t* packed;
    int64_t begin;
    int64_t end;
    int64_t rows;  // that exist, of V
};

// Sums of a block row with one plane of a tile of B. Those of a row that is too long are added to
// `wide`, multiplied by factor.
void multiply_plane(const multiplication& m, const block_row& of, const char* plane, int64_t factor,
                    uint32_t* sums, int64_t* wide) {
    alignas(64) uint32_t panel[segment_groups * wide_tile];
    const auto& kernels = *m.how.kernels;
    const int64_t pitch = m.a.vector_length;
    const uint32_t* segment = of.packed;
    for (int64_t slot = of.begin; slot < of.end; slot += m.how.segment_slots()) {
        const int64_t slots = std::min(m.how.segment_slots(), of.end - slot);
        const int64_t groups = ceil_div(slots, slots_per_group(m.how.kind));
        const bool first = m.long_sums || slot == of.begin;
        const auto direct = pitch <= 2 && of.rows == pitch ? kernels.direct[pitch - 1] : nullptr;
        if (kernels.multiply_matrix) {
            kernels.multiply_matrix(plane, m.a.col_indices + slot, slots, segment, pitch, first,
                                    sums);
        } else if (direct) {
            direct(plane, m.a.col_indices + slot, slots, segment, first, sums);
        } else if (m.how.kept) {
            const auto* tile = reinterpret_cast<const uint32_t*>(plane);
            kernels.multiply(tile, segment, groups, pitch, of.rows, first, sums);
        } else {
            kernels.gather(plane, m.a.col_indices + slot, slots, panel);
            kernels.multiply(panel, segment, groups, pitch, of.rows, first, sums);
        }
        if (m.long_sums) fold(sums, of.rows * m.how.tile_cols, factor, wide);
        segment += packed_block_row_units(pitch, slots, m.how);
    }
}

void multiply_task(const multiplication& m, int64_t task) {
    // Block rows innermost: neighbouring tasks share a tile of B.
    const int64_t block_rows = m.a.block_rows();
    const int64_t row = task % block_rows;
    const int64_t tile_task = task / block_rows;
    const int64_t tile = m.tiles.first + tile_task % m.tiles.count;
    const int64_t batch = m.shared_b ? tile_task / m.tiles.count : tile / m.tiles.tiles;
    tile_output out;
    out.finish = read_epilogue(m.shape, m.args, batch);
    out.c = m.args.c;
    out.batch = batch;
    out.row = row * m.a.vector_length;
    out.rows = std::min<int64_t>(m.a.vector_length, m.a.rows - out.row);
    out.col = tile % m.tiles.tiles * m.how.tile_cols;
    out.cols = std::min(m.how.tile_cols, m.args.c.cols - out.col);

    const int64_t matrix = m.a.matrix_for(batch);
    const int64_t index = m.a.block_row_index(matrix, row);
    const block_row of{m.packed_a + matrix * m.matrix_units + m.starts[index], m.a.row_begin[index],
                       m.a.row_end[index], out.rows};
    const int64_t plane_bytes = m.a.cols * m.how.row_bytes();
    const char* b = m.packed_b + tile_task % m.tiles.count * plane_bytes * m.how.planes;
    const int64_t count = out.rows * m.how.tile_cols;
    alignas(64) uint32_t sums[longest_vector * wide_tile];
    if (!m.long_sums) {
        if (of.begin == of.end) std::fill_n(sums, count, 0U);
        multiply_plane(m, of, b, 1, sums, nullptr);
        m.finish(out, sums);
        return;
    }
    alignas(64) int64_t wide[longest_vector * wide_tile];
    std::fill_n(wide, count, 0);
    for (int64_t plane = 0; plane < m.how.planes; ++plane) {
        const int64_t factor = plane + 1 < m.how.planes ? 256 : 1;
        multiply_plane(m, of, b + plane * plane_bytes, factor, sums, wide);
    }
    m.finish(out, wide);
}

class simd_plan final : public stored_plan<operation> {
  public:
    simd_plan(const context& ctx, const spmm::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)),
          kernels_(kernels_of(usable_level())),
          how_(packing_for(kernels_.for_columns(p.n_max), p.pattern, p.b_type, p.two_of_four)),
          sections_(p, how_, stored().bytes()) {
        find_starts();
        const bool is_float = how_.kind == lane_kind::floats;
        long_sums_ =
            how_.planes > 1 ||
            (!is_float && sum_for(p.pair(), longest_block_row(stored().view())) != sum_type::int32);
        sum_ = is_float ? tile_sum::fp32 : long_sums_ ? tile_sum::int64 : tile_sum::int32;
        if (p.values != value_mode::per_call) pack(ctx, p.pattern, plan_a());
    }

    void pack_values(const context& ctx, const void* values) override {
        pack(ctx, stored().view_with(values), plan_a());
    }

    sr_bcrs_view matrix_with(const void* values) const override {
        return stored().view_with(values);
    }

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        auto* work = static_cast<char*>(args.workspace);
        const uint32_t* packed_a = plan_a();
        if (p.values == value_mode::per_call) {
            auto* target = reinterpret_cast<uint32_t*>(work);
            pack(ctx, stored().view_with(args.a_values), target);
            packed_a = target;
        }
        const int64_t matrix_units = value_arrays(p.pattern) > 1 ? sections_.array_units : 0;
        // Both widths of tiles read A as it is packed.
        const auto& kernels = kernels_.for_columns(args.b.cols);
        const packing how = packing_for(kernels, p.pattern, p.b_type, p.two_of_four);
        multiplication m{p,
                         args,
                         how,
                         stored().view(),
                         starts(),
                         packed_a,
                         matrix_units,
                         long_sums_,
                         kernels.select_finish(p.c_type, sum_)};
        m.shared_b = args.b.batch_stride == 0 || p.batch_count == 1;
        m.packed_b = work ? work + sections_.workspace_b : nullptr;
        m.tiles.tiles = ceil_div(args.b.cols, how.tile_cols);
        const int64_t all = m.tiles.tiles * (m.shared_b ? 1 : p.batch_count);
        const int64_t products =
            p.pattern.value_count() / p.pattern.block_rows() * how.tile_cols / 16;
        const int64_t at_once = sections_.packed_b_bytes / std::max<int64_t>(tile_bytes(p, how), 1);
        for (; m.tiles.first < all; m.tiles.first += m.tiles.count) {
            m.tiles.count = std::min(std::max<int64_t>(at_once, 1), all - m.tiles.first);
            pack_b(ctx, args.b, how, m.tiles, work + sections_.workspace_b);
            ctx.parallel(m.tasks(), grain_for(products), [&m](int64_t begin, int64_t end) {
                const matrix_session session(m.how, m.a.vector_length);
                for (int64_t task = begin; task < end; ++task) multiply_task(m, task);
            });
        }
    }

  private:
    int64_t* starts() const {
        return reinterpret_cast<int64_t*>(resources().buffer.data() + sections_.starts);
    }
    uint32_t* plan_a() const {
        return reinterpret_cast<uint32_t*>(resources().buffer.data() + sections_.plan_a);
    }

    void find_starts() {
        const auto& a = stored().view();
        const int64_t rows = a.block_rows() * (a.different_patterns ? a.batch_count : 1);
        int64_t next = 0;
        for (int64_t i = 0; i < rows; ++i) {
            starts()[i] = next;
            next += packed_block_row_units(a.vector_length, a.row_end[i] - a.row_begin[i], how_);
        }
        require_value(next <= sections_.array_units,
                      "problem->A's block rows overlap: their slots need ", next,
                      " packed units; at most ", sections_.array_units, " fit");
    }

    void pack(const context& ctx, const sr_bcrs_view& a, uint32_t* target) const {
        pack_a(ctx, a, how_, starts(), value_arrays(a), sections_.array_units, target);
    }

    const simd_kernels& kernels_;
    packing how_;
    sections sections_;
    bool long_sums_ = false;
    tile_sum sum_ = tile_sum::int32;
};

// Of a plan's widest tiles.
packing widest_packing(const problem& p) {
    const auto& kernels = kernels_of(usable_level()).for_columns(p.n_max);
    return packing_for(kernels, p.pattern, p.b_type, p.two_of_four);
}

std::string decline(const context&, const problem& p) {
    const auto how = widest_packing(p);
    const int64_t bytes = tile_bytes(p, how);
    if (bytes <= largest_tile) return {};
    return text(how.tile_cols, " packed columns of B take ", bytes, " bytes, more than ",
                largest_tile);
}

buffer_needs needs(const context&, const problem& p) {
    const stored_matrix pattern(p.pattern, false);
    const sections parts(p, widest_packing(p), pattern.bytes());
    return {parts.plan_bytes, parts.workspace_bytes};
}

// Groups of four bytes, each gathered once and multiplied by V rows; half as many where rows bring
// their own, but with more loads.
double cost(const context& ctx, const problem& p) {
    const auto level = usable_level();
    const auto how = widest_packing(p);
    // A core of a server of 2023.
    const double groups_per_us = level == simd_level::portable ? 5e3
                                 : level == simd_level::avx2   ? 26e3
                                                               : 40e3;
    const int threads =
        ctx.threads > 0 ? std::min(ctx.threads, hardware_threads()) : hardware_threads();
    const double columns = static_cast<double>(ceil_div(p.n_max, how.tile_cols)) *
                           static_cast<double>(how.tile_cols) * static_cast<double>(p.batch_count);
    const double groups = static_cast<double>(p.pattern.slots) /
                          static_cast<double>(slots_per_group(how.kind)) *
                          static_cast<double>(how.planes) * (how.kept ? 0.75 : 1.0);
    const double rows = static_cast<double>(p.pattern.vector_length) + 2;
    return 5 + groups * rows * columns / (groups_per_us * threads);
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

}  // namespace magicube::spmm
