// SPDX-License-Identifier: Apache-2.0
#include "magicube/matrix.h"

#include <memory>

#include "core/formats/vnm/layout.hpp"
#include "descriptors.hpp"

using namespace magicube;
using namespace magicube::capi;

static_assert(MAGICUBE_FORMAT_CSR == 1 && MAGICUBE_FORMAT_BSR == 2 &&
                  MAGICUBE_FORMAT_SR_BCRS == 3 && MAGICUBE_FORMAT_VNM == 4,
              "sparse_view's alternatives are in this order");

namespace {

template <class View>
void set_values(View& view, const void* values, bool read_only, const char* maker,
                const char* setter) {
    require_value(view.read_only == read_only, "matrix was made by ", maker, "; ", setter,
                  " sets its values");
    view.values = const_cast<void*>(values);
}

dense_view make_dense(int64_t rows, int64_t cols, int64_t ld, const void* values,
                      magicubeDataType_t type, magicubeOrder_t storage, bool read_only) {
    dense_view view;
    view.rows = rows;
    view.cols = cols;
    view.ld = ld;
    view.values = const_cast<void*>(values);
    view.type = to_core(type, "type");
    view.storage = to_core(storage, "order");
    view.read_only = read_only;
    return view;
}

void set_common(sparse_common& view, int64_t rows, int64_t cols, const void* values,
                magicubeDataType_t type, bool read_only) {
    view.rows = rows;
    view.cols = cols;
    view.values = const_cast<void*>(values);
    view.type = to_core(type, "value_type");
    view.read_only = read_only;
}

sparse_view make_csr(int64_t rows, int64_t cols, int64_t nnz, const void* offsets,
                     const int32_t* col_indices, const void* values,
                     magicubeIndexType_t offset_type, magicubeDataType_t type, bool read_only) {
    csr_view view;
    set_common(view, rows, cols, values, type, read_only);
    view.nnz = nnz;
    view.offsets = {offsets, to_core(offset_type, "offset_type")};
    view.col_indices = col_indices;
    return view;
}

sparse_view make_bsr(int64_t rows, int64_t cols, int64_t block_rows, int64_t block_cols,
                     int64_t nnzb, const void* offsets, const int32_t* block_col_indices,
                     const void* values, magicubeIndexType_t offset_type, magicubeDataType_t type,
                     bool read_only) {
    bsr_view view;
    set_common(view, rows, cols, values, type, read_only);
    view.block_rows = block_rows;
    view.block_cols = block_cols;
    view.nnzb = nnzb;
    view.offsets = {offsets, to_core(offset_type, "offset_type")};
    view.block_col_indices = block_col_indices;
    return view;
}

sparse_view make_sr_bcrs(int64_t rows, int64_t cols, int32_t vector_length, int32_t stride,
                         int64_t slots, const void* row_begin, const void* row_end,
                         const int32_t* col_indices, const void* values,
                         magicubeIndexType_t offset_type, magicubeDataType_t type, bool read_only) {
    sr_bcrs_view view;
    set_common(view, rows, cols, values, type, read_only);
    view.vector_length = vector_length;
    view.stride = stride;
    view.slots = slots;
    view.row_begin = {row_begin, to_core(offset_type, "offset_type")};
    view.row_end = {row_end, view.row_begin.type};
    view.col_indices = col_indices;
    return view;
}

sparse_view make_vnm(int64_t rows, int64_t cols, int32_t vector_length, int32_t n, int32_t m,
                     const void* column_loc, const uint8_t* metadata, const void* values,
                     magicubeDataType_t type, bool read_only) {
    vnm_view view;
    set_common(view, rows, cols, values, type, read_only);
    view.vector_length = vector_length;
    view.n = n;
    view.m = m;
    view.column_loc = column_loc;
    view.metadata = metadata;
    return view;
}

// The alternative of a descriptor that a getter or setter of one format is for.
template <class View, class Sparse>
auto& as_format(Sparse& view, const char* name) {
    auto* found = std::get_if<View>(&view);
    require_value(found != nullptr, "matrix is not ", name);
    return *found;
}

}  // namespace

// ---- dense --------------------------------------------------------------------------------------

magicubeStatus_t magicubeCreateDnMat(magicubeDnMatDescr_t* matrix, int64_t rows, int64_t cols,
                                     int64_t ld, void* values, magicubeDataType_t type,
                                     magicubeOrder_t order) noexcept {
    return MAGICUBE_GUARDED(
        create(matrix, [&] { return make_dense(rows, cols, ld, values, type, order, false); }););
}

magicubeStatus_t magicubeCreateConstDnMat(magicubeConstDnMatDescr_t* matrix, int64_t rows,
                                          int64_t cols, int64_t ld, const void* values,
                                          magicubeDataType_t type, magicubeOrder_t order) noexcept {
    return MAGICUBE_GUARDED(
        create(matrix, [&] { return make_dense(rows, cols, ld, values, type, order, true); }););
}

