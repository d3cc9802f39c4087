// SPDX-License-Identifier: Apache-2.0
// Errors, devices, streams and graphs of the emulated runtime. Work is done when it is submitted.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "cuda.h"
#include "source/settings.hpp"
#include "source/state.hpp"

namespace emulated {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device = 0;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

// Those that are not captured in the relaxed mode.
std::vector<CUstream_st*>& captured_streams() {
    static auto& streams = *new std::vector<CUstream_st*>;
    return streams;
}

uint64_t number_from(const char* variable, uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

settings read_settings() {
    settings set;
    set.multiprocessors = static_cast<int>(number_from("MAGICUBE_EMULATED_SMS", 3));
    set.devices = static_cast<int>(number_from("MAGICUBE_EMULATED_DEVICES", 1));
    set.seed = number_from("MAGICUBE_EMULATED_SEED", 0);
    set.memory_bytes = number_from("MAGICUBE_EMULATED_MEMORY_MIB", 512) << 20;
    const char* copies = std::getenv("MAGICUBE_EMULATED_COPIES");
    if (copies && std::strcmp(copies, "early") == 0) set.copies = copy_time::early;
    if (copies && std::strcmp(copies, "late") == 0) set.copies = copy_time::late;
    return set;
}

bool is_device(int ordinal) {
    return ordinal >= 0 && ordinal < current_settings().devices;
}

}  // namespace

settings& current_settings() {
    static settings set = read_settings();
    return set;
}

cudaError_t report(cudaError_t code) {
    if (code != cudaSuccess) last_error = code;
    return code;
}

std::recursive_mutex& lock() {
    static auto& mutex = *new std::recursive_mutex;
    return mutex;
}

cudaError_t break_captures() {
    std::lock_guard<std::recursive_mutex> locked(lock());
    if (capture_mode == cudaStreamCaptureModeRelaxed || captured_streams().empty())
        return cudaSuccess;
    for (auto* stream : captured_streams()) stream->invalidated = true;
    return report(cudaErrorStreamCaptureUnsupported);
}

int current_device() {
    return device;
}

cudaError_t submit(cudaStream_t stream, cudaGraphNodeType type, std::function<cudaError_t()> run) {
    if (stream && stream->recording) {
        stream->recording->nodes.push_back({{type, std::move(run)}});
        return cudaSuccess;
    }
    return report(run());
}

}  // namespace emulated

using namespace emulated;

// ---- errors -------------------------------------------------------------------------------------

const char* cudaGetErrorName(cudaError_t code) {
    switch (code) {
        case cudaSuccess:
            return "cudaSuccess";
        case cudaErrorInvalidValue:
            return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation:
            return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidConfiguration:
            return "cudaErrorInvalidConfiguration";
        case cudaErrorInvalidDevice:
            return "cudaErrorInvalidDevice";
        case cudaErrorLaunchFailure:
            return "cudaErrorLaunchFailure";
        case cudaErrorNotSupported:
            return "cudaErrorNotSupported";
        case cudaErrorStreamCaptureUnsupported:
            return "cudaErrorStreamCaptureUnsupported";
        default:
            return "another cudaError";
    }
}
const char* cudaGetErrorString(cudaError_t code) {
    return cudaGetErrorName(code);
}
cudaError_t cudaGetLastError() {
    return std::exchange(last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
    return last_error;
}

// ---- devices ------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int* count) {
    *count = current_settings().devices;
    return *count > 0 ? cudaSuccess : report(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* ordinal) {
    *ordinal = device;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int ordinal) {
    if (!is_device(ordinal)) return report(cudaErrorInvalidDevice);
    device = ordinal;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
    if (!is_device(ordinal)) return report(cudaErrorInvalidDevice);
    *properties = {};
    std::snprintf(properties->name, sizeof(properties->name), "emulated sm_90");
    properties->major = 9;
    properties->multiProcessorCount = current_settings().multiprocessors;
    properties->totalGlobalMem = current_settings().memory_bytes;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = 227 << 10;
    properties->sharedMemPerMultiprocessor = 228 << 10;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->l2CacheSize = 50 << 20;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int ordinal) {
    if (!is_device(ordinal)) return report(cudaErrorInvalidDevice);
    switch (which) {
        case cudaDevAttrComputeCapabilityMajor:
            *value = 9;
            break;
        case cudaDevAttrComputeCapabilityMinor:
            *value = 0;
            break;
        case cudaDevAttrMultiProcessorCount:
            *value = current_settings().multiprocessors;
            break;
        // Those of an H200, for the estimates of times alone.
        case cudaDevAttrClockRate:
            *value = 1980000;
            break;
        case cudaDevAttrMemoryClockRate:
            *value = 3201000;
            break;
        case cudaDevAttrGlobalMemoryBusWidth:
            *value = 6144;
            break;
        case cudaDevAttrL2CacheSize:
            *value = 50 << 20;
            break;
        case cudaDevAttrMaxSharedMemoryPerBlock:
            *value = 48 << 10;
            break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = 227 << 10;
            break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            *value = 228 << 10;
            break;
        case cudaDevAttrMaxThreadsPerBlock:
            *value = 1024;
            break;
        case cudaDevAttrMaxThreadsPerMultiProcessor:
            *value = 2048;
            break;
        case cudaDevAttrWarpSize:
            *value = 32;
            break;
        default:
            return report(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    return break_captures();
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDA_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
    const bool known = std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
    *function = known ? reinterpret_cast<void*>(&cuTensorMapEncodeTiled) : nullptr;
    if (result) *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

// ---- streams and graphs -------------------------------------------------------------------------

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    *stream = new CUstream_st;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    return cudaStreamCreate(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (stream) delete stream->recording;
    delete stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    if (!stream || !stream->recording) return cudaSuccess;
    stream->invalidated = true;
    return report(cudaErrorStreamCaptureUnsupported);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    *status = !stream || !stream->recording ? cudaStreamCaptureStatusNone
              : stream->invalidated         ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
    std::swap(*mode, capture_mode);
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    if (!stream || stream->recording) return report(cudaErrorStreamCaptureUnsupported);
    stream->recording = new CUgraph_st;
    stream->invalidated = false;
    if (mode != cudaStreamCaptureModeRelaxed) captured_streams().push_back(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    if (!stream || !stream->recording) return report(cudaErrorInvalidValue);
    *graph = std::exchange(stream->recording, nullptr);
    auto& streams = captured_streams();
    streams.erase(std::remove(streams.begin(), streams.end(), stream), streams.end());
    if (!stream->invalidated) return cudaSuccess;
    delete std::exchange(*graph, nullptr);
    return report(cudaErrorStreamCaptureInvalidated);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
    *executable = new CUgraphExec_st{graph->nodes};
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    std::lock_guard<std::recursive_mutex> locked(lock());
    for (const CUgraphNode_st& node : executable->nodes) {
        const cudaError_t code = submit(stream, node.work.type, node.work.run);
        if (code != cudaSuccess) return code;
    }
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    delete executable;
    return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
    if (nodes)
        for (size_t i = 0; i < *count && i < graph->nodes.size(); ++i) nodes[i] = &graph->nodes[i];
    *count = graph->nodes.size();
    return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
    *type = node->work.type;
    return cudaSuccess;
}
