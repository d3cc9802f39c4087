// SPDX-License-Identifier: Apache-2.0
#include "core/common/thread_pool.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <thread>
#include <vector>

using magicube::parallel_for;

namespace {

// Calls parallel_for and tells whether every index came exactly once.
bool covers_once(int64_t count, int64_t grain, int threads) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
    parallel_for(count, grain, threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)].fetch_add(1);
    });
    for (const auto& times : seen)
        if (times != 1) return false;
    return true;
}

}  // namespace

TEST_CASE("parallel_for covers every index once") {
    for (int64_t count : {0, 1, 2, 3, 7, 100, 1001})
        for (int64_t grain : {1, 3, 64, 5000})
            for (int threads : {0, 1, 2, 8}) CHECK(covers_once(count, grain, threads));
}

TEST_CASE("parallel_for rethrows what a part throws, and works afterwards") {
    CHECK_THROWS_AS(parallel_for(1000, 1, 0,
                                 [](int64_t begin, int64_t) {
                                     if (begin > 10) throw std::runtime_error("part");
                                 }),
                    std::runtime_error);
    CHECK(covers_once(1000, 1, 0));
}

TEST_CASE("nested and concurrent calls finish") {
    std::atomic<int64_t> total{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 8; ++caller) {
        callers.emplace_back([&] {
            for (int repeat = 0; repeat < 50; ++repeat) {
                parallel_for(16, 1, 0, [&](int64_t begin, int64_t end) {
                    parallel_for(end - begin, 1, 0, [&](int64_t b, int64_t e) { total += e - b; });
                });
            }
        });
    }
    for (auto& caller : callers) caller.join();
    CHECK(total == 8 * 50 * 16);
}

TEST_CASE("a child of fork has a pool of its own") {
    REQUIRE(covers_once(1000, 1, 0));
    std::fflush(stdout);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) _exit(covers_once(1000, 1, 0) ? 0 : 1);
    int state = -1;
    REQUIRE(waitpid(child, &state, 0) == child);
    CHECK(WIFEXITED(state));
    CHECK(WEXITSTATUS(state) == 0);
}

TEST_CASE("where the system gives no threads, the caller does the work") {
    std::fflush(stdout);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        // An ordinary user with no process to spare; the fork has left the pool behind.
        rlimit none{0, 0};
        setrlimit(RLIMIT_NPROC, &none);
        setuid(65534);
        _exit(covers_once(1000, 1, 0) ? 0 : 1);
    }
    int state = -1;
    REQUIRE(waitpid(child, &state, 0) == child);
    CHECK(WIFEXITED(state));
    CHECK(WEXITSTATUS(state) == 0);
}
