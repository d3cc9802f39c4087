// SPDX-License-Identifier: Apache-2.0
#include "core/types/dtype.hpp"

#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace magicube;

TEST_CASE("int4 packs two a byte, low nibble first, and keeps its neighbour") {
    std::vector<uint8_t> bytes(8, 0xA5);
    for (int i = 0; i < 16; ++i) store_int4(bytes.data(), i, i - 8);
    for (int i = 0; i < 16; ++i) CHECK(load_int4(bytes.data(), i) == i - 8);
    CHECK(bytes[0] == 0x98);  // -8 low, -7 high
    bytes[3] = 0x7F;
    store_int4(bytes.data(), 6, 2);
    CHECK(bytes[3] == 0x72);
    store_int4(bytes.data(), 7, -1);
    CHECK(bytes[3] == 0xF2);
}

TEST_CASE("sizes and ranges agree with storage") {
    CHECK(storage_bytes(dtype::int4, 0) == 0);
    CHECK(storage_bytes(dtype::int4, 5) == 3);
    CHECK(storage_bytes(dtype::int12, 5) == 10);
    CHECK(element_alignment(dtype::int4) == 1);
    CHECK(element_alignment(dtype::e4m3) == 1);
    CHECK(element_alignment(dtype::int12) == 2);
    CHECK(element_alignment(dtype::fp32) == 4);
    CHECK(storage_bytes(dtype::fp32, int64_t{1} << 40) == int64_t{1} << 42);
    for (dtype type : all_dtypes) {
        CHECK(std::string(name_of(type)) != "unknown");
        if (is_floating(type)) continue;
        const auto range = range_of(type);
        visit(type, [&](auto t) {
            using e = element<t.value>;
            uint64_t storage = 0;
            for (int64_t v : {range.lowest, range.highest, int64_t{0}}) {
                e::store(&storage, 0, static_cast<typename e::value>(v));
                CHECK(e::load(&storage, 0) == v);
            }
        });
    }
    CHECK(std::string(name_of(static_cast<dtype>(99))) == "unknown");
    CHECK(storage_bits(static_cast<dtype>(99)) == 0);
}
