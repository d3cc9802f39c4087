// SPDX-License-Identifier: Apache-2.0
#include "guard.hpp"

#include <cstddef>
#include <cstdio>
#include <new>

#include "core/common/log.hpp"

namespace magicube::capi {
namespace {

// Plain bytes, so that a call that fails while the thread or process ends finds them alive.
constexpr size_t message_bytes = 2048;
thread_local char last_message[message_bytes];

void store_message(const char* function, const char* message) noexcept {
    std::snprintf(last_message, message_bytes, "%s: %s", function, message);
}

}  // namespace

magicubeStatus_t report(const char* function, status code, const char* message) noexcept {
    store_message(function, message);
    try {
        log::message(log::level::error, last_message);
    } catch (...) {
        // No memory to log with; the message itself is kept.
    }
    return static_cast<magicubeStatus_t>(code);
}

magicubeStatus_t report_current_exception(const char* function) noexcept {
    try {
        throw;
    } catch (const error& e) {
        return report(function, e.code(), e.what());
    } catch (const std::bad_alloc&) {
        return report(function, status::alloc_failed, "out of host memory");
    } catch (const std::exception& e) {
        return report(function, status::internal_error, e.what());
    } catch (...) {
        return report(function, status::internal_error, "unknown exception");
    }
}

const char* last_error_message() noexcept {
    return last_message;
}

}  // namespace magicube::capi
