// SPDX-License-Identifier: Apache-2.0
#include "magicube/convert.h"

#include "core/formats/bsr/convert.hpp"
#include "core/formats/csr/convert.hpp"
#include "core/formats/dense/convert.hpp"
#include "core/formats/sr_bcrs/convert.hpp"
#include "core/formats/vnm/convert.hpp"
#include "descriptors.hpp"

using namespace magicube;
using namespace magicube::capi;

namespace {

sr_bcrs_target read_target(const magicubeSrBcrsArrays_t* given) {
    const magicubeSrBcrsArrays_t defaults = MAGICUBE_SR_BCRS_ARRAYS_INIT;
    const auto arrays = read_struct(given, defaults, "arrays");
    sr_bcrs_target target;
    target.type = to_core(arrays.value_type, "arrays->value_type");
    target.offset_type = to_core(arrays.offset_type, "arrays->offset_type");
    target.vector_length = arrays.vector_length;
    target.stride =
        arrays.stride != 0 ? arrays.stride : default_stride(arrays.vector_length, target.type);
    target.slots = arrays.slots;
    target.row_begin = arrays.row_begin;
    target.row_end = arrays.row_end;
    target.col_indices = arrays.col_indices;
    target.values = arrays.values;
    target.element_mask = arrays.element_mask;
    return target;
}

vnm_target read_target(const magicubeVnmArrays_t* given) {
    const magicubeVnmArrays_t defaults = MAGICUBE_VNM_ARRAYS_INIT;
    const auto arrays = read_struct(given, defaults, "arrays");
    vnm_target target;
    target.vector_length = arrays.vector_length;
    target.n = arrays.n;
    target.m = arrays.m;
    target.type = to_core(arrays.value_type, "arrays->value_type");
    target.column_loc = arrays.column_loc;
    target.metadata = arrays.metadata;
    target.values = arrays.values;
    return target;
}

dense_source read_source(magicubeConstDnMatDescr_t dense, magicubeConstDnMatDescr_t mask) {
    return {get_shape(dense, "dense"), mask ? &get(mask, "mask") : nullptr};
}

const vnm_view& get_vnm(magicubeConstSpMatDescr_t matrix, const char* argument) {
    const auto* vnm = std::get_if<vnm_view>(&get(matrix, argument));
    require_value(vnm != nullptr, argument, " is not V:N:M");
    return *vnm;
}

csr_target csr_arrays(magicubeIndexType_t offset_type, const void* offsets) {
    csr_target target;
    target.offset_type = to_core(offset_type, "offset_type");
    target.offsets = const_cast<void*>(offsets);  // fill only reads them
    return target;
}

bsr_target bsr_arrays(int64_t block_rows, int64_t block_cols, magicubeIndexType_t offset_type,
                      const void* offsets) {
    bsr_target target;
    target.block_rows = block_rows;
    target.block_cols = block_cols;
    target.offset_type = to_core(offset_type, "offset_type");
    target.offsets = const_cast<void*>(offsets);  // fill only reads them
    return target;
}

}  // namespace

magicubeStatus_t magicubeSrBcrsDefaultStride(int32_t vector_length, magicubeDataType_t type,
                                             int32_t* stride) noexcept {
    return MAGICUBE_GUARDED({
        require_value(is_vector_length(vector_length), "vector_length is ", vector_length,
                      "; it must be 1, 2, 4, 8, 16, 32 or 64");
        deref(stride, "stride") = default_stride(vector_length, to_core(type, "type"));
    });
}

// ---- to SR-BCRS; needs no scratch --------------------------------------------------------------

magicubeStatus_t magicubeDenseToSrBcrs_bufferSize(magicubeHandle_t handle,
                                                  magicubeConstDnMatDescr_t dense,
                                                  magicubeConstDnMatDescr_t mask,
                                                  const magicubeSrBcrsArrays_t* arrays,
                                                  size_t* bytes) noexcept {
    return MAGICUBE_GUARDED({
        get(handle);
        auto& result = deref(bytes, "bytes");
        check_source(read_source(dense, mask), read_target(arrays), conversion_step::size);
        result = 0;
    });
}

