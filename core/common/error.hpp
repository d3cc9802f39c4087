// SPDX-License-Identifier: Apache-2.0
// The one exception type of the library, and the checks that throw it.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace magicube {

// Same numbers as magicubeStatus_t; capi asserts it.
enum class status : int {
    success = 0,
    invalid_value = 1,
    not_supported = 2,
    arch_mismatch = 3,
    no_device = 4,
    device_mismatch = 5,
    misaligned = 6,
    insufficient_workspace = 7,
    alloc_failed = 8,
    cuda_error = 9,
    internal_error = 10,
    capturing = 11,
};

class error : public std::runtime_error {
  public:
    error(status code, const std::string& message) : std::runtime_error(message), code_(code) {}
    status code() const noexcept { return code_; }

  private:
    status code_;
};

// Joins its arguments as a stream would print them.
template <class... Parts>
std::string text(Parts&&... parts) {
    std::ostringstream stream;
    (stream << ... << std::forward<Parts>(parts));
    return stream.str();
}

template <class... Parts>
[[noreturn]] void fail(status code, Parts&&... parts) {
    throw error(code, text(std::forward<Parts>(parts)...));
}

// Throws unless the condition holds. The parts name the argument, its value and the rule; they are
// joined only on failure.
template <class... Parts>
void require(bool condition, status code, Parts&&... parts) {
    if (!condition) fail(code, std::forward<Parts>(parts)...);
}

template <class... Parts>
void require_value(bool condition, Parts&&... parts) {
    if (!condition) fail(status::invalid_value, std::forward<Parts>(parts)...);
}

}  // namespace magicube
