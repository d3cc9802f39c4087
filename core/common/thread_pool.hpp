// SPDX-License-Identifier: Apache-2.0
// The one thread pool of the process. It survives fork: a child that uses it gets threads of its
// own.
#pragma once

#include <cstdint>
#include <type_traits>

namespace magicube {

// Threads that work at once, the calling one included: MAGICUBE_NUM_THREADS, or the CPUs this
// process may run on.
int hardware_threads();

// Starts the pool's threads now rather than at its first use.
void start_thread_pool();

// A callable (begin, end) of the caller's, borrowed for one call: unlike std::function it allocates
// nothing.
class range_body {
  public:
    template <class Body, class = std::enable_if_t<!std::is_same_v<Body, range_body>>>
    range_body(const Body& body)
        : object_(&body), call_([](const void* object, int64_t begin, int64_t end) {
              (*static_cast<const Body*>(object))(begin, end);
          }) {}

    void operator()(int64_t begin, int64_t end) const { call_(object_, begin, end); }

  private:
    const void* object_;
    void (*call_)(const void*, int64_t, int64_t);
};

// Calls body(begin, end) for parts that cover [0, count), each at least `grain` long where
// possible, on at most max_threads threads (0: all). Parts are handed out as threads become free.
// Returns when all are done; the first exception is rethrown. Nested calls run on the calling
// thread.
void parallel_for(int64_t count, int64_t grain, int max_threads, range_body body);

}  // namespace magicube
