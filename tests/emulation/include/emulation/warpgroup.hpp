// SPDX-License-Identifier: Apache-2.0
// wgmma: products of 64 x N of a warpgroup, with operands in shared memory.
#pragma once

#include <cstdint>

#include "emulation/device.hpp"
#include "emulation/matrix.hpp"

namespace emulated {

// What the instruction says; the same in all 128 threads but for registers and metadata. A row of A
// has 32 bytes, one of B 32 or, if A is sparse, 64.
struct warpgroup_product {
    number a_type, b_type;
    int columns;                            // N: 8 to 256
    const uint32_t* a_registers = nullptr;  // four; null if A lies in shared memory
    uint64_t a = 0, b = 0;                  // descriptors of matrices in shared memory
    bool a_across = false;                  // neighbours in memory differ in M, not in K
    bool b_across = false;                  // in N
    bool adds = true;                       // to d, which is overwritten otherwise
    bool sparse = false;                    // A holds 2 of 4
    uint32_t metadata = 0;
    int selector = 0;
};

// d holds columns / 2 sums. It is written, and shared memory is read, at any time up to the end of
// the wait for the group.
void warpgroup_multiply(const warpgroup_product& product, float* d, site at);
void warpgroup_multiply(const warpgroup_product& product, int32_t* d, site at);
void warpgroup_fence(site at);
void warpgroup_commit(site at);
void warpgroup_wait(int pending, site at);

}  // namespace emulated
