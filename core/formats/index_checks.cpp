// SPDX-License-Identifier: Apache-2.0
#include "core/formats/index_checks.hpp"

#include "core/common/pointers.hpp"

namespace magicube {
namespace {

void check_sparse_size(int64_t size, const char* name) {
    require_value(size >= 0 && size <= INT32_MAX, name, " is ", size,
                  "; a sparse matrix takes 0 to ", INT32_MAX);
}

}  // namespace

void check_common_sizes(const sparse_common& matrix, int64_t value_count) {
    check_sparse_size(matrix.rows, "rows");
    check_sparse_size(matrix.cols, "cols");
    require_known(matrix.type, "value_type");
    const bool int4 = matrix.type == dtype::int4;
    require_value(matrix.batch_count >= 0, "count is ", matrix.batch_count,
                  "; it must be at least 0");
    require_value(matrix.values_stride >= 0, "values_stride is ", matrix.values_stride,
                  "; it must be at least 0");
    require_value(!int4 || matrix.values_stride % 2 == 0, "values_stride is ", matrix.values_stride,
                  "; it must be even for int4");
    if (matrix.batch_count > 1) {
        value_count = checked_add(
            value_count,
            checked_mul(matrix.batch_count - 1, matrix.values_stride, "count times values_stride"),
            "count times values_stride");
    }
    const int64_t unit = element_alignment(matrix.type);
    checked_mul(value_count, unit, "the size of values in bytes");
    require_aligned(matrix.values, unit, "values");
}

void check_index_type_holds(index_type type, int64_t count, const char* name) {
    require_value(type == index_type::int64 || count <= INT32_MAX, name, " is ", count,
                  "; int32 offsets hold at most ", INT32_MAX, " (use MAGICUBE_INDEX_64)");
}

void check_offsets(const index_array& offsets, int64_t lists, int64_t entries,
                   const char* entries_name, const char* argument) {
    if (lists == 0) return;
    int64_t previous = 0;
    for (int64_t i = 0; i <= lists; ++i) {
        const int64_t offset = offsets[i];
        require_value(offset >= previous, argument, ": offsets[", i, "] is ", offset,
                      "; it must be at least ", previous, i == 0 ? "" : ", the offset before it");
        require_value(offset <= entries, argument, ": offsets[", i, "] is ", offset,
                      "; it must be at most ", entries_name, " = ", entries);
        previous = offset;
    }
}

void check_ascending(const int32_t* indices, int64_t begin, int64_t end, int64_t limit,
                     const char* name, const char* argument) {
    int64_t previous = -1;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t index = indices[i];
        require_value(index >= 0 && index < limit, argument, ": ", name, "[", i, "] is ", index,
                      "; it must be at least 0 and below ", limit);
        require_value(index > previous, argument, ": ", name, "[", i, "] is ", index, " after ",
                      previous, "; indices must ascend strictly within a row");
        previous = index;
    }
}

}  // namespace magicube
