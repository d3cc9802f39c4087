// SPDX-License-Identifier: Apache-2.0
// What every part of the native module shares: errors, calls without the GIL, scratch, dict ->
// struct.
#ifndef MAGICUBE_PYTHON_COMMON_HPP
#define MAGICUBE_PYTHON_COMMON_HPP

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "magicube/magicube.h"

namespace magicube_python {

namespace py = pybind11;

// A status other than success with the library's message; becomes a magicube.MagicubeError.
class StatusError : public std::exception {
  public:
    StatusError(magicubeStatus_t status, std::string message)
        : status_(status), message_(std::move(message)) {}
    magicubeStatus_t status() const { return status_; }
    const char* what() const noexcept override { return message_.c_str(); }

  private:
    magicubeStatus_t status_;
    std::string message_;
};

// The message is the calling thread's last one, so this runs right after the call that failed.
inline void check(magicubeStatus_t status) {
    if (status != MAGICUBE_STATUS_SUCCESS) throw StatusError(status, magicubeGetLastErrorMessage());
}

// Calls an entry point without the GIL.
template <class Function, class... Arguments>
void call(Function function, Arguments... arguments) {
    py::gil_scoped_release release;
    check(function(arguments...));
}

// Frees an object of the library without the GIL; a failure there has nobody to tell.
template <class Function, class Object>
void destroy(Function function, Object object) noexcept {
    if (object == nullptr) return;
    py::gil_scoped_release release;
    static_cast<void>(function(object));
}

// Addresses cross the language border as integers.
template <class T = void>
T* pointer(std::uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

// Owner of an opaque object of the library, destroyed once.
template <class Object, auto Destroy>
class Owner {
  public:
    Owner() = default;
    ~Owner() { destroy(Destroy, object_); }
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    Object get() const { return object_; }
    Object* out() { return &object_; }

  private:
    Object object_ = nullptr;
};

// A library handle. A handle serves one thread at a time, so that calls on it are serialised here.
class Handle {
  public:
    Handle(int32_t device, int32_t ordinal) {
        magicube_python::call(&magicubeCreate, &handle_, static_cast<magicubeDevice_t>(device),
                              ordinal);
    }
    ~Handle() { close(); }
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

    void close() noexcept {
        py::gil_scoped_release release;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (handle_ != nullptr) static_cast<void>(magicubeDestroy(std::exchange(handle_, nullptr)));
    }
    bool closed() const { return handle_ == nullptr; }

    template <class Function, class... Arguments>
    void call(Function function, Arguments... arguments) {
        py::gil_scoped_release release;
        const std::lock_guard<std::mutex> lock(mutex_);
        if (handle_ == nullptr)
            throw StatusError(MAGICUBE_STATUS_INVALID_VALUE, "handle: it has been closed");
        check(function(handle_, arguments...));
    }

  private:
    magicubeHandle_t handle_ = nullptr;
    std::mutex mutex_;
};

// Aligned scratch memory.
class Workspace {
  public:
    Workspace(std::size_t bytes, std::size_t alignment)
        : bytes_(bytes), alignment_(std::align_val_t{alignment < 16 ? 16 : alignment}) {
        if (bytes_ > 0) data_ = ::operator new(bytes_, alignment_);
    }
    ~Workspace() {
        if (data_ != nullptr) ::operator delete(data_, alignment_);
    }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;
    void* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }

  private:
    std::size_t bytes_;
    std::align_val_t alignment_;
    void* data_ = nullptr;
};

// Moves the entries of a Python dict into the fields of a C struct; a field without an entry keeps
// its initial value, an entry without a field is an error of the Python layer.
class Fields {
  public:
    explicit Fields(const py::dict& entries)
        : rest_(py::reinterpret_steal<py::dict>(PyDict_Copy(entries.ptr()))) {}

    template <class T>
    void take(const char* key, T& field) {
        if (!rest_.contains(key)) return;
        const py::object value = rest_.attr("pop")(key);
        if constexpr (std::is_enum_v<T>)
            field = static_cast<T>(value.cast<int32_t>());
        else if constexpr (std::is_pointer_v<T>)
            field = reinterpret_cast<T>(value.cast<std::uintptr_t>());
        else
            field = value.cast<T>();
    }

    void finish() const {
        if (!rest_.empty()) throw py::key_error(py::str(rest_));
    }

  private:
    py::dict rest_;
};

void bind_enums(py::module_& module);
void bind_runtime(py::module_& module);
void bind_log(py::module_& module);
void bind_dlpack(py::module_& module);
void bind_matrices(py::module_& module);
void bind_conversions(py::module_& module);
void bind_dense_operations(py::module_& module);
void bind_plans(py::module_& module);

}  // namespace magicube_python

#endif
