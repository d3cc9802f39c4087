// SPDX-License-Identifier: Apache-2.0
// What the headers of the emulated device ask of it: threads that wait for each other, shared
// memory, barriers and copies. Called by the threads of a kernel alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulated {

// Where in the kernel's source a call stands; a default argument of everything that can wait or
// fail.
struct site {
    const char* file;
    int line;
    static constexpr site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

// Ends the launch with cudaErrorLaunchFailure and prints what happened and in which thread.
[[noreturn]] void fail(const std::string& what, site at);

// ---- threads ------------------------------------------------------------------------------------

int lane_id();

// Waits until all lanes of the warp that `mask` names have called with the same mask and name. Then
// `perform` gets the argument of each of them (null for the others), once.
using warp_operation = void (*)(void* const* lanes, uint32_t mask);
void collective(uint32_t mask, const char* name, void* mine, warp_operation perform, site at);

// Barrier `id` of the block: all of its threads that are alive if `threads` is 0. Returns the
// number of threads whose `predicate` was true.
int block_barrier(int id, int threads, bool predicate, site at);
// Counts on a barrier without waiting for it.
void block_barrier_arrive(int id, int threads, site at);

// Lets the others run.
void yield(site at);

// ---- shared memory ------------------------------------------------------------------------------

void* dynamic_shared(size_t alignment);
uint32_t shared_address(const void* pointer);
// Fails unless the bytes are shared memory and the address is a multiple of `alignment`.
void* shared_pointer(uint32_t address, size_t bytes, size_t alignment, site at);

// ---- mbarrier -----------------------------------------------------------------------------------

void mbarrier_init(uint32_t barrier, int64_t arrivals, site at);
void mbarrier_invalidate(uint32_t barrier, site at);
void mbarrier_expect(uint32_t barrier, int64_t bytes, site at);
void mbarrier_arrive(uint32_t barrier, int64_t count, site at);
bool mbarrier_test(uint32_t barrier, uint32_t parity, site at);
void mbarrier_wait(uint32_t barrier, uint32_t parity, site at);

// ---- copies -------------------------------------------------------------------------------------

// cp.async: `bytes` of which the first `valid` are read. Carried out late or early, see
// tests/emulation/README.md.
void copy_async(uint32_t target, const void* source, uint32_t bytes, uint32_t valid, site at);
void commit_copies();
void wait_copies(int pending);
// cp.async.mbarrier.arrive.noinc
void arrive_after_copies(uint32_t barrier, site at);

// cp.async.bulk, by the copy engine.
void copy_bulk(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier, site at);
void copy_bulk_to_global(void* target, uint32_t source, uint32_t bytes, site at);
void commit_bulk();
void wait_bulk(int pending);
// cp.async.bulk.tensor; `map` is a CUtensorMap, x the fastest coordinate.
void copy_tile(uint32_t target, const void* map, const int* coordinates, int dimensions,
               uint32_t barrier, site at);
void copy_tile_to_global(const void* map, const int* coordinates, int dimensions, uint32_t source,
                         site at);

}  // namespace emulated
