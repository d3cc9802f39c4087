// SPDX-License-Identifier: Apache-2.0
#include "source/block.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "source/settings.hpp"

namespace emulated {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t stack_bytes = 256 << 10;
#else
constexpr size_t stack_bytes = 64 << 10;
#endif

std::string place(site at) {
    return std::string(at.file) + ":" + std::to_string(at.line);
}

std::string text(uint3 i) {
    return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) +
           ")";
}

}  // namespace

block& running_block() {
    static auto& instance = *new block;
    return instance;
}

void pending_copy::execute() const {
    std::memcpy(target, source, valid);
    std::memset(static_cast<char*>(target) + valid, 0, bytes - valid);
}

void copy_groups::commit() {
    groups.push_back(std::move(open));
    open.clear();
}

void copy_groups::wait(int pending) {
    while (static_cast<int>(groups.size()) > pending) {
        for (const pending_copy& copy : groups.front()) copy.execute();
        groups.erase(groups.begin());
    }
}

// ---- start and end ------------------------------------------------------------------------------

bool block::run(const std::function<void()>& body, uint3 index, dim3 size) {
    body_ = &body;
    size_ = size;
    blockIdx = index;
    const size_t count = size_t{size.x} * size.y * size.z;
    threads_.resize(count);
    uint3 at{0, 0, 0};
    for (thread& t : threads_) {
        t.index = at;
        t.alive = true;
        t.waits = nullptr;
        t.async.clear();
        t.bulk.clear();
        t.fenced = false;
        t.open_products.clear();
        t.product_groups.clear();
        if (++at.x == size.x) at.x = 0, ++at.y;
        if (at.y == size.y) at.y = 0, ++at.z;
    }
    if (order_.size() != count) {
        order_.resize(count);
        for (size_t i = 0; i < count; ++i) order_[i] = static_cast<int>(i);
    }
    if (shuffled_) std::shuffle(order_.begin(), order_.end(), random_);
    started_ = 0;
    alive_ = static_cast<int>(count);
    ready_.clear();
    ready_first_ = 0;
    engine_.clear();
    yields_ = 0;
    meetings_.resize((count + 31) / 32);
    for (auto& of_warp : meetings_) of_warp.clear();
    for (group_meeting& each : group_meetings_) each = {};
    for (named_barrier& b : barriers_) b = {};
    failure_.clear();
    running_ = &idle_fiber();
    main_.switch_to(*running_);
    if (failure_.empty()) return true;
    idle_.clear();
    for (auto& each : fibers_) {
        each->reset(fiber_main);
        idle_.push_back(each.get());
    }
    return false;
}

fiber& block::idle_fiber() {
    if (idle_.empty()) {
        fibers_.push_back(std::make_unique<fiber>(stack_bytes));
        fibers_.back()->reset(fiber_main);
        idle_.push_back(fibers_.back().get());
    }
    fiber& found = *idle_.back();
    idle_.pop_back();
    return found;
}

void block::fiber_main() {
    fiber::arrived();
    running_block().serve();
}

// What a fiber does: it runs threads to their ends, one after the other, while there are some that
// have not started. A thread that waits keeps its fiber, and another one goes on here.
void block::serve() {
    while (true) {
        if (started_ < order_.size()) {
            start_next();
        } else if (ready_first_ < ready_.size()) {
            leave();
        } else if (!engine_.empty()) {
            copy_next();
        } else if (alive_ == 0) {
            idle_.push_back(running_);
            running_->switch_to(main_);
        } else {
            fail("all threads wait:\n" + describe_waiting(), {"the block", 0});
        }
    }
}

void block::start_next() {
    current_ = order_[started_++];
    threadIdx = current().index;
    (*body_)();
    end_thread();
}

void block::end_thread() {
    thread& t = current();
    for (copy_groups* of : {&t.async, &t.bulk}) {
        of->commit();
        of->wait(0);
    }
    if (!t.product_groups.empty() || !t.open_products.empty())
        fail("the thread ends before it has waited for its wgmma", {"the thread's end", 0});
    t.alive = false;
    --alive_;
    for (named_barrier& b : barriers_)
        if (b.all && b.arrived > 0 && b.arrived == alive_) release(b);
}

