// SPDX-License-Identifier: Apache-2.0
#include "verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "spmm_call.hpp"

namespace bench {
namespace {

// Some block rows of A as a matrix of their own.
struct excerpt {
    std::unique_ptr<sparse_data> rows;
    std::vector<float> a_scale;

    excerpt(const host_operands& from, const std::vector<int64_t>& block_rows)
        : rows(from.a.block_rows(block_rows)) {
        const int64_t v_size = from.a.vector_length;
        for (int64_t row : block_rows) {
            if (from.a_scale.empty()) break;
            const auto scales = from.a_scale.begin() + row * v_size;
            a_scale.insert(a_scale.end(), scales, scales + v_size);
        }
    }
};

struct cpu_memory {
    void* data = nullptr;
    explicit cpu_memory(size_t bytes) {
        check(magicubeMalloc(MAGICUBE_DEVICE_CPU, 0, bytes, &data), "magicubeMalloc");
    }
    ~cpu_memory() { magicubeFree(MAGICUBE_DEVICE_CPU, 0, data); }
    cpu_memory(const cpu_memory&) = delete;
};

dense_data compute(magicubeHandle_t cpu, const spmm_case& c, const excerpt& a, const dense_data& b,
                   const host_operands& operands) {
    std::vector<const void*> indices;
    for (const auto& array : a.rows->index_arrays()) indices.push_back(array.data);
    const auto matrix = a.rows->describe(indices, a.rows->values.data());
    magicubeSpMMProblem_t problem = make_problem(c, matrix);
    problem.c_order = MAGICUBE_ORDER_ROW;
    problem.implementation = "reference";
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    check(magicubeSpMM_bufferSize(cpu, &problem, &sizes), "magicubeSpMM_bufferSize");
    const auto plan = make_plan(cpu, problem);

    dense_data result(a.rows->rows, c.n, c.out, MAGICUBE_ORDER_ROW, 0);
    result.elements.resize(static_cast<size_t>(result.byte_count()));
    const auto b_matrix = describe(b, const_cast<uint8_t*>(b.elements.data()));
    const auto c_matrix = describe(result, result.elements.data());
    magicubeSpMMArgs_t args = MAGICUBE_SPMM_ARGS_INIT;
    args.a_scale = a.a_scale.data();
    args.b_scale = operands.b_scale.data();
    const cpu_memory workspace(sizes.workspace_bytes);
    check(magicubeSpMM(cpu, plan.get(), &operands.alpha, b_matrix.get(), nullptr, c_matrix.get(),
                       &args, workspace.data, sizes.workspace_bytes),
          "magicubeSpMM on the CPU");
    return result;
}

// The same product of the operands' magnitudes, which bounds how far rounding can go.
dense_data compute_magnitudes(magicubeHandle_t cpu, spmm_case c, const excerpt& a,
                              const host_operands& operands) {
    dense_data b = operands.b;
    b.elements = magnitudes(std::move(b.elements), c.rhs);
    a.rows->values = magnitudes(std::move(a.rows->values), c.lhs);
    c.out = MAGICUBE_FP32;
    return compute(cpu, c, a, b, operands);
}

// Error of one sum, relative to the sum of magnitudes. The Tensor Cores' sums of 8-bit floats keep
// about 13 bits.
double sum_error(const spmm_case& c, const sparse_data& a) {
    if (c.lhs == MAGICUBE_E4M3) return 0x1p-9;
    return static_cast<double>(std::max<int64_t>(64, a.longest_row())) * 0x1p-23;
}

double rounding_error(magicubeDataType_t type, double value) {
    switch (type) {
        case MAGICUBE_INT8:
            return 1;
        case MAGICUBE_FP16:
            return std::fabs(value) * 0x1p-10 + 0x1p-24;
        case MAGICUBE_BF16:
            return std::fabs(value) * 0x1p-7;
        default:
            return std::fabs(value) * 0x1p-22;
    }
}

}  // namespace

std::string find_mistake(magicubeHandle_t cpu, const spmm_case& c, const host_operands& operands,
                         const dense_data& result, const std::vector<int64_t>& block_rows) {
    const excerpt a(operands, block_rows);
    const dense_data expected = compute(cpu, c, a, operands.b, operands);
    const bool exact = is_integer(c.lhs);
    const dense_data bound = exact ? expected : compute_magnitudes(cpu, c, a, operands);
    const double error = sum_error(c, *a.rows);
    for (int64_t i = 0; i < expected.rows; ++i) {
        const int64_t row = block_rows[static_cast<size_t>(i / c.vector_length)] * c.vector_length +
                            i % c.vector_length;
        for (int64_t j = 0; row < c.m && j < c.n; ++j) {
            const double want = expected.at(i, j), got = result.at(row, j);
            if (want == got) continue;
            const double allowed = exact ? 0 : error * bound.at(i, j) + rounding_error(c.out, want);
            if (std::fabs(want - got) <= allowed) continue;
            return text("C[", row, ", ", j, "] is ", got, "; the reference says ", want,
                        exact ? "" : text(", give or take ", allowed));
        }
    }
    return "";
}

}  // namespace bench
