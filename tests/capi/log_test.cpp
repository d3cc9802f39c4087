// SPDX-License-Identifier: Apache-2.0
#include "magicube/log.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "magicube/handle.h"

namespace {

void collect(magicubeLogLevel_t level, const char* message, void* user_data) {
    static_cast<std::vector<std::string>*>(user_data)->push_back(std::to_string(level) + message);
}

// A call that fails, which is logged at level error.
void provoke() {
    CHECK(magicubeSynchronize(nullptr) == MAGICUBE_STATUS_INVALID_VALUE);
}

// What is written to stderr while `body` runs.
template <class Body>
std::string captured_stderr(Body&& body) {
    char path[] = "/tmp/magicube_stderr_XXXXXX";
    const int file = mkstemp(path);
    REQUIRE(file >= 0);
    std::fflush(stderr);
    const int saved = dup(2);
    dup2(file, 2);
    body();
    std::fflush(stderr);
    dup2(saved, 2);
    close(saved);
    close(file);
    std::stringstream content;
    content << std::ifstream(path).rdbuf();
    unlink(path);
    return content.str();
}

}  // namespace

TEST_CASE("issue_16_nothing_is_printed_unless_asked_for") {
    magicubeLogLevel_t level = MAGICUBE_LOG_DEBUG;
    REQUIRE(magicubeGetLogLevel(&level) == MAGICUBE_STATUS_SUCCESS);
    CHECK(level == MAGICUBE_LOG_OFF);
    CHECK(captured_stderr(provoke) == "");
    REQUIRE(magicubeSetLogLevel(MAGICUBE_LOG_ERROR) == MAGICUBE_STATUS_SUCCESS);
    CHECK(captured_stderr(provoke) ==
          "magicube error: magicubeSynchronize: handle is null; it is required\n");
    magicubeSetLogLevel(MAGICUBE_LOG_OFF);
}

TEST_CASE("messages go to the callback while there is one") {
    std::vector<std::string> seen;
    REQUIRE(magicubeSetLogCallback(collect, &seen) == MAGICUBE_STATUS_SUCCESS);
    provoke();
    CHECK(seen.empty());
    magicubeSetLogLevel(MAGICUBE_LOG_ERROR);
    CHECK(captured_stderr(provoke) == "");
    REQUIRE(seen.size() == 1);
    CHECK(seen[0] == "1magicubeSynchronize: handle is null; it is required");
    magicubeSetLogLevel(MAGICUBE_LOG_OFF);
    REQUIRE(magicubeSetLogCallback(nullptr, nullptr) == MAGICUBE_STATUS_SUCCESS);
    provoke();
    CHECK(seen.size() == 1);
}

TEST_CASE("messages go to a file, which must be writable") {
    char path[] = "/tmp/magicube_log_XXXXXX";
    close(mkstemp(path));
    REQUIRE(magicubeSetLogFile(path) == MAGICUBE_STATUS_SUCCESS);
    magicubeSetLogLevel(MAGICUBE_LOG_ERROR);
    provoke();
    magicubeSetLogLevel(MAGICUBE_LOG_OFF);
    REQUIRE(magicubeSetLogFile(nullptr) == MAGICUBE_STATUS_SUCCESS);
    std::stringstream content;
    content << std::ifstream(path).rdbuf();
    CHECK(content.str() == "magicube error: magicubeSynchronize: handle is null; it is required\n");
    unlink(path);

    CHECK(magicubeSetLogFile("/nonexistent/folder/file") == MAGICUBE_STATUS_INVALID_VALUE);
    CHECK(std::string(magicubeGetLastErrorMessage()).find("'/nonexistent/folder/file'") !=
          std::string::npos);
    CHECK(magicubeSetLogLevel(static_cast<magicubeLogLevel_t>(5)) == MAGICUBE_STATUS_INVALID_VALUE);
}
