// SPDX-License-Identifier: Apache-2.0
// SDDMM with the processor's SIMD instructions (row_kernels.hpp), chosen at run time.
//
// A and the transpose of B are unpacked into the workspace, as many matrices of the batch as
// unpack_limit allows (at least one): row-major bytes, words or floats, rows padded with zeros to
// 64 bytes. A task is one block row, in tiles of 64 slots: all V rows of A times the rows of B's
// transpose that the slots name, each of which is read once a block of four rows of A and stays in
// the L1 cache. Sums of a tile lie on the stack, V x 64 units of four bytes. A row too long for 32
// bits is summed in segments that fit and folded into 64 bits; 16-bit B is split into its bytes.
// Bound: a multiply-add for each element and k; in memory, K bytes a slot, from the L2 cache.
#include <algorithm>

#include "core/ops/cpu/row_kernels.hpp"
#include "core/ops/make_plan.hpp"
#include "core/ops/reference.hpp"
#include "core/ops/sddmm/sddmm.hpp"
#include "core/ops/unpack.hpp"

namespace magicube::sddmm {
namespace cpu {
namespace {

constexpr int64_t tile_slots = 64;

// Whether operands are unpacked to bytes, and not to words or floats.
bool as_bytes(const row_kernels& kernels, dtype type) {
    return is_integer(type) && type != dtype::int16 && kernels.byte_dots;
}

// Bytes of an unpacked element.
int64_t element_bytes(const row_kernels& kernels, dtype type) {
    if (is_floating(type)) return sizeof(float);
    return as_bytes(kernels, type) ? sizeof(int8_t) : sizeof(int16_t);
}

// Units of four bytes in an unpacked row.
int64_t row_units(int64_t k, int64_t bytes) {
    return ceil_div(checked_mul(k, bytes, "workspace"), row_group_bytes) * (row_group_bytes / 4);
}

// Bytes of both operands of one product, unpacked.
int64_t operand_bytes(const problem& p, int64_t k, int64_t bytes) {
    return checked_mul(
        checked_mul(p.pattern.rows + p.pattern.cols, row_units(k, bytes), "workspace"), 4,
        "workspace");
}

// Matrices of the batch that a workspace holds.
int64_t matrices_at_once(int64_t batch_count, int64_t bytes_each, int64_t workspace) {
    return std::clamp<int64_t>(workspace / std::max<int64_t>(bytes_each, 1), 1,
                               std::max<int64_t>(batch_count, 1));
}

// One execution, while `count` matrices from `first` on are unpacked.
struct products {
    const problem& shape;
    const sr_bcrs_view& pattern;
    const arguments& args;
    const row_kernels& kernels;
    bool long_sums;  // 32 bits do not hold them
    int64_t units;   // of a row
    const uint32_t* a;
    const uint32_t* b;
    int64_t a_distance;  // units between unpacked matrices; 0: one serves all
    int64_t b_distance;
    int64_t first = 0;
    int64_t count = 0;
};

// Part of a block row.
struct tile {
    int64_t batch;
    int64_t row;
    int64_t rows;  // that exist, of V
    int64_t slot;
    int64_t slots;  // that hold vectors; the pattern's padding may follow
};

// Exact sums of a tile whose rows are longer than 32 bits hold: segment by segment.
void add_long_sums(const products& job, const dot_rows& a, const dot_rows& b, const tile& t,
                   int64_t* wide) {
    alignas(64) uint32_t sums[most_rows * tile_slots];
    const auto& k = job.kernels;
    const bool split = job.shape.a_type == dtype::int16;
    const bool bytes = as_bytes(k, job.shape.a_type);
    // 2^15 * 255 * 256 < 2^31, and 2^7 * 2^7 * 2^15 < 2^31 with the bias of bytes.
    const int64_t segment = split ? 256 / 2 : bytes ? (1 << 15) / 4 : (1 << 15) / 2;
    const auto add = [&](dots_function dots, int64_t begin, int64_t factor) {
        dots({a.first + begin, a.pitch}, t.rows, {b.first + begin, b.pitch},
             job.pattern.col_indices + t.slot, t.slots, std::min(segment, job.units - begin), sums,
             tile_slots);
        for (int64_t v = 0; v < t.rows; ++v)
            for (int64_t i = v * tile_slots; i < v * tile_slots + t.slots; ++i)
                wide[i] += factor * static_cast<int32_t>(sums[i]);
    };
    for (int64_t begin = 0; begin < job.units; begin += segment) {
        if (split) {
            add(k.high_dots, begin, 256);
            add(k.low_dots, begin, 1);
        } else {
            add(bytes ? k.byte_dots : k.word_dots, begin, 1);
        }
    }
}

// Numbers of a row of the tile go where the pattern's values lie, `count` of them from slot t.slot
// on.
template <class Store>
void each_run(const sr_bcrs_view& pattern, const tile& t, int64_t v, int64_t count,
              const Store& store) {
    if (pattern.stride == 1) {
        store(pattern.value_index(t.batch, t.slot, v), pattern.vector_length, 0, count);
        return;
    }
    for (int64_t done = 0; done < count;) {
        const int64_t slot = t.slot + done;
        const int64_t length = std::min(count - done, pattern.stride - slot % pattern.stride);
        store(pattern.value_index(t.batch, slot, v), 1, done, length);
        done += length;
    }
}

// `all`: the tile's slots and the padding that follows them.
template <class Sum>
void finish_tile(const products& job, const epilogue& finish, const tile& t, int64_t all,
                 const Sum* sums) {
    const auto& pattern = job.pattern;
    const auto& kernels = job.kernels;
    float cols[tile_slots];
    const bool per_col = finish.b_scale.data != nullptr;
    for (int64_t s = 0; per_col && s < t.slots; ++s)
        cols[s] = finish.b_scale[pattern.col_indices[t.slot + s]];
    for (int64_t v = 0; v < pattern.vector_length; ++v) {
        const bool inside = v < t.rows;
        const auto missing = [&](int64_t s) {
            return !inside || s >= t.slots || !pattern.exists(t.slot + s, v);
        };
        const bool complete = inside && all == t.slots && !pattern.element_mask;
        const Sum* row = sums + v * tile_slots;
        if (job.shape.out_type == dtype::int32) {
            auto* out = static_cast<int32_t*>(job.args.values);
            each_run(pattern, t, v, all, [&](int64_t at, int64_t step, int64_t s, int64_t count) {
                for (int64_t i = 0; i < count; ++i) {
                    const auto bits = static_cast<uint32_t>(missing(s + i) ? 0 : row[s + i]);
                    out[at + i * step] = static_cast<int32_t>(bits);  // modulo 2^32
                }
            });
            continue;
        }
        float y[tile_slots] = {};
        if (inside) {
            for (int64_t s = 0; s < t.slots; ++s) y[s] = static_cast<float>(row[s]);
            const float factor = mul_rn(finish.alpha, finish.a_scale[t.row + v]);
            kernels.scale(y, t.slots, factor, per_col ? cols : nullptr, nullptr, finish.reciprocal);
        }
        for (int64_t s = 0; !complete && s < all; ++s)
            if (missing(s)) y[s] = 0;
        each_run(pattern, t, v, all, [&](int64_t at, int64_t step, int64_t s, int64_t count) {
            kernels.store(job.shape.out_type, job.args.values, at, step, count, y + s);
        });
    }
}

void multiply_tile(const products& job, const epilogue& finish, const tile& t, int64_t all) {
    const int64_t matrix = t.batch - job.first;
    const dot_rows a{job.a + matrix * job.a_distance + t.row * job.units, job.units};
    const dot_rows b{job.b + matrix * job.b_distance, job.units};
    const auto& k = job.kernels;
    const int32_t* cols = job.pattern.col_indices + t.slot;
    if (job.long_sums) {
        alignas(64) int64_t wide[most_rows * tile_slots] = {};
        add_long_sums(job, a, b, t, wide);
        return finish_tile(job, finish, t, all, wide);
    }
    alignas(64) uint32_t sums[most_rows * tile_slots];
    const bool floats = is_floating(job.shape.a_type);
    const bool bytes = as_bytes(k, job.shape.a_type);
    const auto dots = floats ? k.float_dots : bytes ? k.byte_dots : k.word_dots;
    dots(a, t.rows, b, cols, t.slots, job.units, sums, tile_slots);
    if (floats) return finish_tile(job, finish, t, all, reinterpret_cast<const float*>(sums));
    finish_tile(job, finish, t, all, reinterpret_cast<const int32_t*>(sums));
}

void multiply_block_row(const products& job, int64_t task) {
    const auto& pattern = job.pattern;
    const int64_t block_rows = pattern.block_rows();
    const int64_t block_row = task % block_rows;
    tile t{job.first + task / block_rows, block_row * pattern.vector_length, 0, 0, 0};
    t.rows = std::min<int64_t>(pattern.vector_length, pattern.rows - t.row);
    const epilogue finish = read_epilogue(job.shape, job.args, t.batch);
    const int64_t index = pattern.block_row_index(pattern.matrix_for(t.batch), block_row);
    const int64_t end = pattern.row_end[index];
    const int64_t padded = round_up(end, pattern.stride);
    // Tiles begin at chunks: tile_slots is a multiple of every stride.
    for (t.slot = pattern.row_begin[index]; t.slot < padded; t.slot += tile_slots) {
        t.slots = std::min(tile_slots, end - t.slot);
        multiply_tile(job, finish, t, std::min(tile_slots, padded - t.slot));
    }
}

class simd_plan final : public stored_plan<operation> {
  public:
    simd_plan(const context& ctx, const sddmm::problem& p, plan_resources resources)
        : stored_plan(ctx, p, std::move(resources)), kernels_(rows_of(usable_level())) {}

