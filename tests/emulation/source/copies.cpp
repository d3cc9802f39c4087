// SPDX-License-Identifier: Apache-2.0
// mbarriers, and the copies that threads and the copy engine make.
#include <algorithm>
#include <cstring>
#include <vector>

#include "emulation/device.hpp"
#include "source/block.hpp"
#include "source/settings.hpp"
#include "source/shared.hpp"
#include "source/tensor_map.hpp"

namespace emulated {
namespace {

constexpr site in_engine{"the copy engine", 0};

struct barrier {
    int64_t expected = 0;  // arrivals of a phase
    int64_t pending = 0;   // arrivals of this phase that are missing
    int64_t bytes = 0;     // announced and not yet copied
    uint32_t phase = 0;
    bool valid = false;
    struct waiter {
        int thread;
        uint32_t phase;
    };
    std::vector<waiter> waiting;
};
std::vector<barrier> barriers;

// What lies in shared memory: a barrier's number, so that a barrier that was not initialised or was
// overwritten is seen.
constexpr uint64_t sign = 0xba221e4000000000;

uint64_t* word_of(uint32_t address, site at) {
    return static_cast<uint64_t*>(shared_pointer(address, 8, 8, at));
}

barrier& barrier_at(uint32_t address, site at) {
    const uint64_t word = *word_of(address, at);
    const uint64_t number = word ^ sign;
    if (number >= barriers.size() || !barriers[number].valid)
        fail("the mbarrier at " + std::to_string(address) +
                 " was not initialised, or was written over",
             at);
    return barriers[number];
}

// Ends the phase if nothing is missing.
void settle(barrier& b) {
    if (b.pending != 0 || b.bytes != 0) return;
    ++b.phase;
    b.pending = b.expected;
    for (const auto& waiter : b.waiting) running_block().wake(waiter.thread);
    b.waiting.clear();
}

void complete_bytes(uint32_t address, uint32_t bytes) {
    barrier& b = barrier_at(address, in_engine);
    b.bytes -= bytes;
    settle(b);
}

// Now or when all threads wait, by the settings or by chance.
void by_engine(std::function<void()> copy) {
    block& b = running_block();
    const copy_time when = current_settings().copies;
    const bool early = when == copy_time::mixed ? b.coin() : when == copy_time::early;
    early ? copy() : b.later(std::move(copy));
}

void require_bulk(const void* source, uint32_t bytes, site at) {
    if (reinterpret_cast<uintptr_t>(source) % 16 != 0 || bytes % 16 != 0)
        fail("a bulk copy's addresses and bytes must be multiples of 16; bytes is " +
                 std::to_string(bytes),
             at);
}

}  // namespace

void prepare_barriers() {
    barriers.clear();
}

// ---- mbarrier -----------------------------------------------------------------------------------

void mbarrier_init(uint32_t address, int64_t arrivals, site at) {
    uint64_t* word = word_of(address, at);
    if (arrivals < 1 || arrivals >= 1 << 20)
        fail("an mbarrier cannot expect " + std::to_string(arrivals) + " arrivals", at);
    barrier b;
    b.expected = b.pending = arrivals;
    b.valid = true;
    *word = sign ^ barriers.size();
    barriers.push_back(b);
}

void mbarrier_invalidate(uint32_t address, site at) {
    barrier_at(address, at).valid = false;
    *word_of(address, at) = ~uint64_t{0};
}

void mbarrier_expect(uint32_t address, int64_t bytes, site at) {
    barrier& b = barrier_at(address, at);
    b.bytes += bytes;
    if (b.bytes >= 1 << 20) fail("an mbarrier's transaction count is above 2^20 - 1", at);
}

void mbarrier_arrive(uint32_t address, int64_t count, site at) {
    barrier& b = barrier_at(address, at);
    if (count > b.pending)
        fail("more arrivals at the mbarrier than it expects, " + std::to_string(b.expected), at);
    b.pending -= count;
    settle(b);
}

bool mbarrier_test(uint32_t address, uint32_t parity, site at) {
    if (parity > 1) fail("an mbarrier's parity is 0 or 1", at);
    return (barrier_at(address, at).phase & 1) != parity;
}

void mbarrier_wait(uint32_t address, uint32_t parity, site at) {
    block& b = running_block();
    while (!mbarrier_test(address, parity, at)) {
        barrier_at(address, at).waiting.push_back({b.current_number(), parity});
        b.wait("an mbarrier", at);
    }
}

// ---- copies of threads --------------------------------------------------------------------------

void copy_async(uint32_t target, const void* source, uint32_t bytes, uint32_t valid, site at) {
    if (bytes != 4 && bytes != 8 && bytes != 16) fail("cp.async copies 4, 8 or 16 bytes", at);
    if (valid > bytes) fail("cp.async reads more than it copies", at);
    if (reinterpret_cast<uintptr_t>(source) % bytes != 0)
        fail("cp.async: the source is not aligned to " + std::to_string(bytes), at);
    const pending_copy copy{shared_pointer(target, bytes, bytes, at), source, bytes, valid};
    block& b = running_block();
    const copy_time when = current_settings().copies;
    if (when == copy_time::early || (when == copy_time::mixed && b.coin())) return copy.execute();
    b.current().async.open.push_back(copy);
}

void commit_copies() {
    running_block().current().async.commit();
}
void wait_copies(int pending) {
    running_block().current().async.wait(pending);
}

void arrive_after_copies(uint32_t address, site at) {
    copy_groups& mine = running_block().current().async;
    barrier_at(address, at);
    mine.commit();
    mine.wait(0);
    mbarrier_arrive(address, 1, at);
}

// ---- copies of the engine -----------------------------------------------------------------------

void copy_bulk(uint32_t target, const void* source, uint32_t bytes, uint32_t address, site at) {
    require_bulk(source, bytes, at);
    void* to = shared_pointer(target, bytes, 16, at);
    barrier_at(address, at);
    by_engine([=] {
        std::memcpy(to, source, bytes);
        complete_bytes(address, bytes);
    });
}

void copy_bulk_to_global(void* target, uint32_t source, uint32_t bytes, site at) {
    require_bulk(target, bytes, at);
    running_block().current().bulk.open.push_back(
        {target, shared_pointer(source, bytes, 16, at), bytes, bytes});
}

void commit_bulk() {
    commit_copies();
}
void wait_bulk(int pending) {
    wait_copies(pending);
}

void copy_tile(uint32_t target, const void* map, const int* coordinates, int dimensions,
               uint32_t address, site at) {
    const tensor_map copied = map_of(map, dimensions, at);
    const uint32_t bytes = copied.box_bytes();
    shared_pointer(target, bytes, copied.alignment(), at);
    barrier_at(address, at);
    tile_place place;
    std::copy(coordinates, coordinates + dimensions, place.coordinates);
    by_engine([=] {
        copied.load(target, place, in_engine);
        complete_bytes(address, bytes);
    });
}

void copy_tile_to_global(const void* map, const int* coordinates, int dimensions, uint32_t source,
                         site at) {
    tile_place place;
    std::copy(coordinates, coordinates + dimensions, place.coordinates);
    map_of(map, dimensions, at).store(source, place, at);
}

}  // namespace emulated
