// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/tensor_map.hpp"

#include <algorithm>

#include "core/common/checked.hpp"
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

struct map_dimension {
    int64_t size;
    int64_t stride;  // bytes; not of the first
    int64_t box;
};

template <int Count>
CUtensorMap encode_map(void* values, int64_t bytes, const map_dimension (&dimensions)[Count],
                       CUtensorMapSwizzle swizzle) {
    static const encode_function encode = find_encode();
    cuuint64_t sizes[Count], strides[Count];
    cuuint32_t box[Count], steps[Count];
    for (int i = 0; i < Count; ++i) {
        sizes[i] = static_cast<cuuint64_t>(std::max<int64_t>(dimensions[i].size, 1));
        if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(dimensions[i].stride);
        box[i] = static_cast<cuuint32_t>(dimensions[i].box);
        steps[i] = 1;
    }
    CUtensorMap map;
    const CUresult code =
        encode(&map, unsigned_type(bytes), Count, values, sizes, strides, box, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    require(code == CUDA_SUCCESS, status::cuda_error, "cuTensorMapEncodeTiled failed with ",
            static_cast<int>(code), " for lines of ", dimensions[0].size, " elements, ",
            dimensions[1].size, " of them, ", dimensions[1].stride, " bytes apart");
    return map;
}

// Boxes of box_lines stored rows or columns, box_length elements of each.
CUtensorMap make_map(const dense_view& matrix, int64_t box_length, int64_t box_lines,
                     CUtensorMapSwizzle swizzle) {
    const int64_t bytes = storage_bits(matrix.type) / 8;
    const bool batched = matrix.batch_stride != 0, by_rows = matrix.storage == order::row;
    const int64_t lines = by_rows ? matrix.rows : matrix.cols, line = matrix.ld * bytes;
    const map_dimension dimensions[] = {
        {by_rows ? matrix.cols : matrix.rows, 0, box_length},
        {lines, line, box_lines},
        {batched ? matrix.batch_count : 1,
         batched ? matrix.batch_stride * bytes : line * std::max<int64_t>(lines, 1), 1}};
    return encode_map(matrix.values, bytes, dimensions, swizzle);
}

}  // namespace

CUtensorMap make_row_map(const dense_view& matrix, int box_cols, int box_rows) {
    const bool wide = box_cols * storage_bits(matrix.type) / 8 == 128;
    return make_map(matrix, box_cols, box_rows,
                    wide ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

CUtensorMap make_head_map(const head_tensor& t, int box_rows) {
    const int64_t bytes = storage_bits(t.type) / 8, row = t.length * bytes;
    // Sizes of 1 may have any stride.
    const auto stride = [&](int64_t size, int64_t elements) {
        return size > 1 ? elements * bytes : round_up(std::max<int64_t>(elements * bytes, row), 16);
    };
    const map_dimension dimensions[] = {{t.length, 0, t.length},
                                        {t.rows, stride(t.rows, t.row_stride), box_rows},
                                        {t.heads, stride(t.heads, t.head_stride), 1},
                                        {t.batches, stride(t.batches, t.batch_stride), 1}};
    return encode_map(t.values, bytes, dimensions,
                      row == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B);
}

CUtensorMap make_store_map(const dense_view& matrix) {
    const int64_t elements = 128 / (storage_bits(matrix.type) / 8);
    if (matrix.storage == order::row)
        return make_map(matrix, elements, 8, CU_TENSOR_MAP_SWIZZLE_128B);
    return make_map(matrix, 8, elements, CU_TENSOR_MAP_SWIZZLE_NONE);
}

}  // namespace magicube::cuda
