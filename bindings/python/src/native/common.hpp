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

// A library handle, and the stream of calls on it. A handle serves one thread at a time, so that
// calls on it are serialised here; copies made by on_stream share the handle.
class Handle {
  public:
    Handle(int32_t device, int32_t ordinal) : state_(std::make_shared<State>()) {
        state_->device = static_cast<magicubeDevice_t>(device);
        state_->ordinal = ordinal;
        magicube_python::call(&magicubeCreate, &state_->handle, state_->device, ordinal);
    }

    // The same handle, whose stream every call sets first.
    std::shared_ptr<Handle> on_stream(std::uintptr_t stream) const {
        auto copy = std::shared_ptr<Handle>(new Handle(state_));
        copy->stream_ = stream;
        return copy;
    }

    void close() noexcept {
        py::gil_scoped_release release;
        state_->close();
    }
    bool closed() const { return state_->handle == nullptr; }
    bool on_cuda() const { return state_->device == MAGICUBE_DEVICE_CUDA; }
    magicubeDevice_t device() const { return state_->device; }
    int32_t ordinal() const { return state_->ordinal; }
    std::uintptr_t stream() const { return stream_.value_or(0); }

    template <class Function, class... Arguments>
    void call(Function function, Arguments... arguments) {
        py::gil_scoped_release release;
        call_released(function, arguments...);
    }

    // For a thread that does not hold the GIL.
    template <class Function, class... Arguments>
    void call_released(Function function, Arguments... arguments) {
        const std::lock_guard<std::mutex> lock(state_->mutex);
        if (state_->handle == nullptr)
            throw StatusError(MAGICUBE_STATUS_INVALID_VALUE, "handle: it has been closed");
        if (stream_) check(magicubeSetStream(state_->handle, pointer<CUstream_st>(*stream_)));
        check(function(state_->handle, arguments...));
    }

  private:
    struct State {
        State() = default;
        ~State() {
            py::gil_scoped_release release;
            close();
        }
        State(const State&) = delete;
        State& operator=(const State&) = delete;

        void close() noexcept {
            const std::lock_guard<std::mutex> lock(mutex);
            if (handle != nullptr)
                static_cast<void>(magicubeDestroy(std::exchange(handle, nullptr)));
        }

        magicubeHandle_t handle = nullptr;
        magicubeDevice_t device{};
        int32_t ordinal = 0;
        std::mutex mutex;
    };
    explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}

    std::shared_ptr<State> state_;
    std::optional<std::uintptr_t> stream_;
};

// Memory of a device, aligned to 256 bytes; it is freed after waiting for the device. It touches no
// Python object, so that the GIL may be held or not.
class Memory {
  public:
    Memory(magicubeDevice_t device, int32_t ordinal, std::size_t bytes)
        : device_(device), ordinal_(ordinal), bytes_(bytes) {
        check(magicubeMalloc(device, ordinal, bytes, &data_));
    }
    Memory(const Handle& handle, std::size_t bytes)
        : Memory(handle.device(), handle.ordinal(), bytes) {}
    ~Memory() { free(); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    void free() noexcept {
        if (data_ != nullptr)
            static_cast<void>(magicubeFree(device_, ordinal_, std::exchange(data_, nullptr)));
    }
    void* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }

  private:
    magicubeDevice_t device_;
    int32_t ordinal_;
    std::size_t bytes_;
    void* data_ = nullptr;
};

// Memory that a Python object owns; other threads run while it is freed.
class OwnedMemory : public Memory {
  public:
    using Memory::Memory;
    ~OwnedMemory() {
        py::gil_scoped_release release;
        free();
    }
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
void bind_memory(py::module_& module);
void bind_matrices(py::module_& module);
void bind_kronecker(py::module_& module);
void bind_project(py::module_& module);
void bind_conversions(py::module_& module);
void bind_vnm(py::module_& module);
void bind_dense_operations(py::module_& module);
void bind_plans(py::module_& module);

}  // namespace magicube_python

#endif