magicubeStatus_t magicubeDenseToSrBcrs_count(magicubeHandle_t handle,
                                             magicubeConstDnMatDescr_t dense,
                                             magicubeConstDnMatDescr_t mask,
                                             const magicubeSrBcrsArrays_t* arrays, int64_t* slots,
                                             void*, size_t) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto& result = deref(slots, "slots");
        const auto source = read_source(dense, mask);
        const auto target = read_target(arrays);
        check_source(source, target, conversion_step::count);
        result = count_sr_bcrs(ctx, source, target);
    });
}

magicubeStatus_t magicubeDenseToSrBcrs_fill(magicubeHandle_t handle,
                                            magicubeConstDnMatDescr_t dense,
                                            magicubeConstDnMatDescr_t mask,
                                            const magicubeSrBcrsArrays_t* arrays, void*,
                                            size_t) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        const auto source = read_source(dense, mask);
        const auto target = read_target(arrays);
        check_source(source, target, conversion_step::fill);
        fill_sr_bcrs(ctx, source, target);
    });
}

magicubeStatus_t magicubeSparseToSrBcrs_bufferSize(magicubeHandle_t handle,
                                                   magicubeConstSpMatDescr_t source,
                                                   const magicubeSrBcrsArrays_t* arrays,
                                                   size_t* bytes) noexcept {
    return MAGICUBE_GUARDED({
        get(handle);
        auto& result = deref(bytes, "bytes");
        check_source(get(source, "source"), read_target(arrays), conversion_step::size);
        result = 0;
    });
}

magicubeStatus_t magicubeSparseToSrBcrs_count(magicubeHandle_t handle,
                                              magicubeConstSpMatDescr_t source,
                                              const magicubeSrBcrsArrays_t* arrays, int64_t* slots,
                                              void*, size_t) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto& result = deref(slots, "slots");
        const sparse_view& view = get(source, "source");
        const auto target = read_target(arrays);
        check_source(view, target, conversion_step::count);
        result = count_sr_bcrs(ctx, view, target);
    });
}

magicubeStatus_t magicubeSparseToSrBcrs_fill(magicubeHandle_t handle,
                                             magicubeConstSpMatDescr_t source,
                                             const magicubeSrBcrsArrays_t* arrays, void*,
                                             size_t) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        const sparse_view& view = get(source, "source");
        const auto target = read_target(arrays);
        check_source(view, target, conversion_step::fill);
        fill_sr_bcrs(ctx, view, target);
    });
}

// ---- to V:N:M; needs no scratch ----------------------------------------------------------------

magicubeStatus_t magicubeDenseToVnm_bufferSize(magicubeHandle_t handle,
                                               magicubeConstDnMatDescr_t dense,
                                               magicubeConstDnMatDescr_t mask,
                                               const magicubeVnmArrays_t* arrays,
                                               size_t* bytes) noexcept {
    return MAGICUBE_GUARDED({
        get(handle);
        auto& result = deref(bytes, "bytes");
        check_source(read_source(dense, mask), read_target(arrays), conversion_step::size);
        result = 0;
    });
}

magicubeStatus_t magicubeDenseToVnm_count(magicubeHandle_t handle, magicubeConstDnMatDescr_t dense,
                                          magicubeConstDnMatDescr_t mask,
                                          const magicubeVnmArrays_t* arrays, int64_t* elements,
                                          void*, size_t) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto& result = deref(elements, "elements");
        const auto source = read_source(dense, mask);
        const auto target = read_target(arrays);
        check_source(source, target, conversion_step::count);
        result = count_vnm(ctx, source, target);
    });
}

magicubeStatus_t magicubeDenseToVnm_fill(magicubeHandle_t handle, magicubeConstDnMatDescr_t dense,
                                         magicubeConstDnMatDescr_t mask,
                                         const magicubeVnmArrays_t* arrays, void*,
                                         size_t) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        const auto source = read_source(dense, mask);
        const auto target = read_target(arrays);
        check_source(source, target, conversion_step::fill);
        fill_vnm(ctx, source, target);
    });
}

magicubeStatus_t magicubeSparseToVnm_bufferSize(magicubeHandle_t handle,
                                                magicubeConstSpMatDescr_t source,
                                                const magicubeVnmArrays_t* arrays,
                                                size_t* bytes) noexcept {
    return MAGICUBE_GUARDED({
        get(handle);
        auto& result = deref(bytes, "bytes");
        check_source(get(source, "source"), read_target(arrays), conversion_step::size);
        result = 0;
    });
}

