// SPDX-License-Identifier: Apache-2.0
// The block that runs: its threads as fibers on one thread of the operating system, round robin or
// in a random order, and what they wait for.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "emulation/device.hpp"
#include "source/fiber.hpp"

namespace emulated {

struct pending_copy {
    void* target = nullptr;
    const void* source = nullptr;
    uint32_t bytes = 0, valid = 0;
    void execute() const;
};

// Of a warpgroup; executed for each of its threads, once, when that one has to.
class deferred_product {
  public:
    virtual ~deferred_product() = default;
    virtual void execute(int thread_of_warpgroup) = 0;
};

// Copies of a thread since the last commit, and committed groups, the oldest first.
struct copy_groups {
    std::vector<pending_copy> open;
    std::vector<std::vector<pending_copy>> groups;

    void commit();
    void wait(int pending);
    void clear() { open.clear(), groups.clear(); }
};

struct thread {
    uint3 index{};
    bool alive = true;
    fiber* own = nullptr;         // while it waits
    const char* waits = nullptr;  // for what, or null
    site at{};
    int result = 0;  // of the barrier it waited for
    copy_groups async, bulk;
    // The same of wgmma.
    bool fenced = false;
    std::vector<std::shared_ptr<deferred_product>> open_products;
    std::vector<std::vector<std::shared_ptr<deferred_product>>> product_groups;
};

class block {
  public:
    // Runs all threads of a block to their ends. False after a failure.
    bool run(const std::function<void()>& body, uint3 index, dim3 size);

    thread& current() { return threads_[static_cast<size_t>(current_)]; }
    int current_number() const { return current_; }
    int lane() const { return current_ & 31; }

    // Suspends the current thread until somebody wakes it.
    void wait(const char* what, site at);
    void wake(int number);
    void yield(site at);
    // What the copy engine does when it comes to it; the caller says whether that is at once.
    void later(std::function<void()> copy) { engine_.push_back(std::move(copy)); }
    bool coin() { return random_() & 1; }

    void collective(uint32_t mask, const char* name, void* mine, warp_operation perform, site at);
    // The same among the 128 threads of a warpgroup.
    using group_operation = void (*)(void* const* threads, site at);
    void warpgroup_collective(const char* name, void* mine, group_operation perform, site at);
    // Of the current thread's warpgroup: a product for each thread's list, and the end of all that
    // are under way.
    void add_product(const std::shared_ptr<deferred_product>& product);
    void finish_products();
    int barrier(int id, int count, bool predicate, bool waits, site at);
    [[noreturn]] void fail(const std::string& what, site at);

    const std::string& failure() const { return failure_; }
    void seed(uint64_t value, bool shuffled) { random_.seed(value), shuffled_ = shuffled; }
    std::mt19937_64& random() { return random_; }

  private:
    struct meeting {
        uint32_t mask, arrived;
        const char* name;
        void* lanes[32];
    };
    struct group_meeting {
        int arrived = 0;
        const char* name = nullptr;
        void* threads[128] = {};
    };
    struct named_barrier {
        int expected = 0, arrived = 0, predicates = 0;
        bool all = false;
        std::vector<int> waiting;
    };

    static void fiber_main();
    void serve();
    void leave();
    void start_next();
    void resume(int number);
    int next_ready();
    void copy_next();
    fiber& idle_fiber();
    void release(named_barrier& barrier);
    void end_thread();
    std::string describe_waiting() const;

    fiber main_;
    std::vector<std::unique_ptr<fiber>> fibers_;
    std::vector<fiber*> idle_;
    fiber* running_ = nullptr;

    const std::function<void()>* body_ = nullptr;
    dim3 size_{};
    std::vector<thread> threads_;
    std::vector<int> order_;  // of starting
    size_t started_ = 0;
    int alive_ = 0, current_ = 0, yields_ = 0;
    std::vector<int> ready_;  // from ready_first_ on
    size_t ready_first_ = 0;
    std::vector<std::function<void()>> engine_;
    std::vector<std::vector<meeting>> meetings_;  // of each warp
    group_meeting group_meetings_[8];
    named_barrier barriers_[16];
    std::string failure_;
    std::mt19937_64 random_;
    bool shuffled_ = false;
};

// The one block that runs.
block& running_block();

}  // namespace emulated
