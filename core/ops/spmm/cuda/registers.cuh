// SPDX-License-Identifier: Apache-2.0
// Unpacks and transposes elements of B in registers.
#pragma once

#include <cstdint>

namespace magicube::spmm::cuda {

// The even ones of eight int4, as int8, or the odd ones.
__device__ __forceinline__ uint32_t unpack_int4(uint32_t packed, bool odd) {
    const uint32_t nibbles = packed >> (odd ? 4 : 0) & 0x0f0f0f0f;
    return nibbles + (nibbles & 0x08080808) * 30;  // 8 becomes 0xf8
}

// All eight, in their order.
__device__ __forceinline__ uint2 unpack_int4(uint32_t packed) {
    const uint32_t even = unpack_int4(packed, false), odd = unpack_int4(packed, true);
    return make_uint2(__byte_perm(even, odd, 0x5140), __byte_perm(even, odd, 0x7362));
}

// rows[i] = byte i of each word.
__device__ __forceinline__ void transpose_bytes(const uint32_t (&w)[4], uint32_t (&rows)[4]) {
    const uint32_t low01 = __byte_perm(w[0], w[1], 0x5140), low23 = __byte_perm(w[2], w[3], 0x5140);
    const uint32_t high01 = __byte_perm(w[0], w[1], 0x7362);
    const uint32_t high23 = __byte_perm(w[2], w[3], 0x7362);
    rows[0] = __byte_perm(low01, low23, 0x5410);
    rows[1] = __byte_perm(low01, low23, 0x7632);
    rows[2] = __byte_perm(high01, high23, 0x5410);
    rows[3] = __byte_perm(high01, high23, 0x7632);
}

}  // namespace magicube::spmm::cuda
