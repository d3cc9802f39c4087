// SPDX-License-Identifier: Apache-2.0
// The module magicube._native: a thin layer over the C ABI that takes addresses, sizes and codes.
// magicube's Python files look at arrays, allocate results and name things.
#include "common.hpp"

namespace magicube_python {

static void translate(std::exception_ptr raised) {
    try {
        if (raised) std::rethrow_exception(raised);
    } catch (const StatusError& error) {
        const auto make = py::module_::import("magicube.errors").attr("error_from_status");
        const py::object instance = make(static_cast<int>(error.status()), py::str(error.what()));
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(instance.ptr())), instance.ptr());
    }
}

}  // namespace magicube_python

PYBIND11_MODULE(_native, module) {
    using namespace magicube_python;
    module.doc() = "Thin layer over libmagicube's C ABI; private to the package magicube.";
    py::register_exception_translator(&translate);
    bind_enums(module);
    bind_runtime(module);
    bind_log(module);
    bind_dlpack(module);
    bind_memory(module);
    bind_matrices(module);
    bind_kronecker(module);
    bind_project(module);
    bind_conversions(module);
    bind_vnm(module);
    bind_dense_operations(module);
    bind_plans(module);
}
