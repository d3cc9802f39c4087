// SPDX-License-Identifier: Apache-2.0
// Times of steady, back-to-back work: launches are captured in a CUDA graph, the graph is replayed
// without a pause, and the sides take turns, because each inherits the heat (and so the clock) that
// the one before it leaves.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "clocks.hpp"
#include "device.hpp"
#include "power.hpp"
#include "side.hpp"

namespace bench {

struct timing {
    double us = 0;                      // a call: the median of the rounds' medians
    double min_us = 0, max_us = 0;      // least and greatest of the rounds' medians
    double megahertz = 0;               // mean of the rounds
    double cycles = 0;                  // a call: the median over the rounds
    std::optional<double> microjoules;  // a call
};

class stopwatch {
  public:
    explicit stopwatch(const session& s);
    ~stopwatch();
    stopwatch(const stopwatch&) = delete;

    // Each side for so many seconds in each of the rounds, in turn; then as long for its energy.
    std::vector<timing> alternate(const std::vector<side>& sides, double seconds, int rounds);

    // The fastest of several in a short run; those that fail are left out. Fails with the last
    // reason if none is left.
    side fastest(std::vector<side> candidates);

  private:
    class replay;
    struct round;

    double estimate(const side& s);
    replay capture(const side& s);
    void keep_busy(const replay& r, double seconds, std::vector<double>& us,
                   power_meter* meter = nullptr);
    round run_round(const replay& r, double seconds);
    std::optional<double> energy_a_call(const replay& r, double seconds, double us);

    static constexpr size_t queued = 8, ring = queued + 1;  // graphs, and the events between them

    const session& session_;
    clock_meter clocks_;
    power_meter power_;
    cudaEvent_t events_[ring] = {};
};

}  // namespace bench
