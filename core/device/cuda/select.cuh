// SPDX-License-Identifier: Apache-2.0
//
// Radix select: of each scope's keys the `keep`-th largest, and up to which number keys equal to it
// belong to the `keep` largest, lowest numbers first.
//
// Layout   scope s holds the keys s * count .. s * count + count - 1, which Keys reads as integers.
// Mapping  digits of 11 bits, the highest first: a histogram of the keys that agree with the digits
//          found so far, then the digit that holds the wanted one. Keys that are equal are told
//          apart by the digits of their numbers. Many scopes: a block of 256 threads each, all
//          digits in one launch. One scope: a launch a digit over the whole device, whose last
//          block picks the digit.
// Shared   8.3 KB; any architecture; keys aligned to themselves.
// Bound    bytes of the keys, read once a digit (from L1 or L2 where they fit).
#pragma once

#include <cstdint>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/scan.cuh"

namespace magicube::cuda {

// What was found in a scope.
struct selected {
    uint64_t key;
    int64_t last_tie;
};

// What is looked for.
struct select_problem {
    int64_t count;   // keys of a scope
    int64_t keep;    // 1 .. count
    int key_bits;    // that may be set in keys
    int index_bits;  // of the numbers of keys; 0: ties are not told apart, and key is exact
};

namespace select_detail {

constexpr int threads = 256;
constexpr int digit_bits = 11;
constexpr int digits = 1 << digit_bits;
constexpr int blocks = 1056;  // 8 an SM of the largest devices

constexpr int passes_of(int bits) {
    return (bits + digit_bits - 1) / digit_bits;
}

struct state {
    uint64_t key;       // its digits so far, the rest zero
    int64_t index;      // of the last tie, likewise
    int64_t remaining;  // of the keys that agree with these digits so many are wanted
    int32_t done;       // all that agree are
};

// Which bits a pass looks at.
struct pass_bits {
    bool of_key;
    int shift;
    int width;

