// SPDX-License-Identifier: Apache-2.0
// Logging. Messages may come from any thread; one is delivered at a time.
#include "common.hpp"

namespace magicube_python {

// The function that receives messages; null if there is none. Only touched with the GIL held.
// Never freed: it may outlive the interpreter.
static PyObject* receiver = nullptr;

static void deliver(magicubeLogLevel_t level, const char* message, void*) {
    if (Py_IsInitialized() == 0) return;
    const py::gil_scoped_acquire acquire;
    if (receiver == nullptr) return;
    const auto function = py::reinterpret_borrow<py::object>(receiver);
    try {
        function(static_cast<int>(level), py::bytes(message));
    } catch (py::error_already_set& error) {
        error.discard_as_unraisable("a log callback of magicube");
    }
}

static void set_callback(const py::object& function) {
    if (function.is_none()) {
        call(&magicubeSetLogCallback, static_cast<magicubeLogCallback_t>(nullptr),
             static_cast<void*>(nullptr));
        Py_CLEAR(receiver);
        return;
    }
    PyObject* previous = std::exchange(receiver, function.inc_ref().ptr());
    Py_XDECREF(previous);
    call(&magicubeSetLogCallback, &deliver, static_cast<void*>(nullptr));
}

void bind_log(py::module_& module) {
    module.def("set_log_level", [](int32_t level) {
        call(&magicubeSetLogLevel, static_cast<magicubeLogLevel_t>(level));
    });
    module.def("get_log_level", [] {
        magicubeLogLevel_t level{};
        call(&magicubeGetLogLevel, &level);
        return static_cast<int32_t>(level);
    });
    module.def("set_log_file", [](const std::optional<std::string>& path) {
        call(&magicubeSetLogFile, path ? path->c_str() : nullptr);
    });
    module.def("set_log_callback", &set_callback);
}

}  // namespace magicube_python
