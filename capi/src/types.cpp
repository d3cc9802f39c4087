// SPDX-License-Identifier: Apache-2.0
#include "magicube/types.h"

#include "core/formats/sparse.hpp"

namespace {

using magicube::dtype;
static_assert(static_cast<int>(dtype::int4) == MAGICUBE_INT4);
static_assert(static_cast<int>(dtype::int8) == MAGICUBE_INT8);
static_assert(static_cast<int>(dtype::uint8) == MAGICUBE_UINT8);
static_assert(static_cast<int>(dtype::int12) == MAGICUBE_INT12);
static_assert(static_cast<int>(dtype::int16) == MAGICUBE_INT16);
static_assert(static_cast<int>(dtype::int32) == MAGICUBE_INT32);
static_assert(static_cast<int>(dtype::fp16) == MAGICUBE_FP16);
static_assert(static_cast<int>(dtype::bf16) == MAGICUBE_BF16);
static_assert(static_cast<int>(dtype::fp32) == MAGICUBE_FP32);
static_assert(static_cast<int>(dtype::e4m3) == MAGICUBE_E4M3);
static_assert(static_cast<int>(magicube::index_type::int32) == MAGICUBE_INDEX_32);
static_assert(static_cast<int>(magicube::index_type::int64) == MAGICUBE_INDEX_64);
static_assert(static_cast<int>(magicube::order::row) == MAGICUBE_ORDER_ROW);
static_assert(static_cast<int>(magicube::order::col) == MAGICUBE_ORDER_COL);

}  // namespace

const char* magicubeGetDataTypeName(magicubeDataType_t type) noexcept {
    return magicube::name_of(static_cast<dtype>(static_cast<int>(type)));
}

int32_t magicubeGetDataTypeBits(magicubeDataType_t type) noexcept {
    return magicube::storage_bits(static_cast<dtype>(static_cast<int>(type)));
}
