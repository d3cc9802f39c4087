// SPDX-License-Identifier: Apache-2.0
// Kronecker-sparse factors and chains: descriptors, patterns, conversions, gradients.
#include <array>
#include <tuple>
#include <vector>

#include "matrices.hpp"

namespace magicube_python {
namespace {

using Shape = std::array<int64_t, 4>;

std::vector<magicubeKroneckerShape_t> to_abi(const std::vector<Shape>& shapes) {
    std::vector<magicubeKroneckerShape_t> result;
    result.reserve(shapes.size());
    for (const auto& [a, b, c, d] : shapes) result.push_back({a, b, c, d});
    return result;
}

Shape to_python(const magicubeKroneckerShape_t& shape) {
    return {shape.a, shape.b, shape.c, shape.d};
}

std::vector<Shape> to_python(const std::vector<magicubeKroneckerShape_t>& shapes) {
    std::vector<Shape> result;
    result.reserve(shapes.size());
    for (const auto& shape : shapes) result.push_back(to_python(shape));
    return result;
}

// A factor, or with `chain` a list of them; values holds an address each, or nothing.
std::shared_ptr<KroneckerMat> make_kronecker(const std::vector<Shape>& shapes,
                                             const std::vector<std::uintptr_t>& values,
                                             int32_t type, bool chain, bool writable) {
    auto matrix = std::make_shared<KroneckerMat>(writable);
    const auto data_type = static_cast<magicubeDataType_t>(type);
    const auto list = to_abi(shapes);
    std::vector<void*> arrays;
    for (const auto address : values) arrays.push_back(pointer(address));
    const auto count = static_cast<int64_t>(list.size());
    if (!arrays.empty() && arrays.size() != list.size())
        throw py::value_error("values holds another number of addresses than there are factors");
    if (!chain && list.size() != 1) throw py::value_error("a factor has one shape");
    void* first = arrays.empty() ? nullptr : arrays.front();
    void* const* all = arrays.empty() ? nullptr : arrays.data();
    magicubeKroneckerDescr_t made = nullptr;
    if (chain && writable) {
        call(&magicubeCreateKroneckerChain, &made, count, list.data(), all, data_type);
    } else if (writable) {
        call(&magicubeCreateKronecker, &made, list[0].a, list[0].b, list[0].c, list[0].d, first,
             data_type);
    } else if (chain) {
        call(&magicubeCreateConstKroneckerChain, matrix->out(), count, list.data(),
             const_cast<const void* const*>(all), data_type);
    } else {
        call(&magicubeCreateConstKronecker, matrix->out(), list[0].a, list[0].b, list[0].c,
             list[0].d, static_cast<const void*>(first), data_type);
    }
    if (writable) *matrix->out() = made;
    return matrix;
}

std::tuple<bool, int64_t, bool> pair(const KroneckerMat& matrix, int64_t index) {
    int32_t chainable = 0, redundant = 0;
    int64_t rank = 0;
    call(&magicubeKroneckerGetPair, matrix.get(), index, &chainable, &rank, &redundant);
    return {chainable != 0, rank, redundant != 0};
}

Shape product_shape(const KroneckerMat& chain) {
    magicubeKroneckerShape_t shape{};
    call(&magicubeKroneckerProductShape, chain.get(), &shape);
    return to_python(shape);
}

std::vector<Shape> butterfly_shapes(int64_t log2_size) {
    int64_t count = 0;
    call(&magicubeKroneckerButterflyShapes, log2_size,
         static_cast<magicubeKroneckerShape_t*>(nullptr), int64_t{0}, &count);
    std::vector<magicubeKroneckerShape_t> shapes(static_cast<std::size_t>(count));
    call(&magicubeKroneckerButterflyShapes, log2_size, shapes.data(), count, &count);
    return to_python(shapes);
}

std::vector<Shape> monarch_shapes(int64_t rows, int64_t cols, int64_t blocks, int64_t step,
                                  int64_t rank) {
    std::vector<magicubeKroneckerShape_t> shapes(2);
    call(&magicubeKroneckerMonarchShapes, rows, cols, blocks, step, rank, shapes.data());
    return to_python(shapes);
}

void to_csr(Handle& handle, const KroneckerMat& source, int32_t offset_type, std::uintptr_t offsets,
            std::uintptr_t col_indices, std::uintptr_t values, int32_t value_type) {
    handle.call(&magicubeKroneckerToCsr, source.get(),
                static_cast<magicubeIndexType_t>(offset_type), pointer(offsets),
                pointer<int32_t>(col_indices), pointer(values),
                static_cast<magicubeDataType_t>(value_type));
}

}  // namespace

void bind_kronecker(py::module_& module) {
    py::class_<KroneckerMat, std::shared_ptr<KroneckerMat>>(module, "KroneckerMat")
        .def(py::init(&make_kronecker), py::arg("shapes"), py::arg("values"), py::arg("type"),
             py::arg("chain"), py::arg("writable"))
        .def("pair", &pair)
        .def("product_shape", &product_shape);
    module.def("kronecker_butterfly", &butterfly_shapes);
    module.def("kronecker_monarch", &monarch_shapes);
    module.def("kronecker_to_csr", &to_csr);
    module.def("kronecker_to_dense",
               [](Handle& handle, const KroneckerMat& source, const DnMat& dense) {
                   handle.call(&magicubeKroneckerToDense, source.get(), dense.target());
               });
    module.def("dense_to_kronecker",
               [](Handle& handle, const DnMat& dense, const KroneckerMat& target) {
                   handle.call(&magicubeDenseToKronecker, dense.get(), target.target());
               });
    module.def("csr_to_kronecker",
               [](Handle& handle, const SpMat& source, const KroneckerMat& target) {
                   handle.call(&magicubeCsrToKronecker, source.get(), target.target());
               });
    module.def("kronecker_multiply",
               [](Handle& handle, const KroneckerMat& chain, const KroneckerMat& product) {
                   handle.call(&magicubeKroneckerMultiply, chain.get(), product.target());
               });
    module.def("kronecker_fill_hadamard",
               [](Handle& handle, const KroneckerMat& chain, float scale) {
                   handle.call(&magicubeKroneckerFillHadamard, chain.target(), scale);
               });
    module.def("kronecker_gradient", [](Handle& handle, const DnMat& X, const DnMat& dY,
                                        int32_t layout, const KroneckerMat& gradient) {
        handle.call(&magicubeKroneckerGradient, X.get(), dY.get(),
                    static_cast<magicubeBatchLayout_t>(layout), gradient.target());
    });
}

}  // namespace magicube_python
