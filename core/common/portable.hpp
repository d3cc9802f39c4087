// SPDX-License-Identifier: Apache-2.0
// What lets one piece of arithmetic be compiled for host and CUDA with the same bits. The host is
// compiled with contraction off; on the device the intrinsics below are never contracted.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define MAGICUBE_HOST_DEVICE __host__ __device__
#else
#define MAGICUBE_HOST_DEVICE
#endif

// The architecture whose PTX instructions a function may hold: 0 on the host and on the emulated
// device of tests/emulation.
#if defined(__CUDA_ARCH__) && !defined(MAGICUBE_EMULATED)
#define MAGICUBE_PTX_ARCH __CUDA_ARCH__
#else
#define MAGICUBE_PTX_ARCH 0
#endif

namespace magicube {

MAGICUBE_HOST_DEVICE inline float mul_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}

MAGICUBE_HOST_DEVICE inline float add_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fadd_rn(a, b);
#else
    return a + b;
#endif
}

MAGICUBE_HOST_DEVICE inline float fma_rn(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#else
    return std::fma(a, b, c);
#endif
}

MAGICUBE_HOST_DEVICE inline float div_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
    return __fdiv_rn(a, b);
#else
    return a / b;
#endif
}

MAGICUBE_HOST_DEVICE inline uint32_t bits_of(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

MAGICUBE_HOST_DEVICE inline float float_of(uint32_t bits) {
    float value = 0;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

}  // namespace magicube
