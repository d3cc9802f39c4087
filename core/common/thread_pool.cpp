// SPDX-License-Identifier: Apache-2.0
#include "core/common/thread_pool.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/common/log.hpp"

namespace magicube {
namespace {

int count_threads() {
    if (const char* wanted = std::getenv("MAGICUBE_NUM_THREADS")) {
        const long value = std::strtol(wanted, nullptr, 10);
        if (value > 0) return static_cast<int>(std::min(value, 1024L));
    }
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1U, std::thread::hardware_concurrency());
}

// One parallel_for: parts are claimed by counting up.
struct job {
    job(int64_t count_, int64_t part_, range_body body_)
        : count(count_), part(part_), body(body_) {}

    const int64_t count;
    const int64_t part;
    const range_body body;
    std::atomic<int64_t> next{0};
    job* behind = nullptr;   // in the pool's queue; guarded by the pool's mutex
    int helpers_wanted = 0;  // pool threads that may still join; guarded by the pool's mutex
    int helpers_inside = 0;  // pool threads at work on it; guarded by the pool's mutex
    std::mutex failure_mutex;
    std::exception_ptr failure;

    void work() noexcept {
        for (;;) {
            const int64_t begin = next.fetch_add(part, std::memory_order_relaxed);
            if (begin >= count) return;
            try {
                body(begin, std::min(begin + part, count));
            } catch (...) {
                std::lock_guard lock(failure_mutex);
                if (!failure) failure = std::current_exception();
                next.store(count, std::memory_order_relaxed);
            }
        }
    }
};

thread_local bool inside_pool = false;

class pool {
  public:
    // Where the system gives fewer threads, those there are do the work.
    explicit pool(int threads) {
        try {
            for (int i = 1; i < threads; ++i) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error& e) {
            log::message(log::level::warn, "fewer than ", threads, " threads: ", e.what());
        }
    }

    void run(job& work, int helpers) {
        {
            std::lock_guard lock(mutex_);
            work.helpers_wanted = helpers;
            enqueue(work);
        }
        for (int i = 0; i < helpers; ++i) wake_.notify_one();
        inside_pool = true;
        work.work();
        inside_pool = false;
        std::unique_lock lock(mutex_);
        dequeue(work);
        done_.wait(lock, [&] { return work.helpers_inside == 0; });
    }

  private:
    [[noreturn]] void serve() {
        inside_pool = true;
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return first_ != nullptr; });
            job* work = first_;
            ++work->helpers_inside;
            if (--work->helpers_wanted == 0) dequeue(*work);
            lock.unlock();
            work->work();
            lock.lock();
            if (--work->helpers_inside == 0) done_.notify_all();
        }
    }

    void enqueue(job& work) {
        job** end = &first_;
        while (*end) end = &(*end)->behind;
        *end = &work;
    }

    // Does nothing if the job is not in the queue.
    void dequeue(job& work) {
        for (job** at = &first_; *at; at = &(*at)->behind) {
            if (*at != &work) continue;
            *at = work.behind;
            return;
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    job* first_ = nullptr;  // of the jobs that still want helpers, oldest first
};

std::atomic<pool*> current{nullptr};
std::mutex creation_mutex;

// The pool is never destroyed: its detached threads sleep until the process ends, and a child of
// fork, which has none of them, forgets the parent's pool and starts one of its own.
pool& instance() {
    if (pool* existing = current.load(std::memory_order_acquire)) return *existing;
    std::lock_guard lock(creation_mutex);
    if (pool* existing = current.load(std::memory_order_acquire)) return *existing;
    static const int registered =
        pthread_atfork([] { creation_mutex.lock(); }, [] { creation_mutex.unlock(); },
                       [] {
                           current.store(nullptr, std::memory_order_release);
                           inside_pool = false;
                           creation_mutex.unlock();
                       });
    (void)registered;
    auto* created = new pool(hardware_threads());
    current.store(created, std::memory_order_release);
    return *created;
}

}  // namespace

int hardware_threads() {
    static const int threads = count_threads();
    return threads;
}

void start_thread_pool() {
    instance();
}

void parallel_for(int64_t count, int64_t grain, int max_threads, range_body body) {
    if (count <= 0) return;
    grain = std::max<int64_t>(grain, 1);
    int threads = hardware_threads();
    if (max_threads > 0) threads = std::min(threads, max_threads);
    const int64_t parts = (count - 1) / grain + 1;
    threads = static_cast<int>(std::min<int64_t>(threads, parts));
    if (threads <= 1 || inside_pool) {
        body(0, count);
        return;
    }
    // Several parts a thread, so that uneven ones balance.
    job work(count, std::max(grain, (count - 1) / (int64_t{8} * threads) + 1), body);
    instance().run(work, threads - 1);
    if (work.failure) std::rethrow_exception(work.failure);
}

}  // namespace magicube
