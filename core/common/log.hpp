// SPDX-License-Identifier: Apache-2.0
// Process-wide log: silent until a level, MAGICUBE_LOG_LEVEL or MAGICUBE_VERBOSE asks for it.
#pragma once

#include <functional>
#include <string>

#include "core/common/error.hpp"

namespace magicube::log {

// Same numbers as magicubeLogLevel_t.
enum class level : int { off = 0, error = 1, warn = 2, info = 3, debug = 4 };

// Topics that MAGICUBE_VERBOSE switches on whatever the level.
enum class topic : int { dispatch = 1, bench = 2 };

using callback = std::function<void(level, const char* message)>;

void set_level(level value);
level get_level();
void set_callback(callback function);
void set_file(const char* path);

bool enabled(level value);
bool enabled(topic value);

void write(level value, const std::string& message);

// Writes only if the level is on; the parts are joined only then.
template <class... Parts>
void message(level value, Parts&&... parts) {
    if (enabled(value)) write(value, text(std::forward<Parts>(parts)...));
}

}  // namespace magicube::log
