// SPDX-License-Identifier: Apache-2.0
// SDDMM as its definition reads, for every problem: the oracle of the other implementations.
//
// A and the transpose of B are unpacked into the workspace, as many matrices of the batch as
// unpack_limit allows (at least one): row-major, int16 or float, rows padded to whole lanes. A task
// is one block row; each existing element is the dot product of two of those rows. Integers are
// summed exactly (int32 where that provably holds the sum, else int64), floats in double, lane by
// lane.
#include <algorithm>

#include "core/ops/reference.hpp"
#include "core/ops/sddmm/sddmm.hpp"
#include "core/ops/unpack.hpp"

namespace magicube::sddmm {
namespace {

// Bytes of both operands of one product, unpacked.
int64_t operand_bytes(const problem& p, int64_t k, int64_t element_bytes) {
    const int64_t rows = p.pattern.rows + p.pattern.cols;
    return checked_mul(checked_mul(rows, ceil_div(k, unpack_lanes), "workspace"),
                       unpack_lanes * element_bytes, "workspace");
}

// Matrices of the batch that a workspace holds.
int64_t matrices_at_once(int64_t batch_count, int64_t bytes_each, int64_t workspace) {
    return std::clamp<int64_t>(workspace / std::max<int64_t>(bytes_each, 1), 1,
                               std::max<int64_t>(batch_count, 1));
}

buffer_needs reference_needs(const context&, const problem& p) {
    const int64_t each = operand_bytes(p, p.k_max, unpacked_bytes(p.a_type));
    const int64_t at_once = matrices_at_once(p.batch_count, each, unpack_limit);
    return {stored_matrix(p.pattern, false).bytes(), each * at_once};
}

// One execution, while the matrices of `range` are unpacked.
template <class Sum>
struct products {
    using unpacked = unpacked_t<Sum>;

