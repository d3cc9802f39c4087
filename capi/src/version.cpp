// SPDX-License-Identifier: Apache-2.0
#include "magicube/version.h"

#include <string>

#include "core/device/device.hpp"

int32_t magicubeGetVersion(void) noexcept {
    return 10000 * MAGICUBE_VERSION_MAJOR + 100 * MAGICUBE_VERSION_MINOR + MAGICUBE_VERSION_PATCH;
}

const char* magicubeGetVersionString(void) noexcept {
    return MAGICUBE_VERSION_STRING;
}

const char* magicubeGetBuildInfo(void) noexcept {
    try {
        static const std::string& info =
            *new std::string("magicube " MAGICUBE_VERSION_STRING "; " + magicube::build_info());
        return info.c_str();
    } catch (...) {
        return "magicube " MAGICUBE_VERSION_STRING;  // no memory for the rest
    }
}
