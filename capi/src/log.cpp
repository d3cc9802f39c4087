// SPDX-License-Identifier: Apache-2.0
#include "magicube/log.h"

#include <utility>

#include "core/common/log.hpp"
#include "descriptors.hpp"

namespace logging = magicube::log;  // `log` alone is the C function
using namespace magicube::capi;

static_assert(static_cast<int>(logging::level::off) == MAGICUBE_LOG_OFF);
static_assert(static_cast<int>(logging::level::error) == MAGICUBE_LOG_ERROR);
static_assert(static_cast<int>(logging::level::warn) == MAGICUBE_LOG_WARN);
static_assert(static_cast<int>(logging::level::info) == MAGICUBE_LOG_INFO);
static_assert(static_cast<int>(logging::level::debug) == MAGICUBE_LOG_DEBUG);

magicubeStatus_t magicubeSetLogLevel(magicubeLogLevel_t level) noexcept {
    return MAGICUBE_GUARDED(
        logging::set_level(to_core<logging::level>(level, 0, 4, "level", "magicubeLogLevel_t")););
}

magicubeStatus_t magicubeGetLogLevel(magicubeLogLevel_t* level) noexcept {
    return MAGICUBE_GUARDED(deref(level, "level") =
                                static_cast<magicubeLogLevel_t>(logging::get_level()););
}

magicubeStatus_t magicubeSetLogCallback(magicubeLogCallback_t callback, void* user_data) noexcept {
    return MAGICUBE_GUARDED({
        logging::callback function;
        if (callback) {
            function = [=](logging::level level, const char* message) {
                callback(static_cast<magicubeLogLevel_t>(level), message, user_data);
            };
        }
        logging::set_callback(std::move(function));
    });
}

magicubeStatus_t magicubeSetLogFile(const char* path) noexcept {
    return MAGICUBE_GUARDED(logging::set_file(path););
}
