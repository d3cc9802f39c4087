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
#include <thread>
#include <vector>

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
    int64_t count = 0;
    int64_t part = 1;
    const std::function<void(int64_t, int64_t)>* body = nullptr;
    std::atomic<int64_t> next{0};
    int helpers_wanted = 0;  // pool threads that may still join; guarded by the pool's mutex
    int helpers_inside = 0;  // pool threads at work on it; guarded by the pool's mutex
    std::mutex failure_mutex;
    std::exception_ptr failure;

    void work() noexcept {
        for (;;) {
            const int64_t begin = next.fetch_add(part, std::memory_order_relaxed);
            if (begin >= count) return;
            try {
                (*body)(begin, std::min(begin + part, count));
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
    explicit pool(int threads) {
        for (int i = 1; i < threads; ++i) std::thread([this] { serve(); }).detach();
    }

    void run(job& work, int helpers) {
        {
            std::lock_guard lock(mutex_);
            work.helpers_wanted = helpers;
            jobs_.push_back(&work);
        }
        for (int i = 0; i < helpers; ++i) wake_.notify_one();
        inside_pool = true;
        work.work();
        inside_pool = false;
        std::unique_lock lock(mutex_);
        jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), &work), jobs_.end());
        done_.wait(lock, [&] { return work.helpers_inside == 0; });
    }

  private:
    [[noreturn]] void serve() {
        inside_pool = true;
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return !jobs_.empty(); });
            job* work = jobs_.front();
            ++work->helpers_inside;
            if (--work->helpers_wanted == 0) jobs_.erase(jobs_.begin());
            lock.unlock();
            work->work();
            lock.lock();
            if (--work->helpers_inside == 0) done_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable done_;
    std::vector<job*> jobs_;  // those that still want helpers, oldest first
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

void parallel_for(int64_t count, int64_t grain, int max_threads,
                  const std::function<void(int64_t, int64_t)>& body) {
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
    job work;
    work.count = count;
    // Several parts a thread, so that uneven ones balance.
    work.part = std::max(grain, (count - 1) / (int64_t{8} * threads) + 1);
    work.body = &body;
    instance().run(work, threads - 1);
    if (work.failure) std::rethrow_exception(work.failure);
}

}  // namespace magicube