    void run(const context& ctx, const arguments& args) const override {
        if (is_floating(problem().a_type)) return multiply<float>(ctx, args);
        if (element_bytes(kernels_, problem().a_type) == 1) return multiply<int8_t>(ctx, args);
        multiply<int16_t>(ctx, args);
    }

  private:
    // Unpacks and multiplies as many matrices at a time as the workspace holds.
    template <class Unpacked>
    void multiply(const context& ctx, const arguments& args) const {
        const auto& p = problem();
        auto pattern = stored().view();
        pattern.values_stride = value_stride(pattern, p.out_batch_stride);
        const dense_view& a = args.a;
        const dense_view bt = transposed(args.b);
        const int64_t units = row_units(a.cols, sizeof(Unpacked));
        const int64_t pitch = units * 4 / static_cast<int64_t>(sizeof(Unpacked));
        const int64_t each = operand_bytes(p, a.cols, sizeof(Unpacked));
        const int64_t at_once =
            matrices_at_once(p.batch_count, each, resources().needs.workspace_bytes);
        auto* a_target = static_cast<Unpacked*>(args.workspace);
        auto* b_target = a_target + at_once * a.rows * pitch;
        products job{p,
                     pattern,
                     args,
                     kernels_,
                     sum_for(p.pair(), p.k_max) == sum_type::int64,
                     units,
                     reinterpret_cast<const uint32_t*>(a_target),
                     reinterpret_cast<const uint32_t*>(b_target),
                     a.batch_stride == 0 ? 0 : a.rows * units,
                     bt.batch_stride == 0 ? 0 : bt.rows * units};
        const int64_t block_rows = pattern.block_rows();
        const int64_t per_task = pattern.value_count() / block_rows * (units + 8) / 16;
        for (; job.first < p.batch_count; job.first += at_once) {
            job.count = std::min(at_once, p.batch_count - job.first);
            const auto range = [&](int64_t distance) {
                return unpack_range{job.first, distance == 0 ? 1 : job.count, 0, a.cols};
            };
            unpack(ctx, a, range(job.a_distance), a_target, pitch);
            unpack(ctx, bt, range(job.b_distance), b_target, pitch);
            ctx.parallel(job.count * block_rows, grain_for(per_task),
                         [&job](int64_t begin, int64_t end) {
                             for (int64_t task = begin; task < end; ++task)
                                 multiply_block_row(job, task);
                         });
        }
    }

