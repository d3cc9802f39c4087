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

// What an operation's problem passes on its way to a plan.
template <class Problem, class Plan>
struct plan_functions {
    magicubeStatus_t (*is_supported)(magicubeHandle_t, const Problem*);
    magicubeStatus_t (*buffer_size)(magicubeHandle_t, const Problem*, magicubeBufferSizes_t*);
    magicubeStatus_t (*create_plan)(magicubeHandle_t, const Problem*, void*, size_t, Plan*);
};

// All of them refuse the problem with that status and message.
template <class Problem, class Plan>
void check_refused(magicubeHandle_t handle, const Problem& problem,
                   const plan_functions<Problem, Plan>& functions, const char* message,
                   magicubeStatus_t status) {
    Plan plan = nullptr;
    magicubeBufferSizes_t sizes = MAGICUBE_BUFFER_SIZES_INIT;
    CHECK(functions.is_supported(handle, &problem) == status);
    CHECK(message_has(message));
    CHECK(functions.buffer_size(handle, &problem, &sizes) == status);
    CHECK(message_has(message));
    CHECK(functions.create_plan(handle, &problem, nullptr, 0, &plan) == status);
    CHECK(message_has(message));
    CHECK(plan == nullptr);
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
