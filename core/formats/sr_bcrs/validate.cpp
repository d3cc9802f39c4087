// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "core/common/pointers.hpp"
#include "core/formats/index_checks.hpp"
#include "core/formats/sr_bcrs/layout.hpp"
#include "core/formats/validate.hpp"

namespace magicube {

void check_vectors(int32_t vector_length, int32_t stride, dtype type, const char* prefix) {
    require_value(is_vector_length(vector_length), prefix, "vector_length is ", vector_length,
                  "; it must be 1, 2, 4, 8, 16, 32 or 64");
    require_value(is_stride(stride), prefix, "stride is ", stride, "; it must be 1, 8, 16 or 32");
    require_value(type != dtype::int4 || stride >= 8 || vector_length % 2 == 0, prefix,
                  "stride is ", stride, " and ", prefix, "vector_length is ", vector_length,
                  "; int4 needs a stride of at least 8 or an even vector length");
}

void check_slots(int64_t slots, int32_t stride, index_type offsets, const char* prefix) {
    require_value(slots >= 0, prefix, "slots is ", slots, "; it must be at least 0");
    require_value(slots % stride == 0, prefix, "slots is ", slots,
                  "; it must be a multiple of the stride ", stride);
    require_value(offsets == index_type::int64 || slots <= INT32_MAX, prefix, "slots is ", slots,
                  "; int32 offsets hold at most ", INT32_MAX, " (use MAGICUBE_INDEX_64)");
}

void validate_sizes(const sr_bcrs_view& matrix) {
    require_known(matrix.type, "value_type");
    check_vectors(matrix.vector_length, matrix.stride, matrix.type, "");
    check_slots(matrix.slots, matrix.stride, matrix.row_begin.type, "");
    check_common_sizes(matrix, checked_mul(matrix.slots, matrix.vector_length, "slots times V"));
    const int64_t entries =
        checked_mul(matrix.block_rows(), matrix.different_patterns ? matrix.batch_count : 1,
                    "block rows of the batch");
    require_array(matrix.row_begin.data, entries, index_bytes(matrix.row_begin.type), "row_begin");
    require_array(matrix.row_end.data, entries, index_bytes(matrix.row_end.type), "row_end");
    require_array(matrix.col_indices, matrix.slots, 4, "col_indices");
}

namespace {

// The slots that block row i occupies, padding included.
std::pair<int64_t, int64_t> occupied(const sr_bcrs_view& matrix, int64_t i) {
    return {matrix.row_begin[i], round_up(matrix.row_end[i], matrix.stride)};
}

void check_range(const sr_bcrs_view& matrix, int64_t i, const char* argument) {
    const int64_t begin = matrix.row_begin[i];
    const int64_t end = matrix.row_end[i];
    require_value(begin >= 0, argument, ": row_begin[", i, "] is ", begin,
                  "; it must be at least 0");
    require_value(begin % matrix.stride == 0, argument, ": row_begin[", i, "] is ", begin,
                  "; it must be a multiple of the stride ", matrix.stride);
    require_value(begin <= matrix.slots, argument, ": row_begin[", i, "] is ", begin,
                  "; it must be at most slots = ", matrix.slots);
    require_value(end >= begin, argument, ": row_end[", i, "] is ", end,
                  "; it must be at least row_begin[", i, "] = ", begin);
    require_value(end <= matrix.slots, argument, ": row_end[", i, "] is ", end,
                  "; it must be at most slots = ", matrix.slots);
}

void check_disjoint(const sr_bcrs_view& matrix, int64_t entries, const char* argument) {
    bool ascending = true;
    int64_t free_from = 0;
    for (int64_t i = 0; i < entries; ++i) {
        const auto [begin, end] = occupied(matrix, i);
        if (begin == end) continue;
        ascending = ascending && begin >= free_from;
        free_from = end;
    }
    if (ascending) return;
    std::vector<std::pair<int64_t, int64_t>> starts;  // first slot, block row
    for (int64_t i = 0; i < entries; ++i) {
        const auto [begin, end] = occupied(matrix, i);
        if (begin != end) starts.emplace_back(begin, i);
    }
    std::sort(starts.begin(), starts.end());
    for (size_t k = 1; k < starts.size(); ++k) {
        const auto [begin, i] = starts[k];
        const int64_t before = starts[k - 1].second;
        const int64_t end = occupied(matrix, before).second;
        require_value(begin >= end, argument, ": row_begin[", i, "] is ", begin, "; block row ",
                      before, " occupies slots ", starts[k - 1].first, " to ", end - 1,
                      ", and block rows must not overlap");
    }
}

}  // namespace

void validate_pattern(const context& ctx, const sr_bcrs_view& matrix, const char* argument) {
    const int64_t entries =
        matrix.block_rows() * (matrix.different_patterns ? matrix.batch_count : 1);
    for (int64_t i = 0; i < entries; ++i) check_range(matrix, i, argument);
    check_disjoint(matrix, entries, argument);
    ctx.parallel(entries, 64, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
            const int64_t end = matrix.row_end[i];
            check_ascending(matrix.col_indices, matrix.row_begin[i], end, matrix.cols,
                            "col_indices", argument);
            for (int64_t slot = end; slot < round_up(end, matrix.stride); ++slot) {
                require_value(matrix.col_indices[slot] == -1, argument, ": col_indices[", slot,
                              "] is ", matrix.col_indices[slot],
                              "; it must be -1 in a padding slot (block row ", i, " ends at slot ",
                              end, ")");
            }
        }
    });
}

}  // namespace magicube
