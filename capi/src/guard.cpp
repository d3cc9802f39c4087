// SPDX-License-Identifier: Apache-2.0
#include "guard.hpp"

#include <new>
#include <string>

#include "core/common/log.hpp"

namespace magicube::capi {
namespace {

std::string& last_message() {
    thread_local std::string message;
    return message;
}

}  // namespace

magicubeStatus_t report(const char* function, status code, const char* message) noexcept {
    try {
        last_message() = text(function, ": ", message);
        log::message(log::level::error, last_message());
    } catch (...) {
        last_message().clear();  // out of memory even for the text
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
    return last_message().c_str();
}

}  // namespace magicube::capi
