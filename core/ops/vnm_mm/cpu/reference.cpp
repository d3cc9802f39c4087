// SPDX-License-Identifier: Apache-2.0
// The reference of SpMM of V:N:M (core/ops/product_reference.hpp): each row of A meets the two
// columns that it keeps of each group, and nothing else.
#include "core/ops/product_reference.hpp"
#include "core/ops/vnm_mm/vnm_mm.hpp"

namespace magicube::vnm_mm {
namespace {

struct kept_elements {
    static int64_t height(const vnm_view&) { return 32; }
    static int64_t longest(const vnm_view& a) { return a.groups() * a.n; }

    template <dtype A, class Sum>
    static void add(const vnm_view& a, const product_reference::tile& t, int64_t pitch,
                    const unpacked_t<Sum>* b, Sum* sums) {
        const int64_t batch = a.matrix_for(t.batch);
        const int64_t groups = a.groups();
        for (int64_t v = 0; v < t.rows; ++v) {
            const int64_t row = t.row + v;
            for (int64_t g = 0; g < groups; ++g) {
                for (int32_t i = 0; i < a.n; ++i) {
                    const int32_t place = a.place(row, g, i);
                    if (place >= a.group_width(g)) continue;  // a repeated column
                    const int64_t block_row = row / a.vector_length;
                    const int64_t col = g * a.m + a.loc(a.loc_index(block_row, g, place));
                    const auto value = element<A>::load(a.values, a.value_index(batch, row, g, i));
                    product_reference::add_product<Sum>(sums + v * t.width(), value,
                                                        b + col * pitch, t.width());
                }
            }
        }
    }
};

using reference_plan = product_reference::plan<operation, kept_elements>;

}  // namespace

extern const implementation<operation> cpu_reference;
const implementation<operation> cpu_reference = reference_implementation<operation, reference_plan>(
    "reference", device_kind::cpu, product_reference::cost<problem>,
    product_reference::needs<problem>);

}  // namespace magicube::vnm_mm
