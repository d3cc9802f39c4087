// SPDX-License-Identifier: Apache-2.0
// Version, status names, devices and handles.
#include "common.hpp"

namespace magicube_python {

static py::tuple device_info(int32_t device, int32_t ordinal) {
    magicubeDeviceInfo_t info = MAGICUBE_DEVICE_INFO_INIT;
    call(&magicubeGetDeviceInfo, static_cast<magicubeDevice_t>(device), ordinal, &info);
    return py::make_tuple(std::string(info.name), info.compute_capability, info.multiprocessors,
                          info.memory_bytes, info.supported != 0);
}

static int32_t device_count(int32_t device) {
    int32_t count = 0;
    call(&magicubeGetDeviceCount, static_cast<magicubeDevice_t>(device), &count);
    return count;
}

// A getter and setter of the ABI as a read-write property. Value is the C type, Shown the Python
// one.
template <class Value, class Shown, magicubeStatus_t (*Get)(magicubeHandle_t, Value*) noexcept,
          magicubeStatus_t (*Set)(magicubeHandle_t, Value) noexcept>
static void setting(py::class_<Handle, std::shared_ptr<Handle>>& type, const char* name) {
    type.def_property(
        name,
        [](Handle& handle) {
            Value value{};
            handle.call(Get, &value);
            return static_cast<Shown>(value);
        },
        [](Handle& handle, Shown value) { handle.call(Set, static_cast<Value>(value)); });
}

void bind_runtime(py::module_& module) {
    module.def("version", [] { return std::string(magicubeGetVersionString()); });
    module.def("version_number", [] { return magicubeGetVersion(); });
    module.def("build_info", [] { return std::string(magicubeGetBuildInfo()); });
    module.def("status_name", [](int32_t status) {
        return std::string(magicubeGetErrorName(static_cast<magicubeStatus_t>(status)));
    });
    module.def("status_string", [](int32_t status) {
        return std::string(magicubeGetErrorString(static_cast<magicubeStatus_t>(status)));
    });
    module.def("device_count", &device_count);
    module.def("device_info", &device_info);

    py::class_<Handle, std::shared_ptr<Handle>> type(module, "Handle");
    type.def(py::init<int32_t, int32_t>())
        .def("close", &Handle::close)
        .def("on_stream", &Handle::on_stream)
        .def_property_readonly("closed", &Handle::closed)
        .def("synchronize", [](Handle& handle) { handle.call(&magicubeSynchronize); })
        .def_property_readonly("device", [](Handle& handle) {
            magicubeDevice_t device{};
            int32_t ordinal = 0;
            handle.call(&magicubeGetDevice, &device, &ordinal);
            return py::make_tuple(static_cast<int32_t>(device), ordinal);
        });
    setting<int32_t, int32_t, magicubeGetNumThreads, magicubeSetNumThreads>(type, "num_threads");
    setting<int32_t, bool, magicubeGetDeterministic, magicubeSetDeterministic>(type,
                                                                               "deterministic");
    setting<magicubeValidation_t, int32_t, magicubeGetValidation, magicubeSetValidation>(
        type, "validation");
}

}  // namespace magicube_python