    const row_kernels& kernels_;
};

std::string decline(const context&, const problem&) {
    return {};
}

buffer_needs needs(const context&, const problem& p) {
    const int64_t bytes = element_bytes(rows_of(usable_level()), p.a_type);
    const int64_t each = operand_bytes(p, p.k_max, bytes);
    const int64_t at_once = matrices_at_once(p.batch_count, each, unpack_limit);
    return {stored_matrix(p.pattern, false).bytes(), checked_mul(each, at_once, "workspace")};
}

// Dot products of whole groups of 64 bytes, and what adding up their lanes takes.
double cost(const context& ctx, const problem& p) {
    const auto level = usable_level();
    // A core of a server of 2023.
    const double groups_per_us = level == simd_level::portable ? 150
                                 : level == simd_level::avx2   ? 900
                                                               : 2500;
    const int threads =
        ctx.threads > 0 ? std::min(ctx.threads, hardware_threads()) : hardware_threads();
    const double bytes = static_cast<double>(element_bytes(rows_of(level), p.a_type)) *
                         (p.a_type == dtype::int16 ? 2 : 1);
    const double groups = static_cast<double>(p.k_max) * bytes / row_group_bytes + 3;
    return 5 + static_cast<double>(p.pattern.value_count()) * static_cast<double>(p.batch_count) *
                   groups / (groups_per_us * threads);
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

}  // namespace magicube::sddmm
