// SPDX-License-Identifier: Apache-2.0
// Memory of a device, and copies between it and the host.
#include "common.hpp"

namespace magicube_python {

static std::shared_ptr<OwnedMemory> allocate(int32_t device, int32_t ordinal, std::size_t bytes) {
    py::gil_scoped_release release;
    return std::make_shared<OwnedMemory>(static_cast<magicubeDevice_t>(device), ordinal, bytes);
}

void bind_memory(py::module_& module) {
    py::class_<OwnedMemory, std::shared_ptr<OwnedMemory>>(module, "Memory")
        .def(py::init(&allocate))
        .def_property_readonly("address",
                               [](const OwnedMemory& memory) {
                                   return reinterpret_cast<std::uintptr_t>(memory.data());
                               })
        .def_property_readonly("bytes", &OwnedMemory::bytes);
    module.def("copy", [](Handle& handle, std::uintptr_t destination, std::uintptr_t source,
                          std::size_t bytes) {
        handle.call(&magicubeMemcpy, pointer(destination),
                    static_cast<const void*>(pointer(source)), bytes);
    });
}

}  // namespace magicube_python
