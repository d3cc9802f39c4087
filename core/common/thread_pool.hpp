// SPDX-License-Identifier: Apache-2.0
// The one thread pool of the process. It survives fork: a child that uses it gets threads of its
// own.
#pragma once

#include <cstdint>
#include <functional>

namespace magicube {

// Threads that work at once, the calling one included: MAGICUBE_NUM_THREADS, or the CPUs this
// process may run on.
int hardware_threads();

// Starts the pool's threads now rather than at its first use.
void start_thread_pool();

// Calls body(begin, end) for parts that cover [0, count), each at least `grain` long where
// possible, on at most max_threads threads (0: all). Parts are handed out as threads become free.
// Returns when all are done; the first exception is rethrown. Nested calls run on the calling
// thread.
void parallel_for(int64_t count, int64_t grain, int max_threads,
                  const std::function<void(int64_t, int64_t)>& body);

}  // namespace magicube
