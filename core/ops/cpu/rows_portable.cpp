// SPDX-License-Identifier: Apache-2.0
// Row kernels with what every processor has: vectors of 16 bytes that the compiler maps to what
// there is, and words for all integers.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/ops/cpu/row_kernels.hpp"
#include "core/ops/epilogue.hpp"

namespace magicube {
namespace {

#define MAGICUBE_SIMD

inline float multiply_add(float a, float b, float c) {
    return a * b + c;
}

template <class T>
struct vector_type {
    typedef T type __attribute__((vector_size(16)));
};

template <class T>
struct vector_lanes {
    using sum = typename vector_type<T>::type;
    static constexpr int width = 4;
    static constexpr int rows = 2;
    static constexpr int vectors = 4;
    static constexpr bool biased = false;

    static sum zero() { return sum{0, 0, 0, 0}; }
    static void store_four(uint32_t* to, const sum (&four)[4], uint32_t) {
        const sum all = {total(four[0]), total(four[1]), total(four[2]), total(four[3])};
        std::memcpy(to, &all, sizeof(all));
    }

  private:
    static T total(sum v) { return (v[0] + v[2]) + (v[1] + v[3]); }
};

template <class Vector>
Vector load_vector(const void* from) {
    Vector v;
    std::memcpy(&v, from, sizeof(v));
    return v;
}

// Products of 16-bit integers fit 31 bits; sums are unsigned, so that they may wrap on the way.
struct word_lanes : vector_lanes<uint32_t> {
    using operand = vector_type<int32_t>::type;

    static operand load(const uint32_t* from) { return load_vector<operand>(from); }
    static operand right(operand b) { return b; }
    static operand even(operand v) {
        return reinterpret_cast<operand>(reinterpret_cast<sum>(v) << 16) >> 16;
    }
    static sum accumulate(sum total, operand a, operand b) {
        return total + reinterpret_cast<sum>(even(a)) * reinterpret_cast<sum>(even(b)) +
               reinterpret_cast<sum>(a >> 16) * reinterpret_cast<sum>(b >> 16);
    }
};

typedef int16_t vector_words __attribute__((vector_size(16)));

struct high_lanes : word_lanes {
    static operand right(operand b) {
        return reinterpret_cast<operand>(reinterpret_cast<vector_words>(b) >> 8);
    }
};

struct low_lanes : word_lanes {
    static operand right(operand b) { return b & 0x00ff00ff; }
};

struct float_lanes : vector_lanes<float> {
    using operand = sum;

    static operand load(const uint32_t* from) { return load_vector<operand>(from); }
    static operand right(operand b) { return b; }
    static sum spread(float value) { return sum{value, value, value, value}; }
    static sum load_sum(const float* from) { return load_vector<sum>(from); }
    static void store_sum(float* to, sum v) { std::memcpy(to, &v, sizeof(v)); }
    static sum larger(sum a, sum b) { return a > b ? a : b; }
    static sum accumulate(sum total, operand a, operand b) { return total + a * b; }
};

MAGICUBE_SIMD void load_halves(const half* from, int64_t count, float* out) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(from[i]);
}

MAGICUBE_SIMD void store_halves(half* to, int64_t count, const float* x) {
    for (int64_t i = 0; i < count; ++i) to[i] = half(x[i]);
}

#include "core/ops/cpu/row_kernels.inc"

}  // namespace

const row_kernels portable_rows = integer_kernels(nullptr);

}  // namespace magicube
