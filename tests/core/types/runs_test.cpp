// SPDX-License-Identifier: Apache-2.0
#include "core/types/runs.hpp"

#include <doctest/doctest.h>

#include "support/numbers.hpp"

using namespace magicube;
using namespace support;

TEST_CASE("runs are loaded and stored at any start and length, touching nothing else") {
    generator random(30);
    for (const kind type : {kind::int4, kind::int8, kind::uint8, kind::int12, kind::int16,
                            kind::int32, kind::fp16, kind::bf16, kind::fp32, kind::e4m3})
        for (const int64_t first : {0, 1, 2, 7})
            for (const int64_t count : {0, 1, 2, 5, 64}) {
                CAPTURE(static_cast<int>(type));
                CAPTURE(first);
                CAPTURE(count);
                packed_array source(type, 80);
                for (int64_t i = 0; i < 80; ++i) source.set(i, random_value(random, type));
                const auto runtime_type = static_cast<dtype>(type);
                std::vector<float> floats(static_cast<size_t>(count) + 1, -77);
                std::vector<double> doubles(static_cast<size_t>(count) + 1, -77);
                load_run(runtime_type, source.data(), first, count, floats.data());
                load_run(runtime_type, source.data(), first, count, doubles.data());
                packed_array wanted(type, 80);
                for (int64_t i = 0; i < count; ++i) {
                    const double value = source.get(first + i);
                    CHECK(doubles[static_cast<size_t>(i)] == value);
                    CHECK(floats[static_cast<size_t>(i)] == static_cast<float>(value));
                    if (type != kind::int32) wanted.set(first + i, value);
                }
                CHECK((floats.back() == -77 && doubles.back() == -77));
                if (type == kind::int32) continue;  // float does not hold it
                packed_array stored(type, 80);
                store_run(runtime_type, stored.data(), first, count, floats.data());
                CHECK(stored.bytes() == wanted.bytes());
            }
}
