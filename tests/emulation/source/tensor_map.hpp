// SPDX-License-Identifier: Apache-2.0
// What a CUtensorMap holds here, and the copies of tiles that it describes.
#pragma once

#include <cstdint>

#include "emulation/device.hpp"

namespace emulated {

constexpr int max_dimensions = 5;

struct tile_place {
    int coordinates[max_dimensions] = {};
};

struct tensor_map {
    uint64_t sign;
    uint8_t* base;
    uint64_t sizes[max_dimensions];
    uint64_t strides[max_dimensions];  // bytes; of the first dimension the element's size
    uint16_t box[max_dimensions];
    uint8_t dimensions, element_bytes, swizzle_bytes, unused;

    uint32_t box_bytes() const;
    // Of the address in shared memory.
    uint32_t alignment() const { return 128; }
    void load(uint32_t target, const tile_place& place, site at) const;
    void store(uint32_t source, const tile_place& place, site at) const;

  private:
    template <class Row>
    void each_chunk(uint32_t shared, const tile_place& place, site at, Row&& row) const;
};

// Fails unless it is one, of so many dimensions.
tensor_map map_of(const void* map, int dimensions, site at);

}  // namespace emulated
