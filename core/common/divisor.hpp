// SPDX-License-Identifier: Apache-2.0
// Division by a number that is known early and used often: a multiplication and a shift.
#pragma once

#include <cstdint>

#include "core/common/portable.hpp"

namespace magicube {

class divisor {
  public:
    divisor() = default;
    // value from 1 to 2^31 - 1.
    explicit divisor(uint32_t value) : value_(value) {
        while (uint64_t{1} << (shift_ - 31) < value) ++shift_;
        // Rounded up; the excess of n * multiplier is below n * value, so below 2^shift.
        multiplier_ = static_cast<uint32_t>(((uint64_t{1} << shift_) + value - 1) / value);
    }

    MAGICUBE_HOST_DEVICE uint32_t value() const { return value_; }
    // n below 2^31.
    MAGICUBE_HOST_DEVICE uint32_t quotient(uint32_t n) const {
        return static_cast<uint32_t>(uint64_t{n} * multiplier_ >> shift_);
    }
    MAGICUBE_HOST_DEVICE uint32_t remainder(uint32_t n) const { return n - quotient(n) * value_; }

  private:
    uint32_t value_ = 1;
    uint32_t multiplier_ = uint32_t{1} << 31;
    uint32_t shift_ = 31;
};

}  // namespace magicube
