// SPDX-License-Identifier: Apache-2.0
// SpMM's reference (core/ops/product_reference.hpp): a task is one block row.
#include "core/ops/product_reference.hpp"
#include "core/ops/spmm/spmm.hpp"

namespace magicube::spmm {
namespace {

struct block_rows {
    static int64_t height(const sr_bcrs_view& a) { return a.vector_length; }
    static int64_t longest(const sr_bcrs_view& a) { return longest_block_row(a); }

    template <dtype A, class Sum>
    static void add(const sr_bcrs_view& a, const product_reference::tile& t, int64_t pitch,
                    const unpacked_t<Sum>* b, Sum* sums) {
        const int64_t batch = a.matrix_for(t.batch);
        const int64_t index = a.block_row_index(batch, t.row / a.vector_length);
        const int64_t width = t.width();
        for (int64_t slot = a.row_begin[index]; slot < a.row_end[index]; ++slot) {
            const auto* row = b + a.col_indices[slot] * pitch;
            for (int64_t v = 0; v < t.rows; ++v) {
                if (!a.exists(slot, v)) continue;
                const auto value = element<A>::load(a.values, a.value_index(batch, slot, v));
                product_reference::add_product<Sum>(sums + v * width, value, row, width);
            }
        }
    }
};

using reference_plan = product_reference::plan<operation, block_rows>;

}  // namespace

extern const implementation<operation> cpu_reference;
const implementation<operation> cpu_reference = reference_implementation<operation, reference_plan>(
    "reference", device_kind::cpu, product_reference::cost<problem>,
    product_reference::needs<problem>);

}  // namespace magicube::spmm