// The fiber has no thread any more: continues one that is ready.
void block::leave() {
    idle_.push_back(running_);
    resume(next_ready());
}

void block::resume(int number) {
    thread& next = threads_[static_cast<size_t>(number)];
    fiber* from = running_;
    current_ = number;
    threadIdx = next.index;
    if (next.own == from) return;
    running_ = next.own;
    from->switch_to(*running_);
}

void block::wait(const char* what, site at) {
    thread& mine = current();
    mine.waits = what;
    mine.at = at;
    mine.own = running_;
    while (true) {
        if (started_ < order_.size()) {
            fiber* from = running_;
            running_ = &idle_fiber();
            from->switch_to(*running_);
            break;
        }
        if (ready_first_ < ready_.size()) {
            resume(next_ready());
            break;
        }
        if (engine_.empty()) fail("all threads wait:\n" + describe_waiting(), {"the block", 0});
        copy_next();
    }
    mine.waits = nullptr;
}

// For threads that ask again and again: the copy engine works meanwhile.
void block::yield(site at) {
    if (!engine_.empty()) {
        copy_next();
        yields_ = 0;
    } else if (++yields_ > 10000000) {
        fail("threads ask in vain for something:\n" + describe_waiting(), at);
    }
    wake(current_);
    wait("its turn", at);
}

void block::copy_next() {
    if (shuffled_) std::swap(engine_.front(), engine_[random_() % engine_.size()]);
    const auto copy = std::move(engine_.front());
    engine_.erase(engine_.begin());
    copy();
}

int block::next_ready() {
    if (shuffled_) {
        const size_t count = ready_.size() - ready_first_;
        std::swap(ready_[ready_first_], ready_[ready_first_ + random_() % count]);
    }
    const int number = ready_[ready_first_++];
    if (ready_first_ == ready_.size()) ready_.clear(), ready_first_ = 0;
    return number;
}

void block::wake(int number) {
    ready_.push_back(number);
}

// ---- failures -----------------------------------------------------------------------------------

std::string block::describe_waiting() const {
    std::map<std::string, std::vector<int>> where;
    for (size_t i = 0; i < threads_.size(); ++i)
        if (threads_[i].alive && threads_[i].waits)
            where[std::string(threads_[i].waits) + " at " + place(threads_[i].at)].push_back(
                static_cast<int>(i));
    std::string all;
    for (const auto& [what, numbers] : where) {
        all += "  " + what + ": threads";
        for (size_t i = 0; i < numbers.size();) {
            size_t end = i + 1;
            while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
            all += " " + std::to_string(numbers[i]);
            if (end > i + 1) all += "-" + std::to_string(numbers[end - 1]);
            i = end;
        }
        all += "\n";
    }
    return all + "  ended: " + std::to_string(threads_.size() - static_cast<size_t>(alive_)) +
           " of " + std::to_string(threads_.size()) + " threads";
}

void block::fail(const std::string& what, site at) {
    failure_ = "block " + text(blockIdx) + ", thread " + text(current().index) + ", " + place(at) +
               ": " + what;
    running_->switch_to(main_);
    std::abort();
}

// ---- meetings of threads ------------------------------------------------------------------------

