// SPDX-License-Identifier: Apache-2.0
// What the parts of the emulated runtime share: errors, streams and what they record.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "cuda_runtime.h"

namespace emulated {

// Keeps the code as the thread's last error.
cudaError_t report(cudaError_t code);

// Guards everything: one call at a time.
std::recursive_mutex& lock();

int current_device();

// Of a call that may not be made while a stream is being captured, unless the thread's mode allows
// it: the captures break.
cudaError_t break_captures();

struct work {
    cudaGraphNodeType type;
    std::function<cudaError_t()> run;
};

// Runs it, or records it where the stream is being captured.
cudaError_t submit(cudaStream_t stream, cudaGraphNodeType type, std::function<cudaError_t()> run);

}  // namespace emulated

struct CUgraphNode_st {
    emulated::work work;
};
struct CUgraph_st {
    std::vector<CUgraphNode_st> nodes;
};
struct CUgraphExec_st {
    std::vector<CUgraphNode_st> nodes;
};
struct CUstream_st {
    CUgraph_st* recording = nullptr;
    bool invalidated = false;
};
