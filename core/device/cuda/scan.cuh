// SPDX-License-Identifier: Apache-2.0
// Sums over the threads of a warp and of a block.
#pragma once

#include <cstdint>

namespace magicube::cuda {

// Sum of the numbers of this lane and those before it. Every lane takes part.
template <class Number>
__device__ Number sum_up_to_lane(Number number) {
    for (int step = 1; step < 32; step *= 2) {
        const Number other = __shfl_up_sync(0xffffffff, number, step);
        if (static_cast<int>(threadIdx.x % 32) >= step) number += other;
    }
    return number;
}

// Sum of the numbers of all threads before this one; *all receives that of the whole block, which
// has `Threads` threads. Every thread takes part; 8 bytes of shared memory a warp.
template <int Threads>
__device__ int64_t sum_before(int64_t number, int64_t* all) {
    constexpr int warps = Threads / 32;
    __shared__ int64_t of_warp[warps];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int64_t sum = sum_up_to_lane(number);
    __syncthreads();  // the last call's sums have been read
    if (lane == 31) of_warp[warp] = sum;
    __syncthreads();
    int64_t before = 0;
    int64_t total = 0;
    for (int w = 0; w < warps; ++w) {
        if (w == warp) before = total;
        total += of_warp[w];
    }
    *all = total;
    return before + sum - number;
}

}  // namespace magicube::cuda
