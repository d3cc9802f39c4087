// SPDX-License-Identifier: Apache-2.0
#include "source/tensor_map.hpp"

#include <algorithm>
#include <cstring>

#include "cuda.h"

namespace emulated {
namespace {

constexpr uint64_t map_sign = 0x7e4508a9c0de0001;
static_assert(sizeof(tensor_map) <= sizeof(CUtensorMap));

int bytes_of(CUtensorMapDataType type) {
    switch (type) {
        case CU_TENSOR_MAP_DATA_TYPE_UINT8:
            return 1;
        case CU_TENSOR_MAP_DATA_TYPE_UINT16:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
        case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
            return 2;
        case CU_TENSOR_MAP_DATA_TYPE_UINT32:
        case CU_TENSOR_MAP_DATA_TYPE_INT32:
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
        case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
            return 4;
        default:
            return 8;
    }
}

int bytes_of(CUtensorMapSwizzle swizzle) {
    switch (swizzle) {
        case CU_TENSOR_MAP_SWIZZLE_32B:
            return 32;
        case CU_TENSOR_MAP_SWIZZLE_64B:
            return 64;
        case CU_TENSOR_MAP_SWIZZLE_128B:
            return 128;
        default:
            return 0;
    }
}

// Exchanges the 16-byte chunks of a row of `span` bytes by bits of the row's address.
uint32_t swizzled(uint32_t address, int span) {
    switch (span) {
        case 128:
            return address ^ (address >> 7 & 7) << 4;
        case 64:
            return address ^ (address >> 7 & 3) << 4;
        case 32:
            return address ^ (address >> 7 & 1) << 4;
        default:
            return address;
    }
}

}  // namespace

uint32_t tensor_map::box_bytes() const {
    uint32_t bytes = element_bytes;
    for (int d = 0; d < dimensions; ++d) bytes *= box[d];
    return bytes;
}

// Calls `row` with every 16 bytes of the tile: where they lie in shared memory, where in global
// memory, and how many of them are inside the tensor.
template <class Row>
void tensor_map::each_chunk(uint32_t shared, const tile_place& place, site at, Row&& row) const {
    const uint32_t row_bytes = uint32_t{box[0]} * element_bytes;
    const uint32_t rows = box_bytes() / row_bytes;
    for (uint32_t r = 0; r < rows; ++r) {
        const uint8_t* line = base;
        bool inside = true;
        uint32_t rest = r;
        for (int d = 1; d < dimensions; ++d) {
            const int64_t c = int64_t{place.coordinates[d]} + rest % box[d];
            rest /= box[d];
            inside = inside && c >= 0 && c < static_cast<int64_t>(sizes[d]);
            line += c * static_cast<int64_t>(strides[d]);
        }
        const int64_t first = int64_t{place.coordinates[0]} * element_bytes;
        const int64_t end = static_cast<int64_t>(sizes[0]) * element_bytes;
        for (uint32_t b = 0; b < row_bytes; b += 16) {
            const uint32_t where = swizzled(shared + r * row_bytes + b, swizzle_bytes);
            // Bytes of the chunk before the tensor's first, and up to its last.
            const int64_t from = std::clamp<int64_t>(-(first + b), 0, 16);
            const int64_t to = inside ? std::clamp<int64_t>(end - (first + b), 0, 16) : 0;
            row(static_cast<uint8_t*>(shared_pointer(where, 16, 16, at)), line + first + b, from,
                std::max(from, to));
        }
    }
}

void tensor_map::load(uint32_t target, const tile_place& place, site at) const {
    each_chunk(target, place, at,
               [](uint8_t* shared, const uint8_t* global, int64_t from, int64_t to) {
                   std::memset(shared, 0, 16);
                   if (to > from)
                       std::memcpy(shared + from, global + from, static_cast<size_t>(to - from));
               });
}

void tensor_map::store(uint32_t source, const tile_place& place, site at) const {
    each_chunk(source, place, at,
               [](uint8_t* shared, const uint8_t* global, int64_t from, int64_t to) {
                   // As seen on an H200: all 16 bytes, though some lie beyond the tensor's last.
                   if (to > from)
                       std::memcpy(const_cast<uint8_t*>(global) + from, shared + from,
                                   static_cast<size_t>(16 - from));
               });
}

tensor_map map_of(const void* map, int dimensions, site at) {
    tensor_map found;
    std::memcpy(&found, map, sizeof(found));
    if (found.sign != map_sign) fail("the tensor map holds no description", at);
    if (found.dimensions != dimensions)
        fail("the tensor map has " + std::to_string(found.dimensions) + " dimensions", at);
    return found;
}

}  // namespace emulated

// The rules are those of the driver's documentation.
CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    using namespace emulated;
    tensor_map made{};
    const int bytes = bytes_of(type), span = bytes_of(swizzle);
    if (!map || rank < 1 || rank > 5 || reinterpret_cast<uintptr_t>(address) % 16 != 0 ||
        interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    made.sign = map_sign;
    made.base = static_cast<uint8_t*>(address);
    made.dimensions = static_cast<uint8_t>(rank);
    made.element_bytes = static_cast<uint8_t>(bytes);
    made.swizzle_bytes = static_cast<uint8_t>(span);
    made.strides[0] = static_cast<uint64_t>(bytes);
    for (cuuint32_t d = 0; d < rank; ++d) {
        if (sizes[d] < 1 || sizes[d] > uint64_t{1} << 32 || box[d] < 1 || box[d] > 256 ||
            element_strides[d] != 1) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        made.sizes[d] = sizes[d];
        made.box[d] = static_cast<uint16_t>(box[d]);
        if (d == 0) continue;
        if (strides[d - 1] % 16 != 0 || strides[d - 1] >= uint64_t{1} << 40)
            return CUDA_ERROR_INVALID_VALUE;
        made.strides[d] = strides[d - 1];
    }
    const auto row = static_cast<int>(box[0]) * bytes;
    if (row % 16 != 0 || (span != 0 && row > span)) return CUDA_ERROR_INVALID_VALUE;
    static_assert(sizeof(made) <= sizeof(*map));
    std::memset(map, 0, sizeof(*map));
    std::memcpy(map, &made, sizeof(made));
    return CUDA_SUCCESS;
}
