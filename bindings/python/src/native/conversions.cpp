// SPDX-License-Identifier: Apache-2.0
// Conversions between dense, CSR, BSR, masks and SR-BCRS. To SR-BCRS: count, then the Python layer
// allocates, then fill with the same scratch.
#include "matrices.hpp"

namespace magicube_python {
namespace {

magicubeSrBcrsArrays_t read_arrays(const py::dict& entries) {
    magicubeSrBcrsArrays_t arrays = MAGICUBE_SR_BCRS_ARRAYS_INIT;
    Fields fields(entries);
    fields.take("vector_length", arrays.vector_length);
    fields.take("stride", arrays.stride);
    fields.take("offset_type", arrays.offset_type);
    fields.take("value_type", arrays.value_type);
    fields.take("slots", arrays.slots);
    fields.take("row_begin", arrays.row_begin);
    fields.take("row_end", arrays.row_end);
    fields.take("col_indices", arrays.col_indices);
    fields.take("values", arrays.values);
    fields.take("element_mask", arrays.element_mask);
    fields.finish();
    return arrays;
}

template <class SizeFunction, class CountFunction, class... Source>
py::tuple count(Handle& handle, const py::dict& entries, SizeFunction size_function,
                CountFunction count_function, Source... source) {
    const magicubeSrBcrsArrays_t arrays = read_arrays(entries);
    std::size_t bytes = 0;
    handle.call(size_function, source..., &arrays, &bytes);
    auto workspace = std::make_shared<OwnedMemory>(handle, bytes);
    int64_t slots = 0;
    handle.call(count_function, source..., &arrays, &slots, workspace->data(), workspace->bytes());
    return py::make_tuple(slots, workspace);
}

magicubeConstDnMatDescr_t descriptor_or_null(const DnMat* matrix) {
    return matrix == nullptr ? nullptr : matrix->get();
}

py::tuple count_dense(Handle& handle, const DnMat& dense, const DnMat* mask,
                      const py::dict& entries) {
    return count(handle, entries, &magicubeDenseToSrBcrs_bufferSize, &magicubeDenseToSrBcrs_count,
                 dense.get(), descriptor_or_null(mask));
}

void fill_dense(Handle& handle, const DnMat& dense, const DnMat* mask, const py::dict& entries,
                const OwnedMemory& workspace) {
    const magicubeSrBcrsArrays_t arrays = read_arrays(entries);
    handle.call(&magicubeDenseToSrBcrs_fill, dense.get(), descriptor_or_null(mask), &arrays,
                workspace.data(), workspace.bytes());
}

py::tuple count_sparse(Handle& handle, const SpMat& source, const py::dict& entries) {
    return count(handle, entries, &magicubeSparseToSrBcrs_bufferSize, &magicubeSparseToSrBcrs_count,
                 source.get());
}

void fill_sparse(Handle& handle, const SpMat& source, const py::dict& entries,
                 const OwnedMemory& workspace) {
    const magicubeSrBcrsArrays_t arrays = read_arrays(entries);
    handle.call(&magicubeSparseToSrBcrs_fill, source.get(), &arrays, workspace.data(),
                workspace.bytes());
}

int64_t count_csr(Handle& handle, const SpMat& source, int32_t offset_type,
                  std::uintptr_t offsets) {
    int64_t nnz = 0;
    handle.call(&magicubeSrBcrsToCsr_count, source.get(),
                static_cast<magicubeIndexType_t>(offset_type), pointer(offsets), &nnz);
    return nnz;
}

void fill_csr(Handle& handle, const SpMat& source, int32_t offset_type, std::uintptr_t offsets,
              std::uintptr_t col_indices, std::uintptr_t values, int32_t value_type) {
    handle.call(&magicubeSrBcrsToCsr_fill, source.get(),
                static_cast<magicubeIndexType_t>(offset_type),
                static_cast<const void*>(pointer(offsets)), pointer<int32_t>(col_indices),
                pointer(values), static_cast<magicubeDataType_t>(value_type));
}

int64_t count_bsr(Handle& handle, const SpMat& source, int64_t block_rows, int64_t block_cols,
                  int32_t offset_type, std::uintptr_t offsets) {
    int64_t nnzb = 0;
    handle.call(&magicubeSrBcrsToBsr_count, source.get(), block_rows, block_cols,
                static_cast<magicubeIndexType_t>(offset_type), pointer(offsets), &nnzb);
    return nnzb;
}

void fill_bsr(Handle& handle, const SpMat& source, int64_t block_rows, int64_t block_cols,
              int32_t offset_type, std::uintptr_t offsets, std::uintptr_t block_col_indices,
              std::uintptr_t values, int32_t value_type) {
    handle.call(&magicubeSrBcrsToBsr_fill, source.get(), block_rows, block_cols,
                static_cast<magicubeIndexType_t>(offset_type),
                static_cast<const void*>(pointer(offsets)), pointer<int32_t>(block_col_indices),
                pointer(values), static_cast<magicubeDataType_t>(value_type));
}

int32_t default_stride(int32_t vector_length, int32_t type) {
    int32_t stride = 0;
    call(&magicubeSrBcrsDefaultStride, vector_length, static_cast<magicubeDataType_t>(type),
         &stride);
    return stride;
}

}  // namespace

void bind_conversions(py::module_& module) {
    module.def("default_stride", &default_stride);
    module.def("dense_to_sr_bcrs_count", &count_dense);
    module.def("dense_to_sr_bcrs_fill", &fill_dense);
    module.def("sparse_to_sr_bcrs_count", &count_sparse);
    module.def("sparse_to_sr_bcrs_fill", &fill_sparse);
    module.def("sparse_to_dense", [](Handle& handle, const SpMat& source, const DnMat& dense) {
        handle.call(&magicubeSparseToDense, source.get(), dense.target());
    });
    module.def("sparse_to_mask", [](Handle& handle, const SpMat& source, const DnMat& mask) {
        handle.call(&magicubeSparseToMask, source.get(), mask.target());
    });
    module.def("sr_bcrs_to_csr_count", &count_csr);
    module.def("sr_bcrs_to_csr_fill", &fill_csr);
    module.def("sr_bcrs_to_bsr_count", &count_bsr);
    module.def("sr_bcrs_to_bsr_fill", &fill_bsr);
    module.def("validate", [](Handle& handle, const SpMat& matrix) {
        handle.call(&magicubeSpMatValidate, matrix.get());
    });
}

}  // namespace magicube_python
