// SPDX-License-Identifier: Apache-2.0
// The functions that kernels call without PTX: warps and blocks, atomics, integers, floats.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "emulation/device.hpp"

#define EMULATED_SITE ::emulated::site at = ::emulated::site::here()

// ---- blocks -------------------------------------------------------------------------------------

inline void __syncthreads(EMULATED_SITE) {
    emulated::block_barrier(0, 0, false, at);
}
inline int __syncthreads_count(int predicate, EMULATED_SITE) {
    return emulated::block_barrier(0, 0, predicate != 0, at);
}
inline int __syncthreads_or(int predicate, EMULATED_SITE) {
    return emulated::block_barrier(0, 0, predicate != 0, at) != 0;
}
inline int __syncthreads_and(int predicate, EMULATED_SITE) {
    return emulated::block_barrier(0, 0, predicate == 0, at) == 0;
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned, EMULATED_SITE) {
    emulated::yield(at);
}
inline size_t __cvta_generic_to_shared(const void* pointer) {
    return emulated::shared_address(pointer);
}
[[noreturn]] inline void __trap(EMULATED_SITE) {
    emulated::fail("__trap", at);
}

// ---- warps --------------------------------------------------------------------------------------

inline void __syncwarp(uint32_t mask = ~0u, EMULATED_SITE) {
    emulated::collective(mask, "__syncwarp", nullptr, nullptr, at);
}

namespace emulated {

enum class shuffle_kind { index, up, down, exclusive_or };

template <class T>
struct shuffle_argument {
    T value, result;
    int lane, operand, width;
    shuffle_kind kind;
    bool missing;
};

template <class T>
void shuffle_lanes(void* const* lanes, uint32_t mask) {
    for (int l = 0; l < 32; ++l) {
        if (!(mask >> l & 1)) continue;
        auto& mine = *static_cast<shuffle_argument<T>*>(lanes[l]);
        const int first = l & ~(mine.width - 1), last = first + mine.width - 1;
        int from = l;
        switch (mine.kind) {
            case shuffle_kind::index:
                from = first + (mine.operand & (mine.width - 1));
                break;
            case shuffle_kind::up:
                from = l - mine.operand < first ? l : l - mine.operand;
                break;
            case shuffle_kind::down:
                from = l + mine.operand > last ? l : l + mine.operand;
                break;
            case shuffle_kind::exclusive_or:
                from = (l ^ mine.operand) > last ? l : l ^ mine.operand;
                break;
        }
        mine.missing = from > 31 || !lanes[from];
        if (!mine.missing) mine.result = static_cast<shuffle_argument<T>*>(lanes[from])->value;
    }
}

template <class T>
T shuffle(uint32_t mask, T value, int operand, int width, shuffle_kind kind, const char* name,
          site at) {
    shuffle_argument<T> mine{value, value, lane_id(), operand, width, kind, false};
    collective(mask, name, &mine, shuffle_lanes<T>, at);
    if (mine.missing) fail(std::string(name) + ": reads a lane that takes no part", at);
    return mine.result;
}

template <class T>
struct vote_argument {
    T value, result;
};

// The reduction of the values of all lanes by Combine(sum, value, lane).
template <class T, class Combine>
void reduce_lanes(void* const* lanes, uint32_t mask) {
    T total{};
    bool first = true;
    for (int l = 0; l < 32; ++l) {
        if (!(mask >> l & 1)) continue;
        const T value = static_cast<vote_argument<T>*>(lanes[l])->value;
        total = Combine::combine(total, value, l, first);
        first = false;
    }
    for (int l = 0; l < 32; ++l)
        if (mask >> l & 1) static_cast<vote_argument<T>*>(lanes[l])->result = total;
}

template <class T, class Combine>
T reduce(uint32_t mask, T value, const char* name, site at) {
    vote_argument<T> mine{value, value};
    collective(mask, name, &mine, reduce_lanes<T, Combine>, at);
    return mine.result;
}

#define EMULATED_REDUCTION(NAME, FIRST, NEXT)                               \
    struct NAME {                                                           \
        template <class T>                                                  \
        static T combine(T a, T b, [[maybe_unused]] int lane, bool first) { \
            return first ? static_cast<T>(FIRST) : static_cast<T>(NEXT);    \
        }                                                                   \
    };
EMULATED_REDUCTION(add_of, b, a + b)
EMULATED_REDUCTION(min_of, b, b < a ? b : a)
EMULATED_REDUCTION(max_of, b, a < b ? b : a)
EMULATED_REDUCTION(and_of, b, a& b)
EMULATED_REDUCTION(or_of, b, a | b)
EMULATED_REDUCTION(xor_of, b, a ^ b)
EMULATED_REDUCTION(ballot_of, (b != 0) << lane, a | uint32_t{b != 0} << lane)
#undef EMULATED_REDUCTION

}  // namespace emulated

