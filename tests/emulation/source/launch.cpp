// SPDX-License-Identifier: Apache-2.0
// Launches of kernels: their limits, and their blocks one after the other.
#include <cstdio>
#include <numeric>
#include <unordered_map>

#include "cuda_runtime.h"
#include "source/block.hpp"
#include "source/memory.hpp"
#include "source/settings.hpp"
#include "source/shared.hpp"
#include "source/state.hpp"
#include "source/symbols.hpp"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulated {
namespace {

constexpr size_t default_shared = 48 << 10, most_shared = 227 << 10, sm_shared = 228 << 10;
constexpr int most_threads = 1024, sm_threads = 2048, sm_blocks = 32;

// Dynamic shared memory that kernels were allowed beyond the default.
std::unordered_map<const void*, size_t>& allowed_shared() {
    static auto& allowed = *new std::unordered_map<const void*, size_t>;
    return allowed;
}

bool within_limits(const cudaLaunchConfig_t& config) {
    const dim3 &g = config.gridDim, &b = config.blockDim;
    const uint64_t threads = uint64_t{b.x} * b.y * b.z;
    return g.x >= 1 && g.y >= 1 && g.z >= 1 && g.x <= 0x7fffffff && g.y <= 65535 && g.z <= 65535 &&
           threads >= 1 && threads <= most_threads && b.z <= 64;
}

// An odd step that visits every block once, from any start.
struct block_order {
    uint64_t count, step = 1, start = 0;

    block_order(uint64_t blocks, bool shuffled, std::mt19937_64& random) : count(blocks) {
        if (!shuffled) return;
        start = random() % count;
        do {
            step = random() % count + 1;
        } while (std::gcd(step, count) != 1);
    }
    uint64_t operator[](uint64_t i) const {
        return static_cast<uint64_t>((static_cast<unsigned __int128>(i) * step + start) % count);
    }
};

cudaError_t run(const cudaLaunchConfig_t& config, const void* kernel,
                const std::function<void()>& body) {
    const settings& set = current_settings();
    static uint64_t launches = 0;
    const kernel_symbols& symbols = symbols_of(kernel);
    block& b = running_block();
    b.seed(set.seed * 1000003 + launches++, set.seed != 0);
    gridDim = config.gridDim;
    blockDim = config.blockDim;
    const uint64_t across = gridDim.x, layer = across * gridDim.y, blocks = layer * gridDim.z;
    const block_order order(blocks, set.seed != 0, b.random());
    for (uint64_t i = 0; i < blocks; ++i) {
        const uint64_t number = order[i];
        const uint3 index{static_cast<unsigned>(number % across),
                          static_cast<unsigned>(number % layer / across),
                          static_cast<unsigned>(number / layer)};
        prepare_shared(config.dynamicSmemBytes, symbols.shared);
        prepare_barriers();
        if (b.run(body, index, blockDim)) continue;
        std::fprintf(stderr, "emulated device: kernel %s\n%s\n", symbols.name.c_str(),
                     b.failure().c_str());
        return cudaErrorLaunchFailure;
    }
    return check_guards(symbols.name) ? cudaSuccess : cudaErrorLaunchFailure;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> body) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    if (!within_limits(config)) return report(cudaErrorInvalidConfiguration);
    const auto found = allowed_shared().find(kernel);
    if (config.dynamicSmemBytes >
        (found == allowed_shared().end() ? default_shared : found->second))
        return report(cudaErrorInvalidValue);
    for (unsigned i = 0; i < config.numAttrs; ++i)
        if (config.attrs[i].id != cudaLaunchAttributeProgrammaticStreamSerialization)
            return report(cudaErrorNotSupported);
    cudaLaunchConfig_t kept = config;
    kept.attrs = nullptr;
    kept.numAttrs = 0;
    return submit(config.stream, cudaGraphNodeTypeKernel,
                  [kept, kernel, body = std::move(body)] { return run(kept, kernel, body); });
}

cudaError_t function_attributes(cudaFuncAttributes* attributes, const void*) {
    *attributes = {};
    attributes->maxThreadsPerBlock = most_threads;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(most_shared);
    return cudaSuccess;
}

cudaError_t set_function_attribute(const void* kernel, cudaFuncAttribute which, int value) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value < 0 || static_cast<size_t>(value) > most_shared) return report(cudaErrorInvalidValue);
    allowed_shared()[kernel] = static_cast<size_t>(value);
    return cudaSuccess;
}

cudaError_t occupancy(int* blocks, int threads, size_t shared_bytes) {
    if (threads < 1 || threads > most_threads) return report(cudaErrorInvalidValue);
    const auto by_shared = static_cast<int>(sm_shared / (shared_bytes + 1024));
    *blocks = std::min({sm_blocks, sm_threads / threads, by_shared});
    return cudaSuccess;
}

}  // namespace emulated
