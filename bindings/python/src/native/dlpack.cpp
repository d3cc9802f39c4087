// SPDX-License-Identifier: Apache-2.0
// Reads and makes DLPack capsules, versioned (DLPack 1.x) or not, without copying. NumPy's own
// reader knows neither bfloat16 nor 8-bit floats, hence this one.
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

// What a capsule of ours points to: the tensor's extents, and the object that owns the memory.
template <class Managed>
struct Exported {
    Managed managed{};
    std::vector<int64_t> shape, strides;
    PyObject* owner = nullptr;

    static void release(Managed* managed) {
        if (Py_IsInitialized() == 0) return;  // a consumer outlived Python, and so its objects
        const py::gil_scoped_acquire acquire;
        auto* self = static_cast<Exported*>(managed->context);
        Py_XDECREF(self->owner);
        delete self;
    }
};

template <class Managed>
constexpr const char* capsule_name = "dltensor";
template <>
constexpr const char* capsule_name<DlManagedVersioned> = "dltensor_versioned";

// Frees a tensor that nobody consumed.
template <class Managed>
void drop_capsule(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, capsule_name<Managed>) == 0) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, capsule_name<Managed>));
    managed->deleter(managed);
}

template <class Managed>
py::object make_capsule(std::unique_ptr<Exported<Managed>> exported) {
    Managed& managed = exported->managed;
    managed.context = exported.get();
    managed.deleter = &Exported<Managed>::release;
    managed.tensor.ndim = static_cast<int32_t>(exported->shape.size());
    managed.tensor.shape = exported->shape.data();
    managed.tensor.strides = exported->strides.data();
    PyObject* capsule = PyCapsule_New(&managed, capsule_name<Managed>, &drop_capsule<Managed>);
    if (capsule == nullptr) throw py::error_already_set();
    exported.release();
    return py::reinterpret_steal<py::object>(capsule);
}

template <class Managed>
std::unique_ptr<Exported<Managed>> describe(const py::object& owner, std::uintptr_t address,
                                            std::vector<int64_t> shape,
                                            std::vector<int64_t> strides, DlDevice device,
                                            DlType type) {
    auto exported = std::make_unique<Exported<Managed>>();
    exported->shape = std::move(shape);
    exported->strides = std::move(strides);
    exported->owner = py::object(owner).release().ptr();
    exported->managed.tensor.data = pointer(address);
    exported->managed.tensor.device = device;
    exported->managed.tensor.type = type;
    return exported;
}

// A capsule over memory that owner keeps alive; strides count elements.
py::object to_capsule(const py::object& owner, std::uintptr_t address, std::vector<int64_t> shape,
                      std::vector<int64_t> strides, std::pair<int32_t, int32_t> device,
                      std::pair<uint8_t, uint8_t> type, bool versioned, bool read_only) {
    const DlDevice place{device.first, device.second};
    const DlType item{type.first, type.second, 1};
    if (!versioned)
        return make_capsule(
            describe<DlManaged>(owner, address, std::move(shape), std::move(strides), place, item));
    auto exported = describe<DlManagedVersioned>(owner, address, std::move(shape),
                                                 std::move(strides), place, item);
    exported->managed.major = 1;
    exported->managed.flags = read_only ? read_only_flag : 0;
    return make_capsule(std::move(exported));
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
        .def_property_readonly("read_only", &Tensor::read_only)
        .def_property_readonly("address",
                               [](const Tensor& tensor) {
                                   const auto data =
                                       reinterpret_cast<std::uintptr_t>(tensor.get().data);
                                   return data == 0 ? data : data + tensor.get().byte_offset;
                               })
        .def_property_readonly(
            "shape",
            [](const Tensor& tensor) {
                const auto& t = tensor.get();
                return py::tuple(py::cast(std::vector<int64_t>(t.shape, t.shape + t.ndim)));
            })
        .def_property_readonly("strides", [](const Tensor& tensor) -> py::object {
            const auto& t = tensor.get();
            if (t.strides == nullptr) return py::none();
            return py::tuple(py::cast(std::vector<int64_t>(t.strides, t.strides + t.ndim)));
        });
    module.def("dlpack_array", &to_array);
    module.def("dlpack_capsule", &to_capsule);
}

}  // namespace magicube_python