magicubeStatus_t magicubeSparseToVnm_count(magicubeHandle_t handle,
                                           magicubeConstSpMatDescr_t source,
                                           const magicubeVnmArrays_t* arrays, int64_t* elements,
                                           void*, size_t) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto& result = deref(elements, "elements");
        const sparse_view& view = get(source, "source");
        const auto target = read_target(arrays);
        check_source(view, target, conversion_step::count);
        result = count_vnm(ctx, view, target);
    });
}

magicubeStatus_t magicubeSparseToVnm_fill(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                          const magicubeVnmArrays_t* arrays, void*,
                                          size_t) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        const sparse_view& view = get(source, "source");
        const auto target = read_target(arrays);
        check_source(view, target, conversion_step::fill);
        fill_vnm(ctx, view, target);
    });
}

// ---- from sparse -------------------------------------------------------------------------------

magicubeStatus_t magicubeSparseToDense(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                       magicubeDnMatDescr_t dense) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        sparse_to_dense(ctx, get(source, "source"), get_output(dense, "dense"));
    });
}

magicubeStatus_t magicubeSparseToMask(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                      magicubeDnMatDescr_t mask) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        sparse_to_mask(ctx, get(source, "source"), get_output(mask, "mask"));
    });
}

magicubeStatus_t magicubeSrBcrsToCsr_count(magicubeHandle_t handle,
                                           magicubeConstSpMatDescr_t source,
                                           magicubeIndexType_t offset_type, void* offsets,
                                           int64_t* nnz) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto& result = deref(nnz, "nnz");
        result = count_csr(ctx, get_sr_bcrs(source, "source"), csr_arrays(offset_type, offsets));
    });
}

magicubeStatus_t magicubeSrBcrsToCsr_fill(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                          magicubeIndexType_t offset_type, const void* offsets,
                                          int32_t* col_indices, void* values,
                                          magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto target = csr_arrays(offset_type, offsets);
        target.type = to_core(value_type, "value_type");
        target.col_indices = col_indices;
        target.values = values;
        fill_csr(ctx, get_sr_bcrs(source, "source"), target);
    });
}

magicubeStatus_t magicubeVnmToCsr_count(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                        magicubeIndexType_t offset_type, void* offsets,
                                        int64_t* nnz) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto& result = deref(nnz, "nnz");
        result = count_csr(ctx, get_vnm(source, "source"), csr_arrays(offset_type, offsets));
    });
}

magicubeStatus_t magicubeVnmToCsr_fill(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                       magicubeIndexType_t offset_type, const void* offsets,
                                       int32_t* col_indices, void* values,
                                       magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto target = csr_arrays(offset_type, offsets);
        target.type = to_core(value_type, "value_type");
        target.col_indices = col_indices;
        target.values = values;
        fill_csr(ctx, get_vnm(source, "source"), target);
    });
}

magicubeStatus_t magicubeSrBcrsToBsr_count(magicubeHandle_t handle,
                                           magicubeConstSpMatDescr_t source, int64_t block_rows,
                                           int64_t block_cols, magicubeIndexType_t offset_type,
                                           void* offsets, int64_t* nnzb) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto& result = deref(nnzb, "nnzb");
        result = count_bsr(ctx, get_sr_bcrs(source, "source"),
                           bsr_arrays(block_rows, block_cols, offset_type, offsets));
    });
}

magicubeStatus_t magicubeSrBcrsToBsr_fill(magicubeHandle_t handle, magicubeConstSpMatDescr_t source,
                                          int64_t block_rows, int64_t block_cols,
                                          magicubeIndexType_t offset_type, const void* offsets,
                                          int32_t* block_col_indices, void* values,
                                          magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        auto target = bsr_arrays(block_rows, block_cols, offset_type, offsets);
        target.type = to_core(value_type, "value_type");
        target.block_col_indices = block_col_indices;
        target.values = values;
        fill_bsr(ctx, get_sr_bcrs(source, "source"), target);
    });
}

magicubeStatus_t magicubeSpMatValidate(magicubeHandle_t handle,
                                       magicubeConstSpMatDescr_t matrix) noexcept {
    return MAGICUBE_GUARDED_RANGE({
        const context& ctx = get(handle);
        const sparse_view& view = get(matrix, "matrix");
        validate_pattern(ctx, view, "matrix");
        validate_values(ctx, view, "matrix");
    });
}