void block::collective(uint32_t mask, const char* name, void* mine, warp_operation perform,
                       site at) {
    const size_t warp = static_cast<size_t>(current_) / 32;
    const size_t lanes = std::min<size_t>(threads_.size() - warp * 32, 32);
    if (lanes < 32) mask &= (uint32_t{1} << lanes) - 1;
    const uint32_t bit = uint32_t{1} << lane();
    if (!(mask & bit)) fail(std::string(name) + ": the mask does not name the lane itself", at);
    auto& of_warp = meetings_[warp];
    size_t i = 0;
    while (i < of_warp.size() && of_warp[i].mask != mask) ++i;
    if (i == of_warp.size()) of_warp.push_back({mask, 0, name, {}});
    if (of_warp[i].name != name && std::strcmp(of_warp[i].name, name) != 0)
        fail(std::string(name) + ": lanes of the same mask are at " + of_warp[i].name, at);
    of_warp[i].lanes[lane()] = mine;
    of_warp[i].arrived |= bit;
    if (of_warp[i].arrived != mask) return wait(name, at);
    const meeting complete = of_warp[i];
    of_warp.erase(of_warp.begin() + static_cast<std::ptrdiff_t>(i));
    if (perform) perform(complete.lanes, mask);
    for (int l = 0; l < 32; ++l)
        if (l != lane() && (mask >> l & 1)) wake(static_cast<int>(warp * 32) + l);
}

void block::warpgroup_collective(const char* name, void* mine, group_operation perform, site at) {
    const int first = current_ / 128 * 128;
    if (static_cast<size_t>(first) + 128 > threads_.size())
        fail(std::string(name) + ": the warpgroup has not 128 threads", at);
    group_meeting& here = group_meetings_[first / 128];
    if (here.arrived == 0) here.name = name;
    if (std::strcmp(here.name, name) != 0)
        fail(std::string(name) + ": others of the warpgroup are at " + here.name, at);
    here.threads[current_ - first] = mine;
    if (++here.arrived < 128) return wait(name, at);
    const group_meeting complete = here;
    here.arrived = 0;
    perform(complete.threads, at);
    for (int i = first; i < first + 128; ++i)
        if (i != current_) wake(i);
}

void block::add_product(const std::shared_ptr<deferred_product>& product) {
    const auto first = static_cast<size_t>(current_) / 128 * 128;
    for (size_t i = first; i < first + 128; ++i) threads_[i].open_products.push_back(product);
}

void block::finish_products() {
    const int first = current_ / 128 * 128;
    for (int i = 0; i < 128; ++i) {
        const thread& t = threads_[static_cast<size_t>(first + i)];
        for (const auto& group : t.product_groups)
            for (const auto& product : group) product->execute(i);
        for (const auto& product : t.open_products) product->execute(i);
    }
}

int block::barrier(int id, int count, bool predicate, bool waits, site at) {
    if (id < 0 || id > 15) fail("barrier " + std::to_string(id) + " does not exist", at);
    if (count % 32 != 0) fail("a barrier's threads are no multiple of 32", at);
    named_barrier& b = barriers_[id];
    if (b.arrived == 0) {
        b.all = count == 0;
        b.expected = count;
        b.predicates = 0;
    } else if (b.expected != count) {
        fail("barrier " + std::to_string(id) + " is used with " + std::to_string(count) + " and " +
                 std::to_string(b.expected) + " threads (0: all)",
             at);
    }
    ++b.arrived;
    b.predicates += predicate;
    if (b.arrived == (b.all ? alive_ : b.expected)) {
        const int result = b.predicates;
        release(b);
        return result;
    }
    if (!waits) return 0;
    b.waiting.push_back(current_);
    wait(count == 0 ? "__syncthreads" : "a named barrier", at);
    return current().result;
}

void block::release(named_barrier& b) {
    for (int number : b.waiting) {
        threads_[static_cast<size_t>(number)].result = b.predicates;
        wake(number);
    }
    b.waiting.clear();
    b.arrived = 0;
}

// ---- what the device's headers call -------------------------------------------------------------

void fail(const std::string& what, site at) {
    running_block().fail(what, at);
}

int lane_id() {
    return running_block().lane();
}

void collective(uint32_t mask, const char* name, void* mine, warp_operation perform, site at) {
    running_block().collective(mask, name, mine, perform, at);
}

int block_barrier(int id, int threads, bool predicate, site at) {
    return running_block().barrier(id, threads, predicate, true, at);
}

void block_barrier_arrive(int id, int threads, site at) {
    running_block().barrier(id, threads, false, false, at);
}

void yield(site at) {
    running_block().yield(at);
}

}  // namespace emulated
