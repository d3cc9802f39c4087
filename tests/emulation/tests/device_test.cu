// SPDX-License-Identifier: Apache-2.0
// Threads, barriers, copies and failures of the emulated device.
#include <doctest/doctest.h>
#include <numeric>
#include <set>
#include <vector>

#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/ptx.cuh"
#include "core/device/cuda/tensor_map.hpp"
#include "source/settings.hpp"

using namespace magicube;

namespace {

template <class... Parameters, class... Arguments>
cudaError_t run(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared,
                const Arguments&... arguments) {
    const cudaError_t code = cuda::launch_kernel(kernel, {grid, block, shared}, arguments...);
    cudaGetLastError();
    return code;
}

// The settings of a test case.
struct changed_settings {
    emulated::settings before = emulated::current_settings();
    ~changed_settings() { emulated::current_settings() = before; }
};

void shuffles(int* out) {
    const int lane = static_cast<int>(threadIdx.x);
    int* mine = out + lane * 12;
    mine[0] = __shfl_sync(~0u, lane * 3, lane + 5);
    mine[1] = __shfl_up_sync(~0u, lane, 4);
    mine[2] = __shfl_down_sync(~0u, lane, 3, 8);
    mine[3] = __shfl_xor_sync(~0u, lane, 9);
    mine[4] = static_cast<int>(__ballot_sync(~0u, lane % 3 == 0));
    mine[5] = __all_sync(~0u, lane < 32) + 2 * __any_sync(~0u, lane == 7);
    mine[6] = __reduce_add_sync(~0u, lane - 10);
    mine[7] = __reduce_max_sync(~0u, lane ^ 21) - __reduce_min_sync(~0u, -lane);
    // Halves of the warp apart.
    const uint32_t half = lane < 16 ? 0xffffu : 0xffff0000u;
    mine[8] = __shfl_sync(half, lane, lane < 16 ? 3 : 20);
    if (lane < 16) mine[9] = __reduce_add_sync(0xffffu, 1);
    mine[10] = __syncthreads_count(lane % 4 == 0);
    mine[11] = static_cast<int>(__byte_perm(0x33221100, 0x77665544, 0x7b50));
}

}  // namespace

TEST_CASE("warps shuffle, vote and reduce") {
    std::vector<int> out(32 * 12, -1);
    REQUIRE(run(shuffles, 1, 32, 0, out.data()) == cudaSuccess);
    uint32_t ballot = 0;
    for (int lane = 0; lane < 32; lane += 3) ballot |= 1u << lane;
    for (int lane = 0; lane < 32; ++lane) {
        const int* mine = out.data() + lane * 12;
        CHECK(mine[0] == (lane + 5) % 32 * 3);
        CHECK(mine[1] == (lane < 4 ? lane : lane - 4));
        CHECK(mine[2] == (lane % 8 + 3 > 7 ? lane : lane + 3));
        CHECK(mine[3] == (lane ^ 9));
        CHECK(mine[4] == static_cast<int>(ballot));
        CHECK(mine[5] == 3);
        CHECK(mine[6] == 31 * 16 - 320);
        CHECK(mine[7] == 31 + 31);
        CHECK(mine[8] == (lane < 16 ? 3 : 20));
        CHECK(mine[9] == (lane < 16 ? 16 : -1));
        CHECK(mine[10] == 8);
        CHECK(mine[11] == 0x77005500);
    }
}

namespace {

// Every thread adds what its neighbour of the step before wrote.
void meeting_kernel(int* sums) {
    MAGICUBE_DYNAMIC_SHARED(int, numbers, 16);
    const unsigned me = threadIdx.x + threadIdx.y * blockDim.x, all = blockDim.x * blockDim.y;
    numbers[me] = static_cast<int>(me);
    for (int step = 0; step < 5; ++step) {
        __syncthreads();
        const int next = numbers[(me + 1) % all];
        __syncthreads();
        numbers[me] += next;
    }
    // The second half leaves; the others meet without it.
    if (me >= all / 2) return;
    __syncthreads();
    emulated::block_barrier(3, static_cast<int>(all / 2), false, emulated::site::here());
    sums[blockIdx.x * all / 2 + me] = numbers[me];
}

void order_kernel(int* order, int* next) {
    order[atomicAdd(next, 1)] = static_cast<int>(blockIdx.x);
}

}  // namespace

TEST_CASE("threads meet at barriers in any order, and blocks run in any order") {
    changed_settings restore;
    std::set<std::vector<int>> orders;
    for (uint64_t seed : {0, 1, 2, 3}) {
        emulated::current_settings().seed = seed;
        std::vector<int> sums(2 * 96);
        REQUIRE(run(meeting_kernel, 2, dim3(48, 4), 192 * 4, sums.data()) == cudaSuccess);
        std::vector<int> expected(192);
        std::iota(expected.begin(), expected.end(), 0);
        for (int step = 0; step < 5; ++step) {
            const auto before = expected;
            for (size_t i = 0; i < 192; ++i) expected[i] += before[(i + 1) % 192];
        }
        for (size_t i = 0; i < sums.size(); ++i) REQUIRE(sums[i] == expected[i % 96]);

        std::vector<int> order(50);
        int next = 0;
        REQUIRE(run(order_kernel, 50, 1, 0, order.data(), &next) == cudaSuccess);
        orders.insert(order);
        std::sort(order.begin(), order.end());
        for (int i = 0; i < 50; ++i) REQUIRE(order[static_cast<size_t>(i)] == i);
    }
    CHECK(orders.size() == 4);
}

