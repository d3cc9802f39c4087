// SPDX-License-Identifier: Apache-2.0
// What suites of the C ABI share.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "magicube/handle.h"

namespace support {

// A CPU handle that destroys itself.
struct cpu_handle {
    magicubeHandle_t value = nullptr;

    cpu_handle() {
        REQUIRE(magicubeCreate(&value, MAGICUBE_DEVICE_CPU, 0) == MAGICUBE_STATUS_SUCCESS);
    }
    ~cpu_handle() { magicubeDestroy(value); }
    cpu_handle(const cpu_handle&) = delete;
    cpu_handle& operator=(const cpu_handle&) = delete;
    operator magicubeHandle_t() const { return value; }
};

// Whether the thread's last error message contains the text.
inline bool message_has(const std::string& part) {
    const std::string message = magicubeGetLastErrorMessage();
    if (message.find(part) != std::string::npos) return true;
    MESSAGE("the last message is: " << message);
    return false;
}

// A number that is no enumerator.
template <class Enum>
Enum no_enumerator() {
    const int number = 77;
    Enum value;
    static_assert(sizeof(value) == sizeof(number));
    std::memcpy(&value, &number, sizeof(value));
    return value;
}

}  // namespace support
