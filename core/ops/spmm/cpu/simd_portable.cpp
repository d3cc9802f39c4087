// SPDX-License-Identifier: Apache-2.0
// cpu_simd with what every processor has: vectors of 16 bytes that the compiler maps to what there
// is, and words for all integers.
#include <algorithm>
#include <type_traits>

#include "core/ops/spmm/cpu/simd_kernels.hpp"

namespace magicube::spmm::cpu {
namespace {

#define MAGICUBE_SIMD

template <class T>
struct vector_type {
    typedef T type __attribute__((vector_size(16)));
};
template <class T>
using vector_of = typename vector_type<T>::type;

template <class T>
vector_of<T> load_vector(const uint32_t* from) {
    vector_of<T> v;
    std::memcpy(&v, from, sizeof(v));
    return v;
}

template <class T>
struct vector_lanes {
    using sum = vector_of<T>;
    static constexpr int width = 4;
    static constexpr int vectors = 2;

    static sum load_sum(const uint32_t* from) { return load_vector<T>(from); }
    static void store_sum(uint32_t* to, sum v) { std::memcpy(to, &v, sizeof(v)); }
    template <class Vector>
    static void store(uint32_t* to, Vector v) {
        std::memcpy(to, &v, sizeof(v));
    }
    static sum add(sum a, sum b) { return a + b; }
    static sum start(uint32_t bits) {
        T value;
        std::memcpy(&value, &bits, sizeof(value));
        return sum{value, value, value, value};
    }
};

template <class Lanes, int64_t Cols>
MAGICUBE_SIMD inline void load_float_row(const char* b, const int32_t* cols, int64_t slots,
                                         typename Lanes::operand* group);

// Products of 16-bit integers fit 31 bits; sums are unsigned, so that they may wrap on the way.
struct word_lanes : vector_lanes<uint32_t> {
    using operand = vector_of<int32_t>;
    struct pair {
        operand even, odd;
    };

    static operand load(const uint32_t* from) { return load_vector<int32_t>(from); }
    static pair spread(uint32_t bits) {
        const int32_t even = static_cast<int16_t>(bits & 0xffff);
        const int32_t odd = static_cast<int16_t>(bits >> 16);
        return {operand{even, even, even, even}, operand{odd, odd, odd, odd}};
    }
    static sum accumulate(sum total, pair a, operand b) {
        const operand even = reinterpret_cast<operand>(reinterpret_cast<sum>(b) << 16) >> 16;
        return total + reinterpret_cast<sum>(a.even) * reinterpret_cast<sum>(even) +
               reinterpret_cast<sum>(a.odd) * reinterpret_cast<sum>(b >> 16);
    }
    template <int64_t Cols>
    static void load_group(const char* b, const int32_t* cols, int64_t slots, operand* group) {
        const auto* rows = reinterpret_cast<const uint16_t*>(b);
        const uint16_t* even = rows + cols[0] * Cols;
        const uint16_t* odd = slots > 1 ? rows + cols[1] * Cols : even;
        uint32_t pairs[Cols];
        for (int64_t j = 0; j < Cols; ++j) pairs[j] = even[j] | static_cast<uint32_t>(odd[j]) << 16;
        for (int64_t j = 0; j < Cols; j += width) *group++ = load(pairs + j);
    }
};

struct float_lanes : vector_lanes<float> {
    using operand = sum;
    static operand load(const uint32_t* from) { return load_vector<float>(from); }
    static operand spread(uint32_t bits) { return start(bits); }
    static sum accumulate(sum total, operand a, operand b) { return total + a * b; }
    template <int64_t Cols>
    static void load_group(const char* b, const int32_t* cols, int64_t slots, operand* group) {
        load_float_row<float_lanes, Cols>(b, cols, slots, group);
    }
};

#define MAGICUBE_DIRECT(lanes, cols, kind) nullptr, nullptr
#include "core/ops/spmm/cpu/simd_kernels.inc"

template <int64_t Cols>
constexpr product_kernels words = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                   gather<word_lanes, Cols, lane_kind::words>,
                                   multiply_rows<word_lanes, Cols>,
                                   {MAGICUBE_DIRECT(word_lanes, Cols, lane_kind::words)}};
#undef MAGICUBE_DIRECT

template <int64_t Cols>
constexpr tile_kernels tiles = {
    Cols, nullptr, nullptr, &words<Cols>, &floats<Cols>, &kept_floats<Cols>, select_finish<Cols>};

}  // namespace

const simd_kernels portable_kernels = {"portable", tiles<wide_tile>, tiles<narrow_tile>};

}  // namespace magicube::spmm::cpu
