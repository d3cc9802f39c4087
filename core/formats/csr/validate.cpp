// SPDX-License-Identifier: Apache-2.0
#include "core/formats/validate.hpp"
#include "core/common/pointers.hpp"
#include "core/formats/index_checks.hpp"

namespace magicube {

void validate_sizes(const csr_view& matrix) {
    require_value(matrix.nnz >= 0, "nnz is ", matrix.nnz, "; it must be at least 0");
    check_common_sizes(matrix, matrix.nnz);
    check_index_type_holds(matrix.offsets.type, matrix.nnz, "nnz");
    require_array(matrix.offsets.data, matrix.rows == 0 ? 0 : matrix.rows + 1,
                  index_bytes(matrix.offsets.type), "offsets");
    require_array(matrix.col_indices, matrix.nnz, 4, "col_indices");
}

void validate_pattern(const context& ctx, const csr_view& matrix, const char* argument) {
    check_offsets(matrix.offsets, matrix.rows, matrix.nnz, "nnz", argument);
    ctx.parallel(matrix.rows, 256, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
            check_ascending(matrix.col_indices, matrix.offsets[row], matrix.offsets[row + 1],
                            matrix.cols, "col_indices", argument);
        }
    });
}

}  // namespace magicube
