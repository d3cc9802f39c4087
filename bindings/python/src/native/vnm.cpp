// SPDX-License-Identifier: Apache-2.0
// V:N:M: the descriptor, the lengths of its arrays, and conversions.
#include <string>
#include <tuple>
#include <vector>

#include "matrices.hpp"

namespace magicube_python {
namespace {

// values_batch: -1 for none, else the number of matrices with one pattern.
std::shared_ptr<SpMat> make_vnm(const py::dict& entries) {
    int64_t rows = 0, cols = 0, values_batch = -1, values_stride = 0;
    int32_t vector_length = 0, n = 0, m = 0;
    const void *column_loc = nullptr, *values = nullptr;
    const uint8_t* metadata = nullptr;
    magicubeDataType_t value_type = MAGICUBE_FP32;
    Fields fields(entries);
    fields.take("rows", rows);
    fields.take("cols", cols);
    fields.take("vector_length", vector_length);
    fields.take("n", n);
    fields.take("m", m);
    fields.take("column_loc", column_loc);
    fields.take("metadata", metadata);
    fields.take("values", values);
    fields.take("value_type", value_type);
    fields.take("values_batch", values_batch);
    fields.take("values_stride", values_stride);
    fields.finish();
    auto matrix = std::make_shared<SpMat>();
    call(&magicubeCreateConstVnm, matrix->out(), rows, cols, vector_length, n, m, column_loc,
         metadata, values, value_type);
    if (values_batch >= 0)
        call(&magicubeSpMatSetStridedBatch, matrix->get(), values_batch, values_stride);
    return matrix;
}

std::tuple<int64_t, int64_t, int64_t> lengths(int64_t rows, int64_t cols, int32_t vector_length,
                                              int32_t n, int32_t m) {
    int64_t column_loc = 0, metadata = 0, values = 0;
    call(&magicubeVnmLengths, rows, cols, vector_length, n, m, &column_loc, &metadata, &values);
    return {column_loc, metadata, values};
}

magicubeVnmArrays_t read_arrays(const py::dict& entries) {
    magicubeVnmArrays_t arrays = MAGICUBE_VNM_ARRAYS_INIT;
    Fields fields(entries);
    fields.take("vector_length", arrays.vector_length);
    fields.take("n", arrays.n);
    fields.take("m", arrays.m);
    fields.take("value_type", arrays.value_type);
    fields.take("column_loc", arrays.column_loc);
    fields.take("metadata", arrays.metadata);
    fields.take("values", arrays.values);
    fields.finish();
    return arrays;
}

// Sizes the scratch, makes sure that the source fits, and fills the arrays.
template <class SizeFunction, class CountFunction, class FillFunction, class... Source>
void convert(Handle& handle, const py::dict& entries, SizeFunction size, CountFunction count,
             FillFunction fill, Source... source) {
    const magicubeVnmArrays_t arrays = read_arrays(entries);
    std::size_t bytes = 0;
    handle.call(size, source..., &arrays, &bytes);
    const OwnedMemory workspace(handle, bytes);
    int64_t elements = 0;
    handle.call(count, source..., &arrays, &elements, workspace.data(), workspace.bytes());
    handle.call(fill, source..., &arrays, workspace.data(), workspace.bytes());
}

int64_t count_csr(Handle& handle, const SpMat& source, int32_t offset_type,
                  std::uintptr_t offsets) {
    int64_t nnz = 0;
    handle.call(&magicubeVnmToCsr_count, source.get(),
                static_cast<magicubeIndexType_t>(offset_type), pointer(offsets), &nnz);
    return nnz;
}

void fill_csr(Handle& handle, const SpMat& source, int32_t offset_type, std::uintptr_t offsets,
              std::uintptr_t col_indices, std::uintptr_t values, int32_t value_type) {
    handle.call(&magicubeVnmToCsr_fill, source.get(), static_cast<magicubeIndexType_t>(offset_type),
                static_cast<const void*>(pointer(offsets)), pointer<int32_t>(col_indices),
                pointer(values), static_cast<magicubeDataType_t>(value_type));
}

std::vector<std::string> list_implementations(int32_t device) {
    const auto kind = static_cast<magicubeDevice_t>(device);
    int32_t count = 0;
    call(&magicubeSpMM_listFormatImplementations, kind, MAGICUBE_FORMAT_VNM,
         static_cast<const char**>(nullptr), 0, &count);
    std::vector<const char*> names(static_cast<std::size_t>(count));
    call(&magicubeSpMM_listFormatImplementations, kind, MAGICUBE_FORMAT_VNM, names.data(), count,
         &count);
    return {names.begin(), names.end()};
}

}  // namespace

void bind_vnm(py::module_& module) {
    module.def("make_vnm", &make_vnm);
    module.def("vnm_lengths", &lengths);
    module.def("dense_to_vnm",
               [](Handle& handle, const DnMat& dense, const DnMat* mask, const py::dict& entries) {
                   convert(handle, entries, &magicubeDenseToVnm_bufferSize,
                           &magicubeDenseToVnm_count, &magicubeDenseToVnm_fill, dense.get(),
                           mask == nullptr ? magicubeConstDnMatDescr_t{nullptr} : mask->get());
               });
    module.def("sparse_to_vnm", [](Handle& handle, const SpMat& source, const py::dict& entries) {
        convert(handle, entries, &magicubeSparseToVnm_bufferSize, &magicubeSparseToVnm_count,
                &magicubeSparseToVnm_fill, source.get());
    });
    module.def("vnm_to_csr_count", &count_csr);
    module.def("vnm_to_csr_fill", &fill_csr);
    module.def("vnm_implementations", &list_implementations);
}

}  // namespace magicube_python