    const problem& shape;
    const sr_bcrs_view& pattern;
    const arguments& args;
    int64_t first;  // matrix of the batch
    int64_t count;
    const unpacked* a;
    const unpacked* b;
    int64_t a_distance;  // elements between unpacked matrices; 0: one serves all
    int64_t b_distance;
    int64_t pitch;
    void (*finish)(const products&, const epilogue&, int64_t batch, int64_t block_row);
};

template <class Sum>
Sum dot(const unpacked_t<Sum>* a, const unpacked_t<Sum>* b, int64_t length) {
    Sum lanes[unpack_lanes] = {};
    for (int64_t k = 0; k < length; k += unpack_lanes) {
        for (int64_t lane = 0; lane < unpack_lanes; ++lane) {
            lanes[lane] += static_cast<Sum>(static_cast<product_t<Sum>>(a[k + lane]) *
                                            static_cast<product_t<Sum>>(b[k + lane]));
        }
    }
    Sum sum = 0;
    for (const Sum lane : lanes) sum += lane;
    return sum;
}

template <dtype Out, class Sum>
void finish_block_row(const products<Sum>& job, const epilogue& finish, int64_t batch,
                      int64_t block_row) {
    const auto& pattern = job.pattern;
    const int64_t index = pattern.block_row_index(pattern.matrix_for(batch), block_row);
    const int64_t end = pattern.row_end[index];
    const auto* a = job.a + (batch - job.first) * job.a_distance;
    const auto* b = job.b + (batch - job.first) * job.b_distance;
    for (int64_t slot = pattern.row_begin[index]; slot < round_up(end, pattern.stride); ++slot) {
        for (int64_t v = 0; v < pattern.vector_length; ++v) {
            const int64_t row = block_row * pattern.vector_length + v;
            const int64_t at = pattern.value_index(batch, slot, v);
            if (slot >= end || row >= pattern.rows || !pattern.exists(slot, v)) {
                element<Out>::store(job.args.values, at, 0);
                continue;
            }
            const int64_t col = pattern.col_indices[slot];
            const Sum sum = dot<Sum>(a + row * job.pitch, b + col * job.pitch, job.pitch);
            if constexpr (Out == dtype::int32) {
                const auto bits = static_cast<uint32_t>(sum);  // modulo 2^32
                element<Out>::store(job.args.values, at, static_cast<int32_t>(bits));
            } else {
                store_rounded<Out>(job.args.values, at,
                                   finish(row, col, static_cast<float>(sum), 0));
            }
        }
    }
}

template <class Sum>
void select_output(products<Sum>& job) {
    constexpr bool integers = std::is_integral_v<Sum>;
    visit(job.shape.out_type, [&](auto type) {
        constexpr dtype Out = decltype(type)::value;
        if constexpr (is_product_output(integers ? dtype::int8 : dtype::fp32, Out, true)) {
            job.finish = finish_block_row<Out, Sum>;
        }
    });
}

template <class Sum>
void run_tasks(const products<Sum>& job, int64_t begin, int64_t end) {
    const int64_t block_rows = job.pattern.block_rows();
    for (int64_t task = begin; task < end; ++task) {
        const int64_t batch = job.first + task / block_rows;
        job.finish(job, read_epilogue(job.shape, job.args, batch), batch, task % block_rows);
    }
}

// Unpacks and multiplies as many matrices at a time as the workspace holds.
template <class Sum>
void multiply(const context& ctx, const problem& p, const sr_bcrs_view& pattern,
              const arguments& args, int64_t workspace_bytes) {
    using unpacked = unpacked_t<Sum>;
    const dense_view& a = args.a;
    const dense_view bt = transposed(args.b);
    const int64_t pitch = round_up(a.cols, unpack_lanes);
    const int64_t each = operand_bytes(p, a.cols, sizeof(unpacked));
    const int64_t at_once = matrices_at_once(p.batch_count, each, workspace_bytes);
    auto* a_target = static_cast<unpacked*>(args.workspace);
    auto* b_target = a_target + at_once * a.rows * pitch;
    products<Sum> job{p, pattern, args, 0, 0, a_target, b_target, 0, 0, pitch, nullptr};
    job.a_distance = a.batch_stride == 0 ? 0 : a.rows * pitch;
    job.b_distance = bt.batch_stride == 0 ? 0 : bt.rows * pitch;
    select_output(job);
    for (job.first = 0; job.first < p.batch_count; job.first += at_once) {
        job.count = std::min(at_once, p.batch_count - job.first);
        const auto range = [&](int64_t distance) {
            return unpack_range{job.first, distance == 0 ? 1 : job.count, 0, a.cols};
        };
        unpack(ctx, a, range(job.a_distance), a_target, pitch);
        unpack(ctx, bt, range(job.b_distance), b_target, pitch);
        const int64_t block_rows = pattern.block_rows();
        const int64_t per_task = pattern.value_count() / block_rows * pitch;
        ctx.parallel(job.count * block_rows, grain_for(per_task),
                     [&job](int64_t begin, int64_t end) { run_tasks(job, begin, end); });
    }
}

class reference_plan final : public stored_plan<operation> {
  public:
    using stored_plan::stored_plan;

    void run(const context& ctx, const arguments& args) const override {
        const auto& p = problem();
        auto pattern = stored().view();
        pattern.values_stride = value_stride(pattern, p.out_batch_stride);
        const int64_t workspace = resources().needs.workspace_bytes;
        switch (sum_for(p.pair(), p.k_max)) {
            case sum_type::int32:
                return multiply<int32_t>(ctx, p, pattern, args, workspace);
            case sum_type::int64:
                return multiply<int64_t>(ctx, p, pattern, args, workspace);
            case sum_type::float64:
                return multiply<double>(ctx, p, pattern, args, workspace);
        }
    }
};

double reference_cost(const context&, const problem& p) {
    constexpr double products_per_us = 2000;
    return static_cast<double>(p.pattern.value_count()) * static_cast<double>(p.k_max) *
           static_cast<double>(p.batch_count) / products_per_us;
}

}  // namespace

extern const implementation<operation> cpu_reference;
const implementation<operation> cpu_reference = reference_implementation<operation, reference_plan>(
    "reference", device_kind::cpu, reference_cost, reference_needs);

}  // namespace magicube::sddmm
