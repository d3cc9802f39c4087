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

}  // namespace

CUtensorMap make_row_map(const dense_view& matrix, int box_cols, int box_rows) {
    static const encode_function encode = find_encode();
    const auto bytes = static_cast<cuuint64_t>(storage_bits(matrix.type) / 8);
    const bool batched = matrix.batch_stride != 0;
    const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.cols),
                                static_cast<cuuint64_t>(std::max<int64_t>(matrix.rows, 1)),
                                static_cast<cuuint64_t>(batched ? matrix.batch_count : 1)};
    const cuuint64_t row = static_cast<cuuint64_t>(matrix.ld) * bytes;
    const cuuint64_t strides[] = {
        row, batched ? static_cast<cuuint64_t>(matrix.batch_stride) * bytes : row * sizes[1]};
    const cuuint32_t box[] = {static_cast<cuuint32_t>(box_cols), static_cast<cuuint32_t>(box_rows),
                              1};
    const cuuint32_t steps[] = {1, 1, 1};
    CUtensorMap map;
    const CUresult code =
        encode(&map, bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16 : CU_TENSOR_MAP_DATA_TYPE_UINT8, 3,
               matrix.values, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    require(code == CUDA_SUCCESS, status::cuda_error, "cuTensorMapEncodeTiled failed with ",
            static_cast<int>(code), " for a matrix of ", matrix.rows, " x ", matrix.cols, ", ld ",
            matrix.ld);
    return map;
}

}  // namespace magicube::cuda
