// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/common/pointers.hpp"
#include "core/formats/index_checks.hpp"
#include "core/formats/validate.hpp"
#include "core/formats/vnm/layout.hpp"

namespace magicube {

void check_vnm(int32_t vector_length, int32_t n, int32_t m, dtype type, const char* prefix) {
    require_value(is_vnm_vector_length(vector_length), prefix, "vector_length is ", vector_length,
                  "; it must be 1, 16, 32, 64, 128 or 256");
    require_value(n >= 1 && n <= 254, prefix, "n is ", n, "; it must be from 1 to 254");
    const int32_t least = n > 3 ? n + 2 : 4;
    require_value(m >= least && m <= 65536, prefix, "m is ", m, "; for n = ", n,
                  " it must be from ", least, " to 65536");
    require_value(is_vnm_type(type), prefix, "value_type is ", name_of(type),
                  "; it must be int8, fp16, bf16, fp32 or e4m3");
}

void check_vnm_counts(const vnm_view& matrix) {
    const int64_t groups = matrix.groups();
    const int64_t blocks = checked_mul(matrix.block_rows(), groups, "groups of the block rows");
    checked_mul(blocks, 2 * int64_t{matrix.column_budget()}, "the size of column_loc in bytes");
    checked_mul(checked_mul(matrix.rows, groups, "groups of the rows"), matrix.n, "rows times n");
}

vnm_view vnm_of_shape(int64_t rows, int64_t cols, int32_t vector_length, int32_t n, int32_t m) {
    vnm_view view;
    view.rows = rows;
    view.cols = cols;
    view.vector_length = vector_length;
    view.n = n;
    view.m = m;
    check_vnm(vector_length, n, m, view.type, "");
    check_common_sizes(view, 0);
    check_vnm_counts(view);
    return view;
}

void validate_sizes(const vnm_view& matrix) {
    require_known(matrix.type, "value_type");
    check_vnm(matrix.vector_length, matrix.n, matrix.m, matrix.type, "");
    check_common_sizes(matrix, 0);  // so that what follows can count with them
    check_vnm_counts(matrix);
    check_common_sizes(matrix, matrix.value_count());
    require_array(matrix.column_loc, column_loc_count(matrix), column_loc_bytes(matrix.m),
                  "column_loc");
    require_array(matrix.metadata, metadata_count(matrix), 1, "metadata");
}

namespace {

// The columns that one block row selects in one group.
void check_columns(const vnm_view& matrix, int64_t block_row, int64_t group, const char* argument) {
    const int32_t budget = matrix.column_budget();
    const int32_t width = matrix.group_width(group);
    int32_t previous = -1;
    for (int32_t p = 0; p < budget; ++p) {
        const int64_t index = matrix.loc_index(block_row, group, p);
        const int32_t column = matrix.loc(index);
        if (width < budget) {
            const int32_t wanted = std::min(p, width - 1);
            require_value(column == wanted, argument, ": column_loc[", index, "] is ", column,
                          "; it must be ", wanted, ", for group ", group, " (block row ", block_row,
                          ") has ", width, " columns: all of them in order, then the last again");
            continue;
        }
        require_value(column < width, argument, ": column_loc[", index, "] is ", column,
                      "; it must be below ", width, ", the columns of group ", group,
                      " (block row ", block_row, ")");
        require_value(column > previous, argument, ": column_loc[", index, "] is ", column,
                      " after ", previous, "; the columns of a group must ascend strictly (group ",
                      group, " of block row ", block_row, ")");
        previous = column;
    }
}

void check_places(const vnm_view& matrix, int64_t row, int64_t group, const char* argument) {
    int32_t previous = -1;
    for (int32_t i = 0; i < matrix.n; ++i) {
        const int32_t place = matrix.place(row, group, i);
        require_value(place < matrix.column_budget(), argument, ": metadata gives row ", row,
                      " place ", place, " in group ", group, " (block row ",
                      row / matrix.vector_length, "); places are below ", matrix.column_budget());
        require_value(place > previous, argument, ": metadata gives row ", row, " place ", place,
                      " after ", previous, " in group ", group, " (block row ",
                      row / matrix.vector_length, "); places must ascend strictly");
        previous = place;
    }
}

template <dtype T>
void check_repeated(const vnm_view& matrix, int64_t batch, int64_t row, const char* argument) {
    const int64_t group = matrix.groups() - 1;
    const int32_t width = matrix.group_width(group);
    for (int32_t i = 0; i < matrix.n; ++i) {
        const int32_t place = matrix.place(row, group, i);
        if (place < width) continue;
        const int64_t position = matrix.value_index(batch, row, group, i);
        const auto value = element<T>::load(matrix.values, position);
        require_value(value == 0, argument, ": values[", position, "] is ", value,
                      "; it must be 0, for row ", row, " (block row ", row / matrix.vector_length,
                      ") has it at place ", place, " of group ", group, ", which repeats a column");
    }
}

}  // namespace

void validate_pattern(const context& ctx, const vnm_view& matrix, const char* argument) {
    const int64_t groups = matrix.groups();
    ctx.parallel(matrix.block_rows(), 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
            for (int64_t g = 0; g < groups; ++g) check_columns(matrix, b, g, argument);
            const int64_t first = b * matrix.vector_length;
            const int64_t last = std::min(first + matrix.vector_length, matrix.rows);
            for (int64_t row = first; row < last; ++row)
                for (int64_t g = 0; g < groups; ++g) check_places(matrix, row, g, argument);
        }
    });
}

void validate_values(const context& ctx, const vnm_view& matrix, const char* argument) {
    if (!matrix.values || matrix.value_count() == 0) return;
    if (matrix.group_width(matrix.groups() - 1) >= matrix.column_budget()) return;
    const int64_t arrays =
        matrix.values_stride == 0 ? std::min<int64_t>(matrix.batch_count, 1) : matrix.batch_count;
    const int64_t rows = checked_mul(arrays, matrix.rows, "rows of the batch");
    visit(matrix.type, [&](auto type) {
        ctx.parallel(rows, 256, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
                check_repeated<decltype(type)::value>(matrix, i / matrix.rows, i % matrix.rows,
                                                      argument);
        });
    });
}

}  // namespace magicube