template <class T>
T __shfl_sync(uint32_t mask, T value, int lane, int width = 32, EMULATED_SITE) {
    return emulated::shuffle(mask, value, lane, width, emulated::shuffle_kind::index, "__shfl_sync",
                             at);
}
template <class T>
T __shfl_up_sync(uint32_t mask, T value, unsigned delta, int width = 32, EMULATED_SITE) {
    return emulated::shuffle(mask, value, static_cast<int>(delta), width,
                             emulated::shuffle_kind::up, "__shfl_up_sync", at);
}
template <class T>
T __shfl_down_sync(uint32_t mask, T value, unsigned delta, int width = 32, EMULATED_SITE) {
    return emulated::shuffle(mask, value, static_cast<int>(delta), width,
                             emulated::shuffle_kind::down, "__shfl_down_sync", at);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int lanes, int width = 32, EMULATED_SITE) {
    return emulated::shuffle(mask, value, lanes, width, emulated::shuffle_kind::exclusive_or,
                             "__shfl_xor_sync", at);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate, EMULATED_SITE) {
    return emulated::reduce<uint32_t, emulated::ballot_of>(mask, predicate != 0, "__ballot_sync",
                                                           at);
}
inline int __any_sync(uint32_t mask, int predicate, EMULATED_SITE) {
    return emulated::reduce<int, emulated::or_of>(mask, predicate != 0, "__any_sync", at);
}
inline int __all_sync(uint32_t mask, int predicate, EMULATED_SITE) {
    return emulated::reduce<int, emulated::and_of>(mask, predicate != 0, "__all_sync", at);
}
#define EMULATED_REDUCE(NAME, T)                                                              \
    inline T __reduce_##NAME##_sync(uint32_t mask, T value, EMULATED_SITE) {                  \
        return static_cast<T>(                                                                \
            emulated::reduce<                                                                 \
                std::conditional_t<std::is_same_v<T, int> &&                                  \
                                       std::is_same_v<emulated::NAME##_of, emulated::add_of>, \
                                   uint32_t, T>,                                              \
                emulated::NAME##_of>(mask, value, "__reduce_" #NAME "_sync", at));            \
    }
EMULATED_REDUCE(add, int)
EMULATED_REDUCE(add, unsigned)
EMULATED_REDUCE(min, int)
EMULATED_REDUCE(min, unsigned)
EMULATED_REDUCE(max, int)
EMULATED_REDUCE(max, unsigned)
EMULATED_REDUCE(and, unsigned)
EMULATED_REDUCE(or, unsigned)
EMULATED_REDUCE(xor, unsigned)
#undef EMULATED_REDUCE
inline uint32_t __activemask() {
    return 1u << emulated::lane_id();
}

// ---- memory -------------------------------------------------------------------------------------

template <class T>
T __ldg(const T* pointer) {
    return *pointer;
}
template <class T>
T __ldcs(const T* pointer) {
    return *pointer;
}
template <class T>
T __ldcg(const T* pointer) {
    return *pointer;
}
template <class T>
void __stcs(T* pointer, T value) {
    *pointer = value;
}
template <class T>
void __stcg(T* pointer, T value) {
    *pointer = value;
}

// One thread runs at a time.
#define EMULATED_ATOMIC(NAME, NEW)                            \
    template <class T>                                        \
    T atomic##NAME(T* pointer, std::common_type_t<T> value) { \
        const T old = *pointer;                               \
        *pointer = static_cast<T>(NEW);                       \
        return old;                                           \
    }
EMULATED_ATOMIC(Add, old + value)
EMULATED_ATOMIC(Sub, old - value)
EMULATED_ATOMIC(Max, old < value ? value : old)
EMULATED_ATOMIC(Min, value < old ? value : old)
EMULATED_ATOMIC(Or, old | value)
EMULATED_ATOMIC(And, old& value)
EMULATED_ATOMIC(Xor, old ^ value)
EMULATED_ATOMIC(Exch, value)
EMULATED_ATOMIC(Inc, old >= value ? 0 : old + 1)
#undef EMULATED_ATOMIC
template <class T>
T atomicCAS(T* pointer, std::common_type_t<T> expected, std::common_type_t<T> value) {
    const T old = *pointer;
    if (old == expected) *pointer = value;
    return old;
}

// ---- integers -----------------------------------------------------------------------------------

template <class A, class B,
          class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using common = std::common_type_t<A, B>;
    const auto x = static_cast<common>(a), y = static_cast<common>(b);
    return x < y || y != y ? x : y;
}
template <class A, class B,
          class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using common = std::common_type_t<A, B>;
    const auto x = static_cast<common>(a), y = static_cast<common>(b);
    return x > y || y != y ? x : y;
}