magicubeStatus_t magicubeDestroyDnMat(magicubeConstDnMatDescr_t matrix) noexcept {
    delete matrix;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeDnMatGet(magicubeConstDnMatDescr_t matrix, int64_t* rows, int64_t* cols,
                                  int64_t* ld, const void** values, magicubeDataType_t* type,
                                  magicubeOrder_t* order) noexcept {
    return MAGICUBE_GUARDED({
        const dense_view& view = get_shape(matrix, "matrix");
        tell(rows, view.rows);
        tell(cols, view.cols);
        tell(ld, view.ld);
        tell(values, view.values);
        tell(type, view.type);
        tell(order, view.storage);
    });
}

magicubeStatus_t magicubeDnMatSetValues(magicubeDnMatDescr_t matrix, void* values) noexcept {
    return MAGICUBE_GUARDED(change(static_cast<magicubeConstDnMatDescr_t>(matrix), [&](auto& v) {
                                set_values(v, values, false, "magicubeCreateConstDnMat",
                                           "magicubeConstDnMatSetValues");
                            }););
}

magicubeStatus_t magicubeConstDnMatSetValues(magicubeConstDnMatDescr_t matrix,
                                             const void* values) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                set_values(v, values, true, "magicubeCreateDnMat",
                                           "magicubeDnMatSetValues");
                            }););
}

magicubeStatus_t magicubeDnMatSetCols(magicubeConstDnMatDescr_t matrix, int64_t cols,
                                      int64_t ld) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                v.cols = cols;
                                v.ld = ld;
                            }););
}

magicubeStatus_t magicubeDnMatSetStridedBatch(magicubeConstDnMatDescr_t matrix, int64_t count,
                                              int64_t stride) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                v.batch_count = count;
                                v.batch_stride = stride;
                            }););
}

magicubeStatus_t magicubeDnMatGetStridedBatch(magicubeConstDnMatDescr_t matrix, int64_t* count,
                                              int64_t* stride) noexcept {
    return MAGICUBE_GUARDED({
        const dense_view& view = get_shape(matrix, "matrix");
        tell(count, view.batch_count);
        tell(stride, view.batch_stride);
    });
}

// ---- sparse -------------------------------------------------------------------------------------

magicubeStatus_t magicubeCreateCsr(magicubeSpMatDescr_t* matrix, int64_t rows, int64_t cols,
                                   int64_t nnz, const void* offsets, const int32_t* col_indices,
                                   void* values, magicubeIndexType_t offset_type,
                                   magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_csr(rows, cols, nnz, offsets, col_indices, values,
                                                offset_type, value_type, false);
                            }););
}

magicubeStatus_t magicubeCreateConstCsr(magicubeConstSpMatDescr_t* matrix, int64_t rows,
                                        int64_t cols, int64_t nnz, const void* offsets,
                                        const int32_t* col_indices, const void* values,
                                        magicubeIndexType_t offset_type,
                                        magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_csr(rows, cols, nnz, offsets, col_indices, values,
                                                offset_type, value_type, true);
                            }););
}

magicubeStatus_t magicubeCreateBsr(magicubeSpMatDescr_t* matrix, int64_t rows, int64_t cols,
                                   int64_t block_rows, int64_t block_cols, int64_t nnzb,
                                   const void* offsets, const int32_t* block_col_indices,
                                   void* values, magicubeIndexType_t offset_type,
                                   magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_bsr(rows, cols, block_rows, block_cols, nnzb, offsets,
                                                block_col_indices, values, offset_type, value_type,
                                                false);
                            }););
}

magicubeStatus_t magicubeCreateConstBsr(magicubeConstSpMatDescr_t* matrix, int64_t rows,
                                        int64_t cols, int64_t block_rows, int64_t block_cols,
                                        int64_t nnzb, const void* offsets,
                                        const int32_t* block_col_indices, const void* values,
                                        magicubeIndexType_t offset_type,
                                        magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_bsr(rows, cols, block_rows, block_cols, nnzb, offsets,
                                                block_col_indices, values, offset_type, value_type,
                                                true);
                            }););
}

magicubeStatus_t magicubeCreateSrBcrs(magicubeSpMatDescr_t* matrix, int64_t rows, int64_t cols,
                                      int32_t vector_length, int32_t stride, int64_t slots,
                                      const void* row_begin, const void* row_end,
                                      const int32_t* col_indices, void* values,
                                      magicubeIndexType_t offset_type,
                                      magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_sr_bcrs(rows, cols, vector_length, stride, slots,
                                                    row_begin, row_end, col_indices, values,
                                                    offset_type, value_type, false);
                            }););
}

