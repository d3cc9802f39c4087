// SPDX-License-Identifier: Apache-2.0
// Reads DLPack capsules, versioned (DLPack 1.x) or not, without copying. NumPy's own reader knows
// neither bfloat16 nor 8-bit floats, hence this one.
#include <pybind11/numpy.h>

#include "common.hpp"

namespace magicube_python {
namespace {

// The memory layout that the DLPack specification fixes.
struct DlDevice {
    int32_t type;
    int32_t id;
};
struct DlType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};
struct DlTensor {
    void* data;
    DlDevice device;
    int32_t ndim;
    DlType type;
    int64_t* shape;
    int64_t* strides;  // in elements; null: row-major and dense
    uint64_t byte_offset;
};
struct DlManaged {
    DlTensor tensor;
    void* context;
    void (*deleter)(DlManaged*);
};
struct DlManagedVersioned {
    uint32_t major;
    uint32_t minor;
    void* context;
    void (*deleter)(DlManagedVersioned*);
    uint64_t flags;
    DlTensor tensor;
};
constexpr uint64_t read_only_flag = 1;

// Owns the producer's tensor from the moment that its capsule is consumed.
class Tensor {
  public:
    explicit Tensor(const py::capsule& capsule) {
        if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
            auto* managed = static_cast<DlManagedVersioned*>(
                PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
            if (managed->major != 1)
                throw py::buffer_error("DLPack version " + std::to_string(managed->major) +
                                       " is not known; version 1 and the unversioned form are");
            PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
            versioned_ = managed;
            tensor_ = &managed->tensor;
            read_only_ = (managed->flags & read_only_flag) != 0;
        } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
            plain_ = static_cast<DlManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
            PyCapsule_SetName(capsule.ptr(), "used_dltensor");
            tensor_ = &plain_->tensor;
        } else {
            throw py::buffer_error("__dlpack__ returned a capsule that is no unused DLPack tensor");
        }
    }
    ~Tensor() {
        if (versioned_ != nullptr && versioned_->deleter != nullptr)
            versioned_->deleter(versioned_);
        if (plain_ != nullptr && plain_->deleter != nullptr) plain_->deleter(plain_);
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;

    const DlTensor& get() const { return *tensor_; }
    bool read_only() const { return read_only_; }

  private:
    DlManagedVersioned* versioned_ = nullptr;
    DlManaged* plain_ = nullptr;
    const DlTensor* tensor_ = nullptr;
    bool read_only_ = false;
};

// The tensor as a NumPy array of the given type over the same memory, which keeps owner alive.
py::array to_array(const py::object& owner, const py::dtype& dtype) {
    const auto& tensor = owner.cast<const Tensor&>().get();
    if (dtype.itemsize() * 8 != tensor.type.bits || tensor.type.lanes != 1)
        throw py::buffer_error("the type does not have the tensor's element size");
    std::vector<py::ssize_t> shape(tensor.shape, tensor.shape + tensor.ndim);
    std::vector<py::ssize_t> strides(shape.size());
    py::ssize_t dense = dtype.itemsize();
    for (std::size_t axis = shape.size(); axis-- > 0;) {
        strides[axis] = tensor.strides != nullptr ? tensor.strides[axis] * dtype.itemsize() : dense;
        dense *= shape[axis];
    }
    const auto* data = static_cast<const char*>(tensor.data);
    if (data != nullptr) data += tensor.byte_offset;
    // NumPy owns memory it makes for a null address, right only where there is nothing to see.
    return py::array(dtype, shape, strides, data, owner);
}

}  // namespace

void bind_dlpack(py::module_& module) {
    py::class_<Tensor>(module, "DlpackTensor")
        .def(py::init<py::capsule>())
        .def_property_readonly("device",
                               [](const Tensor& tensor) {
                                   const auto& device = tensor.get().device;
                                   return py::make_tuple(device.type, device.id);
                               })
        .def_property_readonly("type",
                               [](const Tensor& tensor) {
                                   const auto& type = tensor.get().type;
                                   return py::make_tuple(int{type.code}, int{type.bits},
                                                         int{type.lanes});
                               })
        .def_property_readonly("read_only", &Tensor::read_only);
    module.def("dlpack_array", &to_array);
}

}  // namespace magicube_python
