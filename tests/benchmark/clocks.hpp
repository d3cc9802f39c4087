// SPDX-License-Identifier: Apache-2.0
// The multiprocessors' clock during a stretch of a stream: their cycle counters are read before and
// after it, beside the nanoseconds of the GPU's timer.
#pragma once

#include "device.hpp"

namespace bench {

class clock_meter {
  public:
    explicit clock_meter(const session& s);

    void begin() { read(before_); }
    void end() { read(after_); }

    // MHz between the last begin() and end(), the median of the multiprocessors; waits for the
    // stream. 0 if no multiprocessor ran both readings.
    double megahertz() const;

  private:
    void read(device_array& samples);

    const session& session_;
    device_array before_, after_;
};

}  // namespace bench