namespace {

struct copies {
    const uint8_t* from;
    uint8_t* to;
    bool waits, commits;
};

void copy_kernel(copies c) {
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 16);
    const uint32_t mine = ptx::shared_address(shared) + threadIdx.x * 16;
    ptx::copy_async16(mine, c.from + threadIdx.x * 16, 11);
    if (c.commits) ptx::commit_copies();
    if (c.waits) ptx::wait_copies<0>();
    std::memcpy(c.to + threadIdx.x * 16, shared + threadIdx.x * 16, 16);
}

// One thread has the engine copy; the others wait for it, two rounds through one buffer.
void bulk_kernel(copies c) {
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 16);
    __shared__ uint64_t barriers[2];
    const uint32_t full = ptx::shared_address(barriers), empty = full + 8;
    if (threadIdx.x == 0) {
        ptx::barrier_init(full, 1);
        ptx::barrier_init(empty, 64);
    }
    __syncthreads();
    if (threadIdx.x == 64) {
        for (uint32_t round = 0; round < 2; ++round) {
            if (c.waits) ptx::barrier_wait(empty, (round & 1) ^ 1);
            ptx::barrier_expect(full, 1024);
            ptx::copy_bulk(ptx::shared_address(shared), c.from + round * 1024, 1024, full);
        }
    } else if (threadIdx.x < 64) {
        for (uint32_t round = 0; round < 2; ++round) {
            ptx::barrier_wait(full, round & 1);
            std::memcpy(c.to + round * 1024 + threadIdx.x * 16, shared + threadIdx.x * 16, 16);
            ptx::barrier_arrive(empty);
        }
    }
}

}  // namespace

TEST_CASE("a copy that is not waited for is seen when copies are late, and filled up with zeros") {
    changed_settings restore;
    std::vector<uint8_t> from(32 * 16), to(from.size());
    std::iota(from.begin(), from.end(), uint8_t{1});
    auto expected = from;
    for (size_t i = 0; i < expected.size(); ++i)
        if (i % 16 >= 11) expected[i] = 0;
    using emulated::copy_time;
    for (copy_time when : {copy_time::mixed, copy_time::early, copy_time::late}) {
        emulated::current_settings().copies = when;
        REQUIRE(run(copy_kernel, 1, 32, 512, copies{from.data(), to.data(), true, true}) ==
                cudaSuccess);
        CHECK(to == expected);
        REQUIRE(run(copy_kernel, 1, 32, 512, copies{from.data(), to.data(), false, true}) ==
                cudaSuccess);
        CHECK((to == expected) == (when == copy_time::early));
        REQUIRE(run(copy_kernel, 1, 32, 512, copies{from.data(), to.data(), true, false}) ==
                cudaSuccess);
        CHECK((to == expected) == (when == copy_time::early));
    }
}

TEST_CASE("bulk copies through an mbarrier, and a second one that does not wait") {
    changed_settings restore;
    std::vector<uint8_t> from(2048), to(from.size());
    std::iota(from.begin(), from.end(), uint8_t{3});
    for (size_t i = 1024; i < from.size(); ++i) from[i] ^= 0x55;
    using emulated::copy_time;
    for (uint64_t seed : {0, 1, 2})
        for (copy_time when : {copy_time::mixed, copy_time::early, copy_time::late}) {
            emulated::current_settings().copies = when;
            emulated::current_settings().seed = seed;
            std::fill(to.begin(), to.end(), uint8_t{0});
            REQUIRE(run(bulk_kernel, 1, 96, 1024, copies{from.data(), to.data(), true, true}) ==
                    cudaSuccess);
            CHECK(to == from);
        }
    // Without the wait for `empty` the expectations of both rounds fall into one phase.
    emulated::current_settings().copies = copy_time::early;
    CHECK(run(bulk_kernel, 1, 96, 1024, copies{from.data(), to.data(), false, true}) ==
          cudaErrorLaunchFailure);
}

namespace {

void tile_kernel(CUtensorMap map, int x, int y, uint8_t* to, uint32_t rows) {
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 128);
    __shared__ uint64_t full;
    const uint32_t target = (ptx::shared_address(shared) + 1023) & ~1023u;
    const uint32_t barrier = ptx::shared_address(&full);
    if (threadIdx.x == 0) {
        ptx::barrier_init(barrier, 1);
        ptx::barrier_expect(barrier, rows * 128);
        ptx::copy_tile(target, &map, x, y, 0, barrier);
    }
    __syncthreads();
    ptx::barrier_wait(barrier, 0);
    for (uint32_t i = 0; i < rows * 128; i += 4) {
        const uint32_t word = ptx::load_shared_u32(target + i);
        std::memcpy(to + i, &word, 4);
    }
}

}  // namespace

