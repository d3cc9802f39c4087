// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cuda/sm90/slab_outline.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>

#include "core/common/checked.hpp"

namespace magicube::spmm::sm90 {
namespace {

// What B leaves of shared memory for parts.
int64_t room_for_parts(const slab_geometry& g) {
    constexpr int64_t align_bytes = 1024;
    const int64_t slots = g.operands == 1 ? int64_t{consumer_warps} * store_slots * store_slot_bytes
                                          : int64_t{left_bytes};
    // Attention has a scale for each row of K too.
    const int64_t a_row = int64_t{g.operands} * g.row_bytes + (g.operands == 1 ? 0 : 4);
    return shared_bytes - align_bytes - part_slack - slots -
           int64_t{g.operands} * zero_rows * widest_row_bytes -
           int64_t{g.b_stages} * g.slab_rows * a_row;
}

// Divides that; false if the parts do not fit.
bool divide(slab_geometry& g, int64_t largest_part) {
    g.a_bytes = static_cast<int32_t>(round_up(largest_part, 128));
    const int64_t fit = room_for_parts(g) / g.a_bytes;
    if (!g.resident() || g.operands > 1) {
        g.a_stages = g.b_stages - g.kept;
        return fit >= g.a_stages;
    }
    g.a_stages = static_cast<int32_t>(std::min<int64_t>(fit, max_stages));
    return fit >= 2;
}

}  // namespace

slab_outline group_bundles(const bundle_source& source, const slab_shape& shape,
                           const std::vector<int32_t>& lengths, bool keep_rows_together) {
    slab_outline result;
    const int64_t bundles = ceil_div(source.rows, shape.bundle_rows());
    const int64_t lists_a_matrix = ceil_div(source.rows, source.list_rows);
    result.groups_a_matrix = ceil_div(bundles, shape.group_bundles());
    for (int64_t matrix = 0; matrix < source.matrices; ++matrix) {
        const int64_t first_list = source.different_patterns ? matrix * lists_a_matrix : 0;
        const auto list_of = [&](int64_t bundle) {
            return first_list + bundle * shape.bundle_rows() / source.list_rows;
        };
        const auto length_of = [&](int64_t bundle) {
            return lengths[static_cast<size_t>(list_of(bundle))];
        };
        std::vector<int64_t> order(static_cast<size_t>(bundles));
        std::iota(order.begin(), order.end(), int64_t{0});
        // Bundles of like length go together, so that the warps of a CTA finish together.
        if (!keep_rows_together)
            std::stable_sort(order.begin(), order.end(),
                             [&](int64_t x, int64_t y) { return length_of(x) > length_of(y); });
        int64_t most = 0, fewest = INT64_MAX;  // rows gathered by a group
        for (int64_t group = 0; group < result.groups_a_matrix; ++group) {
            int64_t gathered = 0;
            for (int64_t i = 0; i < shape.group_bundles(); ++i) {
                const int64_t position = group * shape.group_bundles() + i;
                const int64_t bundle =
                    position < bundles ? order[static_cast<size_t>(position)] : -1;
                const int64_t row = bundle < 0 ? -1 : bundle * shape.bundle_rows();
                result.bundle_rows.push_back(static_cast<int32_t>(row));
                result.lists.push_back(bundle < 0 ? -1 : static_cast<int32_t>(list_of(bundle)));
                if (bundle >= 0) gathered += length_of(bundle);
            }
            most = std::max(most, gathered);
            fewest = std::min(fewest, gathered);
        }
        result.uneven |= most > 0 && most > fewest + fewest / 2;
    }
    return result;
}

std::vector<slab_geometry> geometries_for(int64_t k, const slab_shape& shape) {
    // Heights were chosen by measuring.
    struct ring {
        int32_t slab_rows, b_stages, kept;
    };
    constexpr ring rings[] = {{448, 4, 1}, {384, 4, 1}, {320, 4, 1}, {256, 4, 1}, {192, 4, 1},
                              {128, 6, 2}, {128, 4, 1}, {64, 8, 3},  {64, 4, 1}};
    constexpr ring key_rings[] = {{512, 3, 1}, {448, 3, 1}, {384, 3, 1}, {256, 3, 1},
                                  {192, 3, 1}, {128, 4, 1}, {64, 4, 1}};
    constexpr int64_t visit_rows = 512;
    const int64_t most_resident_rows =
        shape.keys_only ? 0 : 1408 * widest_row_bytes / shape.row_bytes;
    std::vector<slab_geometry> result;
    const auto add = [&](int64_t slab_rows, int64_t b_stages, int64_t kept) {
        slab_geometry g{};
        g.slab_rows = static_cast<int32_t>(slab_rows);
        for (int64_t boxes = 1; g.box_rows == 0; ++boxes)
            if (slab_rows % boxes == 0 && slab_rows / boxes <= max_box_rows)
                g.box_rows = static_cast<int32_t>(slab_rows / boxes);
        g.slabs = static_cast<int32_t>(ceil_div(k, slab_rows));
        g.b_stages = static_cast<int32_t>(b_stages);
        g.kept = static_cast<int32_t>(kept);
        g.row_bytes = shape.row_bytes;
        g.operands = shape.keys_only ? 2 : 1;
        // Those that no pattern fits need not be measured.
        if (room_for_parts(g) > 0) result.push_back(g);
    };
    if (k <= most_resident_rows) {
        const int64_t slabs = ceil_div(k, visit_rows);
        add(round_up(ceil_div(k, slabs), 64), slabs, slabs - 1);
    }
    const ring* first = shape.keys_only ? key_rings : rings;
    const ring* last = shape.keys_only ? std::end(key_rings) : std::end(rings);
    for (; first != last; ++first) {
        const ring& r = *first;
        const int64_t slabs = ceil_div(k, r.slab_rows);
        if (slabs > r.b_stages || shape.keys_only) {
            add(r.slab_rows, r.b_stages, r.kept);
        } else {
            add(r.slab_rows, slabs, slabs - 1);
        }
    }
    return result;
}

void choose_geometry(slab_outline& outline, const std::vector<slab_geometry>& candidates,
                     const std::vector<group_size>& sizes) {
    const auto groups = static_cast<std::ptrdiff_t>(sizes.size() / candidates.size());
    auto of_candidate = sizes.begin();
    for (const auto& candidate : candidates) {
        outline.geometry = candidate;
        const auto end = of_candidate + groups;
        const auto largest = std::max_element(
            of_candidate, end,
            [](const group_size& x, const group_size& y) { return x.largest < y.largest; });
        if (divide(outline.geometry, largest->largest)) {
            for (; of_candidate != end; ++of_candidate) {
                outline.record_begins.push_back(outline.record_bytes);
                outline.record_bytes += of_candidate->total;
            }
            require(outline.record_bytes / 16 <= UINT32_MAX, status::not_supported,
                    "the packed A has ", outline.record_bytes,
                    " bytes; the slab kernel takes 2^36 - 16");
            return;
        }
        of_candidate = end;
    }
    fail(status::internal_error, "no slab geometry fits");
}

}  // namespace magicube::spmm::sm90
