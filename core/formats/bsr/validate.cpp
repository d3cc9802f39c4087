// SPDX-License-Identifier: Apache-2.0
#include "core/formats/validate.hpp"
#include "core/common/pointers.hpp"
#include "core/formats/index_checks.hpp"

namespace magicube {
namespace {

void check_block_size(int64_t size, const char* name) {
    require_value(size >= 1 && size <= INT32_MAX, name, " is ", size, "; it must be from 1 to ",
                  INT32_MAX);
}

}  // namespace

void validate_sizes(const bsr_view& matrix) {
    check_block_size(matrix.block_rows, "block_rows");
    check_block_size(matrix.block_cols, "block_cols");
    require_value(matrix.nnzb >= 0, "nnzb is ", matrix.nnzb, "; it must be at least 0");
    const int64_t per_block = checked_mul(matrix.block_rows, matrix.block_cols, "a block's size");
    check_common_sizes(matrix, checked_mul(matrix.nnzb, per_block, "nnzb times a block's size"));
    check_index_type_holds(matrix.offsets.type, matrix.nnzb, "nnzb");
    require_array(matrix.offsets.data,
                  matrix.rows == 0 ? 0 : ceil_div(matrix.rows, matrix.block_rows) + 1,
                  index_bytes(matrix.offsets.type), "offsets");
    require_array(matrix.block_col_indices, matrix.nnzb, 4, "block_col_indices");
}

void validate_pattern(const context& ctx, const bsr_view& matrix, const char* argument) {
    const int64_t block_rows = ceil_div(matrix.rows, matrix.block_rows);
    const int64_t block_cols = ceil_div(matrix.cols, matrix.block_cols);
    check_offsets(matrix.offsets, block_rows, matrix.nnzb, "nnzb", argument);
    ctx.parallel(block_rows, 256, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            check_ascending(matrix.block_col_indices, matrix.offsets[i], matrix.offsets[i + 1],
                            block_cols, "block_col_indices", argument);
        }
    });
}

}  // namespace magicube