magicubeStatus_t magicubeCreateConstSrBcrs(magicubeConstSpMatDescr_t* matrix, int64_t rows,
                                           int64_t cols, int32_t vector_length, int32_t stride,
                                           int64_t slots, const void* row_begin,
                                           const void* row_end, const int32_t* col_indices,
                                           const void* values, magicubeIndexType_t offset_type,
                                           magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_sr_bcrs(rows, cols, vector_length, stride, slots,
                                                    row_begin, row_end, col_indices, values,
                                                    offset_type, value_type, true);
                            }););
}

magicubeStatus_t magicubeCreateVnm(magicubeSpMatDescr_t* matrix, int64_t rows, int64_t cols,
                                   int32_t vector_length, int32_t n, int32_t m,
                                   const void* column_loc, const uint8_t* metadata, void* values,
                                   magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_vnm(rows, cols, vector_length, n, m, column_loc,
                                                metadata, values, value_type, false);
                            }););
}

magicubeStatus_t magicubeCreateConstVnm(magicubeConstSpMatDescr_t* matrix, int64_t rows,
                                        int64_t cols, int32_t vector_length, int32_t n, int32_t m,
                                        const void* column_loc, const uint8_t* metadata,
                                        const void* values,
                                        magicubeDataType_t value_type) noexcept {
    return MAGICUBE_GUARDED(create(matrix, [&] {
                                return make_vnm(rows, cols, vector_length, n, m, column_loc,
                                                metadata, values, value_type, true);
                            }););
}

magicubeStatus_t magicubeVnmLengths(int64_t rows, int64_t cols, int32_t vector_length, int32_t n,
                                    int32_t m, int64_t* column_loc, int64_t* metadata,
                                    int64_t* values) noexcept {
    return MAGICUBE_GUARDED({
        const vnm_view view = vnm_of_shape(rows, cols, vector_length, n, m);
        tell(column_loc, column_loc_count(view));
        tell(metadata, metadata_count(view));
        tell(values, view.value_count());
    });
}

magicubeStatus_t magicubeDestroySpMat(magicubeConstSpMatDescr_t matrix) noexcept {
    delete matrix;
    return MAGICUBE_STATUS_SUCCESS;
}

magicubeStatus_t magicubeSpMatGet(magicubeConstSpMatDescr_t matrix, magicubeSparseFormat_t* format,
                                  int64_t* rows, int64_t* cols, magicubeDataType_t* value_type,
                                  const void** values) noexcept {
    return MAGICUBE_GUARDED({
        const sparse_view& view = get(matrix, "matrix");
        const sparse_common& common = common_of(view);
        tell(format, view.index() + 1);
        tell(rows, common.rows);
        tell(cols, common.cols);
        tell(value_type, common.type);
        tell(values, common.values);
    });
}

magicubeStatus_t magicubeCsrGet(magicubeConstSpMatDescr_t matrix, int64_t* nnz,
                                const void** offsets, const int32_t** col_indices,
                                magicubeIndexType_t* offset_type) noexcept {
    return MAGICUBE_GUARDED({
        const auto& view = as_format<csr_view>(get(matrix, "matrix"), "CSR");
        tell(nnz, view.nnz);
        tell(offsets, view.offsets.data);
        tell(col_indices, view.col_indices);
        tell(offset_type, view.offsets.type);
    });
}

magicubeStatus_t magicubeBsrGet(magicubeConstSpMatDescr_t matrix, int64_t* block_rows,
                                int64_t* block_cols, int64_t* nnzb, const void** offsets,
                                const int32_t** block_col_indices,
                                magicubeIndexType_t* offset_type) noexcept {
    return MAGICUBE_GUARDED({
        const auto& view = as_format<bsr_view>(get(matrix, "matrix"), "BSR");
        tell(block_rows, view.block_rows);
        tell(block_cols, view.block_cols);
        tell(nnzb, view.nnzb);
        tell(offsets, view.offsets.data);
        tell(block_col_indices, view.block_col_indices);
        tell(offset_type, view.offsets.type);
    });
}

magicubeStatus_t magicubeSrBcrsGet(magicubeConstSpMatDescr_t matrix, int32_t* vector_length,
                                   int32_t* stride, int64_t* slots, const void** row_begin,
                                   const void** row_end, const int32_t** col_indices,
                                   const uint8_t** element_mask,
                                   magicubeIndexType_t* offset_type) noexcept {
    return MAGICUBE_GUARDED({
        const auto& view = as_format<sr_bcrs_view>(get(matrix, "matrix"), "SR-BCRS");
        tell(vector_length, view.vector_length);
        tell(stride, view.stride);
        tell(slots, view.slots);
        tell(row_begin, view.row_begin.data);
        tell(row_end, view.row_end.data);
        tell(col_indices, view.col_indices);
        tell(element_mask, view.element_mask);
        tell(offset_type, view.row_begin.type);
    });
}

