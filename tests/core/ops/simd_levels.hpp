// SPDX-License-Identifier: Apache-2.0
// Runs a test at every level of SIMD instructions that this processor has.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "core/common/simd_level.hpp"

namespace support {

// Limits the level while it lives.
struct level_limit {
    explicit level_limit(magicube::simd_level level) { magicube::limit_level(level); }
    level_limit(const level_limit&) = delete;
    level_limit& operator=(const level_limit&) = delete;
    ~level_limit() { magicube::limit_level(magicube::highest_simd_level); }
};

// test(number of the level); levels above `highest` are left out, where their kernels are the same.
template <class Test>
void each_level(const Test& test, magicube::simd_level highest = magicube::highest_simd_level) {
    for (const auto level : magicube::all_simd_levels) {
        if (level > highest) break;
        const level_limit limit(level);
        if (magicube::usable_level() != level) continue;
        CAPTURE(std::string(magicube::name_of(level)));
        test(static_cast<uint64_t>(level));
    }
}

}  // namespace support
