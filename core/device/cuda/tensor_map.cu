// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/tensor_map.hpp"

#include <algorithm>

#include "core/device/cuda/check.hpp"

namespace magicube::cuda {
namespace {

using encode_function = decltype(&cuTensorMapEncodeTiled);

// The driver's function, found through the runtime so that the library needs no libcuda to load.
encode_function find_encode() {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                           cudaEnableDefault, &found),
          "cudaGetDriverEntryPointByVersion");
    require(found == cudaDriverEntryPointSuccess, status::cuda_error,
            "the driver has no cuTensorMapEncodeTiled; it is older than CUDA 12.0");
    return reinterpret_cast<encode_function>(function);
}

CUtensorMapDataType unsigned_type(int64_t bytes) {
    return bytes == 4   ? CU_TENSOR_MAP_DATA_TYPE_UINT32
           : bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                        : CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

// Boxes of box_lines stored rows or columns, box_length elements of each.
CUtensorMap make_map(const dense_view& matrix, int64_t box_length, int64_t box_lines,
                     CUtensorMapSwizzle swizzle) {
    static const encode_function encode = find_encode();
    const auto bytes = static_cast<cuuint64_t>(storage_bits(matrix.type) / 8);
    const bool batched = matrix.batch_stride != 0, by_rows = matrix.storage == order::row;
    const int64_t length = by_rows ? matrix.cols : matrix.rows;
    const int64_t lines = by_rows ? matrix.rows : matrix.cols;
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(length),
                                static_cast<cuuint64_t>(std::max<int64_t>(lines, 1)),
                                static_cast<cuuint64_t>(batched ? matrix.batch_count : 1)};
    const cuuint64_t line = static_cast<cuuint64_t>(matrix.ld) * bytes;
    const cuuint64_t strides[] = {
        line, batched ? static_cast<cuuint64_t>(matrix.batch_stride) * bytes : line * sizes[1]};
    const cuuint32_t box[] = {static_cast<cuuint32_t>(box_length),
                              static_cast<cuuint32_t>(box_lines), 1};
    const cuuint32_t steps[] = {1, 1, 1};
    CUtensorMap map;
    const CUresult code =
        encode(&map, unsigned_type(static_cast<int64_t>(bytes)), 3, matrix.values, sizes, strides,
               box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    require(code == CUDA_SUCCESS, status::cuda_error, "cuTensorMapEncodeTiled failed with ",
            static_cast<int>(code), " for a matrix of ", matrix.rows, " x ", matrix.cols, ", ld ",
            matrix.ld);
    return map;
}

}  // namespace

CUtensorMap make_row_map(const dense_view& matrix, int box_cols, int box_rows) {
    const bool wide = box_cols * storage_bits(matrix.type) / 8 == 128;
    return make_map(matrix, box_cols, box_rows,
                    wide ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

CUtensorMap make_store_map(const dense_view& matrix) {
    const int64_t elements = 128 / (storage_bits(matrix.type) / 8);
    if (matrix.storage == order::row)
        return make_map(matrix, elements, 8, CU_TENSOR_MAP_SWIZZLE_128B);
    return make_map(matrix, 8, elements, CU_TENSOR_MAP_SWIZZLE_NONE);
}

}  // namespace magicube::cuda
