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
    ~level_limit() { magicube::limit_level(magicube::simd_level::avx512_vnni); }
};

// test(number of the level)
template <class Test>
void each_level(const Test& test) {
    using magicube::simd_level;
    for (const auto level : {simd_level::portable, simd_level::avx2, simd_level::avx512_vnni}) {
        const level_limit limit(level);
        if (magicube::usable_level() != level) continue;
        CAPTURE(std::string(magicube::name_of(level)));
        test(static_cast<uint64_t>(level));
    }
}

}  // namespace support