    __host__ __device__ pass_bits(const select_problem& problem, int pass) {
        const int key_passes = passes_of(problem.key_bits);
        of_key = pass < key_passes;
        const int left = of_key ? problem.key_bits - pass * digit_bits
                                : problem.index_bits - (pass - key_passes) * digit_bits;
        width = left < digit_bits ? left : digit_bits;
        shift = left - width;
    }
};

__host__ __device__ inline int passes_of(const select_problem& problem) {
    return passes_of(problem.key_bits) + passes_of(problem.index_bits);
}

// The place of a key in a pass's histogram, whose first place holds what is wanted first; -1 if the
// key does not agree with the digits so far.
__device__ __forceinline__ int place_of(const pass_bits& bits, const state& found, uint64_t key,
                                        int64_t i) {
    const int last = (1 << bits.width) - 1;
    const int above = bits.shift + bits.width;
    if (bits.of_key) {
        if ((key ^ found.key) >> above != 0) return -1;
        return last - static_cast<int>(key >> bits.shift & last);
    }
    if (key != found.key || (i ^ found.index) >> above != 0) return -1;
    return static_cast<int>(i >> bits.shift & last);
}

// Finds the place in which the wanted-th of the counted keys lies; a block together.
template <class Count>
__device__ void pick_digit(const select_problem& problem, const pass_bits& bits,
                           const Count* histogram, int64_t wanted, state& found) {
    constexpr int own = digits / threads;
    int64_t sum = 0;
    for (int k = 0; k < own; ++k) sum += histogram[threadIdx.x * own + k];
    int64_t all = 0;
    int64_t before = sum_before<threads>(sum, &all);
    if (before >= wanted || wanted > before + sum) return;
    int k = 0;
    while (before + static_cast<int64_t>(histogram[threadIdx.x * own + k]) < wanted) {
        before += histogram[threadIdx.x * own + k];
        ++k;
    }
    const int place = threadIdx.x * own + k;
    found.remaining = wanted - before;
    const bool all_wanted = static_cast<int64_t>(histogram[place]) == found.remaining;
    if (bits.of_key) {
        const int digit = (1 << bits.width) - 1 - place;
        found.key |= static_cast<uint64_t>(digit) << bits.shift;
        if (all_wanted && problem.index_bits > 0) {
            found.done = 1;
            found.index = INT64_MAX;
        }
    } else {
        found.index |= static_cast<int64_t>(place) << bits.shift;
        if (all_wanted) {
            found.done = 1;
            found.index |= (int64_t{1} << bits.shift) - 1;
        }
    }
}

__device__ inline void count_keys(uint32_t* histogram, int place) {
    if (place >= 0) atomicAdd(histogram + place, 1u);
}

// A block a scope.
template <class Keys>
__global__ void __launch_bounds__(threads)
    scopes_kernel(Keys keys, select_problem problem, int64_t scopes, selected* results) {
    __shared__ uint32_t histogram[digits];
    __shared__ state found;
    for (int64_t scope = blockIdx.x; scope < scopes; scope += gridDim.x) {
        __syncthreads();
        if (threadIdx.x == 0) found = {0, 0, problem.keep, 0};
        const int64_t first = scope * problem.count;
        for (int pass = 0; pass < passes_of(problem); ++pass) {
            for (int d = threadIdx.x; d < digits; d += threads) histogram[d] = 0;
            __syncthreads();
            if (found.done) break;
            const pass_bits bits(problem, pass);
            const state so_far = found;
            for (int64_t i = threadIdx.x; i < problem.count; i += threads) {
                count_keys(histogram, place_of(bits, so_far, keys(first + i), i));
            }
            __syncthreads();
            pick_digit(problem, bits, histogram, so_far.remaining, found);
            __syncthreads();
        }
        if (threadIdx.x == 0) results[scope] = {found.key, found.index};
    }
}

// Scratch of the search in one large scope; zero at its start.
struct device_scratch {
    state found;
    unsigned finished;  // blocks of this pass
    unsigned long long histogram[digits];
};

template <class Keys>
__global__ void __launch_bounds__(threads) pass_kernel(Keys keys, select_problem problem, int pass,
                                                       device_scratch* scratch, selected* result) {
    __shared__ uint32_t histogram[digits];
    __shared__ bool last;
    if (!scratch->found.done) {
        const pass_bits bits(problem, pass);
        state so_far = scratch->found;
        if (pass == 0) so_far.remaining = problem.keep;
        for (int d = threadIdx.x; d < digits; d += threads) histogram[d] = 0;
        __syncthreads();
        for (int64_t i = int64_t{blockIdx.x} * threads + threadIdx.x; i < problem.count;
             i += int64_t{gridDim.x} * threads) {
            count_keys(histogram, place_of(bits, so_far, keys(i), i));
        }
        __syncthreads();
        for (int d = threadIdx.x; d < digits; d += threads) {
            if (histogram[d] != 0) atomicAdd(scratch->histogram + d, histogram[d]);
        }
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last = atomicAdd(&scratch->finished, 1u) == gridDim.x - 1;
        __syncthreads();
        if (!last) return;
        __threadfence();
        pick_digit(problem, bits, scratch->histogram, so_far.remaining, scratch->found);
        __syncthreads();
        for (int d = threadIdx.x; d < digits; d += threads) scratch->histogram[d] = 0;
        if (threadIdx.x == 0) scratch->finished = 0;
    } else if (blockIdx.x != 0) {
        return;
    }
    if (threadIdx.x == 0) *result = {scratch->found.key, scratch->found.index};
}

}  // namespace select_detail

// Bytes of scratch, aligned to 16.
constexpr size_t select_scratch = (sizeof(select_detail::device_scratch) + 15) / 16 * 16;

// Writes a result a scope. `scratch` is used where there is one scope.
template <class Keys>
void select_largest(const context& ctx, const Keys& keys, int64_t scopes,
                    const select_problem& problem, selected* results, void* scratch) {
    using namespace select_detail;
    if (scopes != 1) {
        const auto grid = static_cast<unsigned>(scopes < 65536 ? scopes : 65536);
        launch_kernel(scopes_kernel<Keys>, {grid, threads, 0, ctx.stream}, keys, problem, scopes,
                      results);
        check(cudaGetLastError(), "scopes_kernel");
        return;
    }
    auto* state = static_cast<device_scratch*>(scratch);
    check(cudaMemsetAsync(state, 0, sizeof(device_scratch), ctx.stream), "cudaMemsetAsync");
    const int64_t needed = ceil_div(problem.count, threads);
    const auto grid = static_cast<unsigned>(needed < blocks ? needed : blocks);
    for (int pass = 0; pass < passes_of(problem); ++pass) {
        launch_kernel(pass_kernel<Keys>, {grid, threads, 0, ctx.stream}, keys, problem, pass, state,
                      results);
        check(cudaGetLastError(), "pass_kernel");
    }
}

// Bits of the numbers 0 .. count - 1.
inline int index_bits_of(int64_t count) {
    int bits = 1;
    while ((count - 1) >> bits != 0) ++bits;
    return bits;
}

}  // namespace magicube::cuda
