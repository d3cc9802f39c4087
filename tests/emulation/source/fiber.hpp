// SPDX-License-Identifier: Apache-2.0
// Fibers: contexts of execution with stacks of their own that pass control to each other by a few
// instructions. x86-64 alone.
#pragma once

#include <cstddef>

namespace emulated {

class fiber {
  public:
    using entry = void (*)();

    // The context that runs now: that of a thread of the operating system.
    fiber() = default;
    explicit fiber(size_t stack_bytes);
    ~fiber();
    fiber(const fiber&) = delete;
    fiber& operator=(const fiber&) = delete;

    // What it was doing is forgotten; the next switch to it calls `start`, which must not return.
    void reset(entry start);
    // Saves the running context, which must be *this, and continues `next`.
    void switch_to(fiber& next);
    // The first call of every `start`, with who switched to it.
    static void arrived();

  private:
    static void finish_switch(void* fake_stack);

    void* stack_pointer_ = nullptr;
    char* mapping_ = nullptr;
    char* stack_ = nullptr;
    size_t stack_bytes_ = 0;
    void* fake_stack_ = nullptr;
};

}  // namespace emulated
