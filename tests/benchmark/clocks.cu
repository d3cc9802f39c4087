// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "clocks.hpp"

namespace bench {
namespace {

constexpr int most_multiprocessors = 1024;

struct sample {
    long long cycles;
    unsigned long long nanoseconds;  // 0 if this multiprocessor ran no block
};

__global__ void read_clocks(sample* samples) {
    if (threadIdx.x != 0) return;
    unsigned multiprocessor;
    unsigned long long nanoseconds;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
    if (multiprocessor < most_multiprocessors) {
        samples[multiprocessor] = {clock64(), nanoseconds};
    }
}

std::vector<sample> fetch(const session& s, const device_array& samples) {
    const byte_vector bytes = download(s, samples);
    std::vector<sample> result(most_multiprocessors);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(result.data()));
    return result;
}

}  // namespace

clock_meter::clock_meter(const session& s)
    : session_(s),
      before_(most_multiprocessors * sizeof(sample)),
      after_(most_multiprocessors * sizeof(sample)) {}

void clock_meter::read(device_array& samples) {
    check(magicubeMemset(session_.gpu, samples.data(), 0, static_cast<size_t>(samples.bytes())),
          "magicubeMemset");
    // Blocks of the largest size, so that they spread over all multiprocessors.
    read_clocks<<<session_.multiprocessors, 1024, 0, session_.stream>>>(
        static_cast<sample*>(samples.data()));
    check(cudaGetLastError(), "read_clocks");
}

double clock_meter::megahertz() const {
    const auto before = fetch(session_, before_), after = fetch(session_, after_);
    std::vector<double> rates;
    for (size_t i = 0; i < before.size(); ++i) {
        if (!before[i].nanoseconds || !after[i].nanoseconds) continue;
        rates.push_back(1e3 * static_cast<double>(after[i].cycles - before[i].cycles) /
                        static_cast<double>(after[i].nanoseconds - before[i].nanoseconds));
    }
    if (rates.empty()) return 0;
    std::nth_element(rates.begin(), rates.begin() + rates.size() / 2, rates.end());
    return rates[rates.size() / 2];
}

}  // namespace bench
