// SPDX-License-Identifier: Apache-2.0
// The GPU's mean power, from NVML's energy counter where it is installed.
#pragma once

#include <chrono>
#include <optional>

namespace bench {

// The counter moves only every 100 ms or so, and reading it can take milliseconds, during which the
// reader launches nothing. So it is read now and then beside work that is not timed, and power is
// the energy between the first and the last move seen, over the time between those two.
class power_meter {
  public:
    power_meter();

    void restart();

    // To be called often; reads the counter if the last time is long enough ago.
    void observe();

    // Nothing where NVML or the counter is missing, or if the moves seen span less than 0.2 s.
    std::optional<double> watts() const;

  private:
    using clock = std::chrono::steady_clock;
    using read_function = int(void* device, unsigned long long* millijoules);
    struct reading {
        clock::time_point when;
        unsigned long long millijoules;
    };

    read_function* read_ = nullptr;
    void* device_ = nullptr;
    std::optional<reading> latest_;
    std::optional<reading> first_, last_;
};

}  // namespace bench