inline int __popc(uint32_t x) {
    return __builtin_popcount(x);
}
inline int __popcll(uint64_t x) {
    return __builtin_popcountll(x);
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
inline int __clz(int x) {
    return x == 0 ? 32 : __builtin_clz(static_cast<uint32_t>(x));
}
inline int __clzll(long long x) {
    return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline uint32_t __brev(uint32_t x) {
    uint32_t y = 0;
    for (int i = 0; i < 32; ++i) y |= (x >> i & 1) << (31 - i);
    return y;
}
inline uint32_t __byte_perm(uint32_t x, uint32_t y, uint32_t selector) {
    const uint64_t both = uint64_t{y} << 32 | x;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) {
        const uint32_t which = selector >> (4 * i) & 15;
        uint32_t byte = static_cast<uint32_t>(both >> (8 * (which & 7))) & 0xff;
        if (which & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << (8 * i);
    }
    return result;
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift) {
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (shift & 31));
}
inline uint32_t __funnelshift_l(uint32_t low, uint32_t high, uint32_t shift) {
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
inline uint32_t __umulhi(uint32_t x, uint32_t y) {
    return static_cast<uint32_t>(uint64_t{x} * y >> 32);
}
inline int __mulhi(int x, int y) {
    return static_cast<int>(int64_t{x} * y >> 32);
}
inline uint64_t __umul64hi(uint64_t x, uint64_t y) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(x) * y >> 64);
}
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i)
        c += static_cast<int8_t>(a >> (8 * i)) * static_cast<int8_t>(b >> (8 * i));
    return c;
}

inline uint32_t __dp4a(uint32_t a, uint32_t b, uint32_t c) {
    for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 0xff) * (b >> (8 * i) & 0xff);
    return c;
}

// ---- floats -------------------------------------------------------------------------------------

#define EMULATED_BITS(NAME, FROM, TO)             \
    inline TO NAME(FROM value) {                  \
        TO result;                                \
        std::memcpy(&result, &value, sizeof(TO)); \
        return result;                            \
    }
EMULATED_BITS(__uint_as_float, uint32_t, float)
EMULATED_BITS(__int_as_float, int32_t, float)
EMULATED_BITS(__float_as_uint, float, uint32_t)
EMULATED_BITS(__float_as_int, float, int32_t)
EMULATED_BITS(__longlong_as_double, long long, double)
EMULATED_BITS(__double_as_longlong, double, long long)
#undef EMULATED_BITS

inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __fsub_rn(float a, float b) {
    return a - b;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
inline float __fsqrt_rn(float a) {
    return std::sqrt(a);
}
inline float __frcp_rn(float a) {
    return 1.0f / a;
}
inline double __dadd_rn(double a, double b) {
    return a + b;
}
inline double __dmul_rn(double a, double b) {
    return a * b;
}
inline double __ddiv_rn(double a, double b) {
    return a / b;
}
inline double __fma_rn(double a, double b, double c) {
    return std::fma(a, b, c);
}
// Approximations on a GPU; here as exact as the host's library.
inline float __expf(float x) {
    return std::exp(x);
}
inline float __logf(float x) {
    return std::log(x);
}
inline float __log2f(float x) {
    return std::log2(x);
}
inline float __fdividef(float a, float b) {
    return a / b;
}
inline float rsqrtf(float x) {
    return 1.0f / std::sqrt(x);
}

inline float __int2float_rn(int x) {
    return static_cast<float>(x);
}
inline float __uint2float_rn(unsigned x) {
    return static_cast<float>(x);
}
inline float __ll2float_rn(long long x) {
    return static_cast<float>(x);
}
inline double __ll2double_rn(long long x) {
    return static_cast<double>(x);
}

namespace emulated {

// To the nearest integer (halves to even) or towards 0; saturated, NaN becomes 0.
template <class Integer>
Integer to_integer(double x, bool nearest) {
    if (x != x) return 0;
    const double whole = nearest ? std::nearbyint(x) : std::trunc(x);
    if (whole <= static_cast<double>(std::numeric_limits<Integer>::min()))
        return std::numeric_limits<Integer>::min();
    if (whole >= static_cast<double>(std::numeric_limits<Integer>::max()))
        return std::numeric_limits<Integer>::max();
    return static_cast<Integer>(whole);
}

}  // namespace emulated

inline int __float2int_rn(float x) {
    return emulated::to_integer<int>(x, true);
}
inline int __float2int_rz(float x) {
    return emulated::to_integer<int>(x, false);
}
inline unsigned __float2uint_rn(float x) {
    return emulated::to_integer<unsigned>(x, true);
}
inline unsigned __float2uint_rz(float x) {
    return emulated::to_integer<unsigned>(x, false);
}
inline long long __float2ll_rn(float x) {
    return emulated::to_integer<long long>(x, true);
}
inline long long __double2ll_rn(double x) {
    return emulated::to_integer<long long>(x, true);
}