magicubeStatus_t magicubeVnmGet(magicubeConstSpMatDescr_t matrix, int32_t* vector_length,
                                int32_t* n, int32_t* m, const void** column_loc,
                                const uint8_t** metadata) noexcept {
    return MAGICUBE_GUARDED({
        const auto& view = as_format<vnm_view>(get(matrix, "matrix"), "V:N:M");
        tell(vector_length, view.vector_length);
        tell(n, view.n);
        tell(m, view.m);
        tell(column_loc, view.column_loc);
        tell(metadata, view.metadata);
    });
}

magicubeStatus_t magicubeCsrSetPointers(magicubeConstSpMatDescr_t matrix, int64_t nnz,
                                        const void* offsets, const int32_t* col_indices) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                auto& csr = as_format<csr_view>(v, "CSR");
                                csr.nnz = nnz;
                                csr.offsets.data = offsets;
                                csr.col_indices = col_indices;
                            }););
}

magicubeStatus_t magicubeBsrSetPointers(magicubeConstSpMatDescr_t matrix, int64_t nnzb,
                                        const void* offsets,
                                        const int32_t* block_col_indices) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                auto& bsr = as_format<bsr_view>(v, "BSR");
                                bsr.nnzb = nnzb;
                                bsr.offsets.data = offsets;
                                bsr.block_col_indices = block_col_indices;
                            }););
}

magicubeStatus_t magicubeSrBcrsSetPointers(magicubeConstSpMatDescr_t matrix, int64_t slots,
                                           const void* row_begin, const void* row_end,
                                           const int32_t* col_indices) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                auto& sr_bcrs = as_format<sr_bcrs_view>(v, "SR-BCRS");
                                sr_bcrs.slots = slots;
                                sr_bcrs.row_begin.data = row_begin;
                                sr_bcrs.row_end.data = row_end;
                                sr_bcrs.col_indices = col_indices;
                            }););
}

magicubeStatus_t magicubeVnmSetPointers(magicubeConstSpMatDescr_t matrix, const void* column_loc,
                                        const uint8_t* metadata) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                auto& vnm = as_format<vnm_view>(v, "V:N:M");
                                vnm.column_loc = column_loc;
                                vnm.metadata = metadata;
                            }););
}

magicubeStatus_t magicubeSpMatSetValues(magicubeSpMatDescr_t matrix, void* values) noexcept {
    return MAGICUBE_GUARDED(change(static_cast<magicubeConstSpMatDescr_t>(matrix), [&](auto& v) {
                                set_values(common_of(v), values, false,
                                           "a magicubeCreateConst... function",
                                           "magicubeConstSpMatSetValues");
                            }););
}

magicubeStatus_t magicubeConstSpMatSetValues(magicubeConstSpMatDescr_t matrix,
                                             const void* values) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                set_values(common_of(v), values, true,
                                           "a function for writable values",
                                           "magicubeSpMatSetValues");
                            }););
}

magicubeStatus_t magicubeSrBcrsSetElementMask(magicubeConstSpMatDescr_t matrix,
                                              const uint8_t* element_mask) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                as_format<sr_bcrs_view>(v, "SR-BCRS").element_mask = element_mask;
                            }););
}

magicubeStatus_t magicubeSpMatSetStridedBatch(magicubeConstSpMatDescr_t matrix, int64_t count,
                                              int64_t values_stride) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                common_of(v).batch_count = count;
                                common_of(v).values_stride = values_stride;
                                if (auto* sr_bcrs = std::get_if<sr_bcrs_view>(&v))
                                    sr_bcrs->different_patterns = false;
                            }););
}

magicubeStatus_t magicubeSrBcrsSetPatternBatch(magicubeConstSpMatDescr_t matrix,
                                               int64_t count) noexcept {
    return MAGICUBE_GUARDED(change(matrix, [&](auto& v) {
                                auto& view = as_format<sr_bcrs_view>(v, "SR-BCRS");
                                view.batch_count = count;
                                view.values_stride = 0;
                                view.different_patterns = true;
                            }););
}

magicubeStatus_t magicubeSpMatGetBatch(magicubeConstSpMatDescr_t matrix, int64_t* count,
                                       int64_t* values_stride,
                                       int32_t* different_patterns) noexcept {
    return MAGICUBE_GUARDED({
        const sparse_view& view = get(matrix, "matrix");
        const auto* sr_bcrs = std::get_if<sr_bcrs_view>(&view);
        tell(count, common_of(view).batch_count);
        tell(values_stride, common_of(view).values_stride);
        tell(different_patterns, sr_bcrs && sr_bcrs->different_patterns);
    });
}
