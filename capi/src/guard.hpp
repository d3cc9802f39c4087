// SPDX-License-Identifier: Apache-2.0
// The one place where exceptions become status codes, and the checks that entry points share.
#pragma once

#include <cstddef>
#include <utility>

#include "core/common/error.hpp"
#include "core/device/profile_range.hpp"
#include "magicube/status.h"

namespace magicube::capi {

// Runs on the error path: stores "function: message" for magicubeGetLastErrorMessage and logs it.
magicubeStatus_t report(const char* function, status code, const char* message) noexcept;

// What magicubeGetLastErrorMessage returns.
const char* last_error_message() noexcept;

// Translates the exception in flight.
magicubeStatus_t report_current_exception(const char* function) noexcept;

// Runs an entry point's body; nothing it throws passes.
template <class Body>
magicubeStatus_t guarded(const char* function, Body&& body) noexcept {
    try {
        body();
        return MAGICUBE_STATUS_SUCCESS;
    } catch (...) {
        return report_current_exception(function);
    }
}

// The same as a range in profilers' timelines, for entry points that do much or launch.
template <class Body>
magicubeStatus_t guarded_range(const char* function, Body&& body) noexcept {
    const profile_range range(function);
    return guarded(function, std::forward<Body>(body));
}

// Dereferences an argument that must not be null.
template <class T>
T& deref(T* pointer, const char* argument) {
    require_value(pointer != nullptr, argument, " is null; it is required");
    return *pointer;
}

// Sizes that a version of the struct can have: every version ends on a whole field.
template <class T>
void require_struct_size(size_t size, const char* argument) {
    require_value(size >= sizeof(size_t) && size <= 65536 && size % alignof(T) == 0, argument,
                  "->struct_size is ", size,
                  "; set it to the size of the struct, as the INIT macro does");
}

// A caller's struct, as this library knows it: what an older caller did not know keeps its default.
// `size` is the struct's first field. A struct of a newer caller must be zero beyond what we know.
template <class T>
T read_struct(const T* given, const T& defaults, const char* argument) {
    const auto size = deref(given, argument).struct_size;
    require_struct_size<T>(size, argument);
    T result = defaults;
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    for (size_t i = sizeof(T); i < size; ++i) {
        require(bytes[i] == 0, status::not_supported, argument, "->struct_size is ", size,
                "; this library knows ", sizeof(T), " bytes, and a later field is set");
    }
    auto* target = reinterpret_cast<unsigned char*>(&result);
    for (size_t i = 0; i < sizeof(T) && i < size; ++i) target[i] = bytes[i];
    result.struct_size = sizeof(T);
    return result;
}

// Writes a struct that tells something, as far as the caller's version of it reaches.
template <class T>
void write_struct(T* given, const T& value, const char* argument) {
    const auto size = deref(given, argument).struct_size;
    require_struct_size<T>(size, argument);
    const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
    auto* target = reinterpret_cast<unsigned char*>(given);
    for (size_t i = sizeof(size_t); i < sizeof(T) && i < size; ++i) target[i] = bytes[i];
}

}  // namespace magicube::capi

#define MAGICUBE_GUARDED(...) magicube::capi::guarded(__func__, [&] { __VA_ARGS__ })
#define MAGICUBE_GUARDED_RANGE(...) magicube::capi::guarded_range(__func__, [&] { __VA_ARGS__ })
