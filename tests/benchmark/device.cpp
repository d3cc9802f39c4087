// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <algorithm>

namespace bench {
namespace {

constexpr auto cuda = MAGICUBE_DEVICE_CUDA;

// Bytes that a large copy reads and writes a microsecond, the best of several.
double copy_rate(const session& s) {
    constexpr int64_t bytes = int64_t{1} << 29;
    const device_array from(bytes), to(bytes);
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    float best_ms = 1e9f;
    for (int i = 0; i < 6; ++i) {
        check(cudaEventRecord(begin, s.stream), "cudaEventRecord");
        check(magicubeMemcpy(s.gpu, to.data(), from.data(), bytes), "magicubeMemcpy");
        check(cudaEventRecord(end, s.stream), "cudaEventRecord");
        check(cudaEventSynchronize(end), "cudaEventSynchronize");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        best_ms = std::min(best_ms, ms);
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return 2.0 * bytes / (1e3 * best_ms);
}

}  // namespace

session::session() {
    magicubeDeviceInfo_t info = MAGICUBE_DEVICE_INFO_INIT;
    check(magicubeGetDeviceInfo(cuda, 0, &info), "magicubeGetDeviceInfo");
    name = info.name;
    capability = info.compute_capability;
    multiprocessors = info.multiprocessors;
    int cache = 0;
    check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, 0), "cudaDeviceGetAttribute");
    cache_bytes = cache;
    check(magicubeCreate(&gpu, cuda, 0), "magicubeCreate");
    check(magicubeCreate(&cpu, MAGICUBE_DEVICE_CPU, 0), "magicubeCreate");
    check(magicubeStreamCreate(cuda, 0, &stream), "magicubeStreamCreate");
    check(magicubeSetStream(gpu, stream), "magicubeSetStream");
    bytes_per_us = copy_rate(*this);
}

session::~session() {
    magicubeDestroy(gpu);
    magicubeDestroy(cpu);
    magicubeStreamDestroy(cuda, 0, stream);
}

device_array::device_array(int64_t bytes) : bytes_(bytes) {
    check(magicubeMalloc(cuda, 0, static_cast<size_t>(bytes), &data_), "magicubeMalloc");
}

device_array::~device_array() {
    magicubeFree(cuda, 0, data_);
}

device_array upload(const session& s, const void* host, int64_t bytes) {
    device_array copy(bytes);
    if (bytes == 0) return copy;
    check(magicubeMemcpy(s.gpu, copy.data(), host, static_cast<size_t>(bytes)), "magicubeMemcpy");
    s.synchronize();
    return copy;
}

device_array duplicate(const session& s, const device_array& source) {
    return upload(s, source.data(), source.bytes());
}

byte_vector download(const session& s, const device_array& source) {
    byte_vector host(static_cast<size_t>(source.bytes()));
    check(magicubeMemcpy(s.gpu, host.data(), source.data(), host.size()), "magicubeMemcpy");
    s.synchronize();
    return host;
}

int cold_copies(bool cold, int64_t bytes) {
    constexpr int64_t enough = 200'000'000, most = 512;
    return cold ? static_cast<int>(std::clamp<int64_t>(ceil_div(enough, bytes), 2, most)) : 1;
}

}  // namespace bench
