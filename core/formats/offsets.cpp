// SPDX-License-Identifier: Apache-2.0
#include "core/formats/offsets.hpp"

#include "core/formats/element_moves.hpp"
#include "core/formats/index_checks.hpp"

namespace magicube {

void check_single_source(const sparse_view& source, dtype target_type, const void* target_values) {
    const sparse_common& common = common_of(source);
    require_value(common.batch_count == 1, "source is a batch of ", common.batch_count,
                  "; this conversion takes one matrix");
    if (!target_values) return;
    check_move(common.type, "source", target_type, "value_type");
    require_value(has_values(source),
                  "source has null values (a pattern alone); values must be null too");
}

int64_t lengths_to_offsets(void* offsets, index_type type, int64_t lists, const char* what) {
    const index_array lengths{offsets, type};
    int64_t sum = 0;
    store_index(offsets, type, 0, 0);
    for (int64_t i = 1; i <= lists; ++i) {
        sum += lengths[i];
        check_index_type_holds(type, sum, what);
        store_index(offsets, type, i, sum);
    }
    return sum;
}

void check_offsets_of_count(const index_array& offsets, int64_t lists) {
    require_value(offsets[0] == 0, "offsets[0] is ", offsets[0], "; _count writes 0 there");
    for (int64_t i = 0; i < lists; ++i) {
        require_value(offsets[i + 1] >= offsets[i], "offsets[", i + 1, "] is ", offsets[i + 1],
                      "; it must be at least ", offsets[i], ", as _count wrote it");
    }
}

void report_changed_list(const index_array& offsets, int64_t list) {
    fail(status::invalid_value, "offsets[", list, "] and offsets[", list + 1, "] are ",
         offsets[list], " and ", offsets[list + 1],
         "; the source has another number of entries there, and _count and _fill need the same "
         "source");
}

}  // namespace magicube
