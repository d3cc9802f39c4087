// SPDX-License-Identifier: Apache-2.0
// Descriptors. They own no data: the Python layer keeps the arrays alive during the calls.
#include "matrices.hpp"

namespace magicube_python {

static std::shared_ptr<DnMat> make_dense(int64_t rows, int64_t cols, int64_t ld,
                                         std::uintptr_t values, int32_t type, int32_t order,
                                         bool writable, int64_t batch, int64_t batch_stride) {
    auto matrix = std::make_shared<DnMat>(writable);
    const auto data_type = static_cast<magicubeDataType_t>(type);
    const auto storage_order = static_cast<magicubeOrder_t>(order);
    if (writable) {
        magicubeDnMatDescr_t descriptor = nullptr;
        call(&magicubeCreateDnMat, &descriptor, rows, cols, ld, pointer(values), data_type,
             storage_order);
        *matrix->out() = descriptor;
    } else {
        call(&magicubeCreateConstDnMat, matrix->out(), rows, cols, ld,
             static_cast<const void*>(pointer(values)), data_type, storage_order);
    }
    if (batch >= 0) call(&magicubeDnMatSetStridedBatch, matrix->get(), batch, batch_stride);
    return matrix;
}

static std::shared_ptr<SpMat> make_csr(int64_t rows, int64_t cols, int64_t nnz,
                                       std::uintptr_t offsets, std::uintptr_t col_indices,
                                       std::uintptr_t values, int32_t offset_type,
                                       int32_t value_type) {
    auto matrix = std::make_shared<SpMat>();
    call(&magicubeCreateConstCsr, matrix->out(), rows, cols, nnz,
         static_cast<const void*>(pointer(offsets)), pointer<const int32_t>(col_indices),
         static_cast<const void*>(pointer(values)), static_cast<magicubeIndexType_t>(offset_type),
         static_cast<magicubeDataType_t>(value_type));
    return matrix;
}

static std::shared_ptr<SpMat> make_bsr(int64_t rows, int64_t cols, int64_t block_rows,
                                       int64_t block_cols, int64_t nnzb, std::uintptr_t offsets,
                                       std::uintptr_t block_col_indices, std::uintptr_t values,
                                       int32_t offset_type, int32_t value_type) {
    auto matrix = std::make_shared<SpMat>();
    call(&magicubeCreateConstBsr, matrix->out(), rows, cols, block_rows, block_cols, nnzb,
         static_cast<const void*>(pointer(offsets)), pointer<const int32_t>(block_col_indices),
         static_cast<const void*>(pointer(values)), static_cast<magicubeIndexType_t>(offset_type),
         static_cast<magicubeDataType_t>(value_type));
    return matrix;
}

// values_batch and pattern_batch: -1 for none, else the number of matrices of a batch with one
// pattern and of one with different patterns.
static std::shared_ptr<SpMat> make_sr_bcrs(const py::dict& entries) {
    int64_t rows = 0, cols = 0, slots = 0, values_batch = -1, values_stride = 0, pattern_batch = -1;
    int32_t vector_length = 0, stride = 0;
    const void *row_begin = nullptr, *row_end = nullptr, *values = nullptr;
    const int32_t* col_indices = nullptr;
    const uint8_t* element_mask = nullptr;
    magicubeIndexType_t offset_type = MAGICUBE_INDEX_64;
    magicubeDataType_t value_type = MAGICUBE_FP32;
    Fields fields(entries);
    fields.take("rows", rows);
    fields.take("cols", cols);
    fields.take("vector_length", vector_length);
    fields.take("stride", stride);
    fields.take("slots", slots);
    fields.take("row_begin", row_begin);
    fields.take("row_end", row_end);
    fields.take("col_indices", col_indices);
    fields.take("values", values);
    fields.take("element_mask", element_mask);
    fields.take("offset_type", offset_type);
    fields.take("value_type", value_type);
    fields.take("values_batch", values_batch);
    fields.take("values_stride", values_stride);
    fields.take("pattern_batch", pattern_batch);
    fields.finish();

    auto matrix = std::make_shared<SpMat>();
    call(&magicubeCreateConstSrBcrs, matrix->out(), rows, cols, vector_length, stride, slots,
         row_begin, row_end, col_indices, values, offset_type, value_type);
    if (element_mask != nullptr) call(&magicubeSrBcrsSetElementMask, matrix->get(), element_mask);
    if (values_batch >= 0)
        call(&magicubeSpMatSetStridedBatch, matrix->get(), values_batch, values_stride);
    if (pattern_batch >= 0) call(&magicubeSrBcrsSetPatternBatch, matrix->get(), pattern_batch);
    return matrix;
}

void bind_matrices(py::module_& module) {
    py::class_<DnMat, std::shared_ptr<DnMat>>(module, "DnMat")
        .def(py::init(&make_dense), py::arg("rows"), py::arg("cols"), py::arg("ld"),
             py::arg("values"), py::arg("type"), py::arg("order"), py::arg("writable"),
             py::arg("batch"), py::arg("batch_stride"));
    py::class_<SpMat, std::shared_ptr<SpMat>>(module, "SpMat")
        .def_static("csr", &make_csr)
        .def_static("bsr", &make_bsr)
        .def_static("sr_bcrs", &make_sr_bcrs);
}

}  // namespace magicube_python