TEST_CASE("a tile is copied with its chunks exchanged and zeros beyond the edges") {
    constexpr int rows = 20, cols = 100, ld = 112, box_rows = 16;
    std::vector<uint16_t> from(rows * ld);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i + 1);
    void* source = nullptr;
    REQUIRE(cudaMalloc(&source, from.size() * 2) == cudaSuccess);
    REQUIRE(cudaMemcpy(source, from.data(), from.size() * 2, cudaMemcpyHostToDevice) ==
            cudaSuccess);
    dense_view view;
    view.values = source;
    view.type = dtype::fp16;
    view.rows = rows, view.cols = cols, view.ld = ld;
    const CUtensorMap map = cuda::make_row_map(view, 64, box_rows);
    for (int x : {0, 64, -8})
        for (int y : {0, 10, -3}) {
            std::vector<uint8_t> to(box_rows * 128);
            REQUIRE(run(tile_kernel, 1, 32, 4096, map, x, y, to.data(), uint32_t{box_rows}) ==
                    cudaSuccess);
            for (int r = 0; r < box_rows; ++r)
                for (int c = 0; c < 64; ++c) {
                    const int row = y + r, col = x + c;
                    const bool inside = row >= 0 && row < rows && col >= 0 && col < cols;
                    const int chunk = c / 8 ^ r % 8;
                    uint16_t found = 0;
                    std::memcpy(&found, to.data() + r * 128 + chunk * 16 + c % 8 * 2, 2);
                    REQUIRE(found == (inside ? from[static_cast<size_t>(row * ld + col)] : 0));
                }
        }
    CHECK(cudaFree(source) == cudaSuccess);
}

namespace {

void meets_alone() {
    if (threadIdx.x < 32) emulated::block_barrier(1, 64, false, emulated::site::here());
}
void waits_for_nobody() {
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) ptx::barrier_init(ptx::shared_address(&barrier), 1);
    __syncthreads();
    ptx::barrier_wait(ptx::shared_address(&barrier), 0);
}
void barrier_without_init() {
    MAGICUBE_DYNAMIC_SHARED(uint64_t, barrier, 16);
    ptx::barrier_arrive(ptx::shared_address(barrier));
}
void shuffles_apart() {
    if (threadIdx.x < 16) {
        __shfl_sync(~0u, 1, 0);
    } else {
        __ballot_sync(~0u, 1);
    }
}
void lane_is_missing() {
    if (threadIdx.x != 5) __syncwarp();
}
void mask_without_itself() {
    __syncwarp(1);
}
void reads_outside() {
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 16);
    ptx::load_shared_u32(ptx::shared_address(shared) + 64);
}
void reads_askew() {
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 16);
    ptx::load_shared_v4(ptx::shared_address(shared) + 8);
}
void writes_behind(uint8_t* memory) {
    memory[100] = 1;
}
void good() {}

void reads_unwritten(uint32_t* sums) {
    __shared__ uint32_t numbers[32];
    sums[blockIdx.x] = numbers[5];
    __syncthreads();
    numbers[threadIdx.x] = 0;
}

}  // namespace

TEST_CASE("what a kernel does wrong ends its launch, and the next one works") {
    for (auto kernel : {meets_alone, waits_for_nobody, barrier_without_init, shuffles_apart,
                        lane_is_missing, mask_without_itself, reads_outside, reads_askew}) {
        CHECK(run(kernel, 2, 64, 64) == cudaErrorLaunchFailure);
        CHECK(run(good, 2, 64, 64) == cudaSuccess);
    }
    CHECK(run(good, 0, 1, 0) == cudaErrorInvalidConfiguration);
    CHECK(run(good, 1, 1025, 0) == cudaErrorInvalidConfiguration);
    CHECK(run(good, dim3(1, 65536), 1, 0) == cudaErrorInvalidConfiguration);
    CHECK(run(good, 1, 1, 49153) == cudaErrorInvalidValue);
    REQUIRE(cudaFuncSetAttribute(good, cudaFuncAttributeMaxDynamicSharedMemorySize, 49153) ==
            cudaSuccess);
    CHECK(run(good, 1, 1, 49153) == cudaSuccess);
    uint32_t sums[2] = {};
    REQUIRE(run(reads_unwritten, 2, 32, 0, sums + 0) == cudaSuccess);
    CHECK(sums[0] == 0xb7b7b7b7);
    CHECK(sums[1] == 0xb7b7b7b7);
#if !defined(__SANITIZE_ADDRESS__)
    void* memory = nullptr;
    REQUIRE(cudaMalloc(&memory, 100) == cudaSuccess);
    CHECK(run(writes_behind, 1, 1, 0, static_cast<uint8_t*>(memory)) == cudaErrorLaunchFailure);
    CHECK(cudaFree(memory) == cudaSuccess);
#endif
}
