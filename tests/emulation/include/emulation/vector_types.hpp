// SPDX-License-Identifier: Apache-2.0
// CUDA's vector types, aligned as there.
#pragma once

#define EMULATED_VECTORS(NAME, T, ALIGN2, ALIGN4)          \
    struct NAME##1 {                                       \
        T x;                                               \
    };                                                     \
    struct alignas(ALIGN2) NAME##2 {                       \
        T x, y;                                            \
    };                                                     \
    struct NAME##3 {                                       \
        T x, y, z;                                         \
    };                                                     \
    struct alignas(ALIGN4) NAME##4 {                       \
        T x, y, z, w;                                      \
    };                                                     \
    constexpr NAME##1 make_##NAME##1(T x) {                \
        return {x};                                        \
    }                                                      \
    constexpr NAME##2 make_##NAME##2(T x, T y) {           \
        return {x, y};                                     \
    }                                                      \
    constexpr NAME##3 make_##NAME##3(T x, T y, T z) {      \
        return {x, y, z};                                  \
    }                                                      \
    constexpr NAME##4 make_##NAME##4(T x, T y, T z, T w) { \
        return {x, y, z, w};                               \
    }
EMULATED_VECTORS(char, signed char, 2, 4)
EMULATED_VECTORS(uchar, unsigned char, 2, 4)
EMULATED_VECTORS(short, short, 4, 8)
EMULATED_VECTORS(ushort, unsigned short, 4, 8)
EMULATED_VECTORS(int, int, 8, 16)
EMULATED_VECTORS(uint, unsigned, 8, 16)
EMULATED_VECTORS(float, float, 8, 16)
EMULATED_VECTORS(longlong, long long, 16, 16)
EMULATED_VECTORS(ulonglong, unsigned long long, 16, 16)
EMULATED_VECTORS(double, double, 16, 16)
#undef EMULATED_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1)
        : x(across), y(down), z(deep) {}
};
