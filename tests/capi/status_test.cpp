// SPDX-License-Identifier: Apache-2.0
#include "magicube/status.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "magicube/types.h"
#include "magicube/version.h"

TEST_CASE("every status has a name and a sentence of its own") {
    std::set<std::string> names, sentences;
    for (int code = 0; code <= MAGICUBE_STATUS_CAPTURING; ++code) {
        names.insert(magicubeGetErrorName(static_cast<magicubeStatus_t>(code)));
        sentences.insert(magicubeGetErrorString(static_cast<magicubeStatus_t>(code)));
    }
    CHECK(names.size() == MAGICUBE_STATUS_CAPTURING + 1);
    CHECK(sentences.size() == MAGICUBE_STATUS_CAPTURING + 1);
    CHECK(names.count("MAGICUBE_STATUS_UNKNOWN") == 0);
    CHECK(std::string(magicubeGetErrorName(static_cast<magicubeStatus_t>(999))) ==
          "MAGICUBE_STATUS_UNKNOWN");
    CHECK(std::string(magicubeGetErrorString(static_cast<magicubeStatus_t>(-1))) != "");
}

TEST_CASE("types have names and bits") {
    CHECK(std::string(magicubeGetDataTypeName(MAGICUBE_INT12)) == "int12");
    CHECK(magicubeGetDataTypeBits(MAGICUBE_INT12) == 16);
    CHECK(magicubeGetDataTypeBits(MAGICUBE_INT4) == 4);
    CHECK(std::string(magicubeGetDataTypeName(static_cast<magicubeDataType_t>(77))) == "unknown");
    CHECK(magicubeGetDataTypeBits(static_cast<magicubeDataType_t>(0)) == 0);
}

TEST_CASE("version and build info agree") {
    const std::string version = magicubeGetVersionString();
    const int number = magicubeGetVersion();
    CHECK(version == std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) +
                         "." + std::to_string(number % 100));
    const std::string info = magicubeGetBuildInfo();
    CHECK(info.find("magicube " + version) == 0);
    CHECK(info.find("cuda: ") != std::string::npos);
    CHECK(info.find("architectures: ") != std::string::npos);
}
