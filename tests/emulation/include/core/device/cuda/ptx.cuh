// SPDX-License-Identifier: Apache-2.0
// Takes the place of core/device/cuda/ptx.cuh: the same functions, on the emulated device.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "core/types/floats.hpp"
#include "emulation/matrix.hpp"

namespace magicube::ptx {

inline uint32_t shared_address(const void* pointer) {
    return emulated::shared_address(pointer);
}

// ---- shared memory -----------------------------------------------------------------------------

namespace detail {
template <class T>
T load(uint32_t address, emulated::site at) {
    T value;
    std::memcpy(&value, emulated::shared_pointer(address, sizeof(T), sizeof(T), at), sizeof(T));
    return value;
}
template <class T>
void store(uint32_t address, T value, emulated::site at) {
    std::memcpy(emulated::shared_pointer(address, sizeof(T), sizeof(T), at), &value, sizeof(T));
}
}  // namespace detail

inline int32_t load_shared_s16(uint32_t address, EMULATED_SITE) {
    return detail::load<int16_t>(address, at);
}
inline uint32_t load_shared_u32(uint32_t address, EMULATED_SITE) {
    return detail::load<uint32_t>(address, at);
}
template <int Bytes>
uint32_t load_shared(uint32_t address, EMULATED_SITE) {
    if constexpr (Bytes == 4) return detail::load<uint32_t>(address, at);
    if constexpr (Bytes == 2) return detail::load<uint16_t>(address, at);
    return detail::load<uint8_t>(address, at);
}
inline uint2 load_shared_v2(uint32_t address, EMULATED_SITE) {
    return detail::load<uint2>(address, at);
}
inline uint4 load_shared_v4(uint32_t address, EMULATED_SITE) {
    return detail::load<uint4>(address, at);
}
inline void store_shared_zero16(uint32_t address, EMULATED_SITE) {
    detail::store(address, uint4{}, at);
}
inline void store_shared_u8(uint32_t address, uint32_t value, EMULATED_SITE) {
    detail::store(address, static_cast<uint8_t>(value), at);
}
inline void store_shared_u16(uint32_t address, uint32_t value, EMULATED_SITE) {
    detail::store(address, static_cast<uint16_t>(value), at);
}
inline void store_shared_u32(uint32_t address, uint32_t value, EMULATED_SITE) {
    detail::store(address, value, at);
}

inline void store_shared_v2(uint32_t address, uint2 value, EMULATED_SITE) {
    detail::store(address, value, at);
}

// ---- asynchronous copies ------------------------------------------------------------------------

inline void copy_async16(uint32_t target, const void* source, uint32_t bytes, EMULATED_SITE) {
    emulated::copy_async(target, source, 16, bytes, at);
}
template <int Bytes>
void copy_async(uint32_t target, const void* source, EMULATED_SITE) {
    emulated::copy_async(target, source, Bytes, Bytes, at);
}
inline void commit_copies() {
    emulated::commit_copies();
}
template <int Pending>
void wait_copies() {
    emulated::wait_copies(Pending);
}
inline void prefetch(const void*) {}

// ---- mbarrier -----------------------------------------------------------------------------------

inline void barrier_init(uint32_t barrier, int arrivals, EMULATED_SITE) {
    emulated::mbarrier_init(barrier, arrivals, at);
}
inline void fence_barrier_init() {}
inline void barrier_wait(uint32_t barrier, uint32_t parity, EMULATED_SITE) {
    emulated::mbarrier_wait(barrier, parity, at);
}
inline void barrier_arrive(uint32_t barrier, EMULATED_SITE) {
    emulated::mbarrier_arrive(barrier, 1, at);
}
inline void barrier_expect(uint32_t barrier, uint32_t bytes, EMULATED_SITE) {
    emulated::mbarrier_expect(barrier, bytes, at);
    emulated::mbarrier_arrive(barrier, 1, at);
}

// ---- bulk copies --------------------------------------------------------------------------------

inline void copy_bulk(uint32_t target, const void* source, uint32_t bytes, uint32_t barrier,
                      EMULATED_SITE) {
    emulated::copy_bulk(target, source, bytes, barrier, at);
}
inline void copy_tile(uint32_t target, const CUtensorMap* map, int x, int y, int z,
                      uint32_t barrier, EMULATED_SITE) {
    const int coordinates[] = {x, y, z};
    emulated::copy_tile(target, map, coordinates, 3, barrier, at);
}

inline void copy_tile(uint32_t target, const CUtensorMap* map, int x, int y, int z, int w,
                      uint32_t barrier, EMULATED_SITE) {
    const int coordinates[] = {x, y, z, w};
    emulated::copy_tile(target, map, coordinates, 4, barrier, at);
}
inline void store_tile(const CUtensorMap* map, int x, int y, int z, uint32_t source,
                       EMULATED_SITE) {
    const int coordinates[] = {x, y, z};
    emulated::copy_tile_to_global(map, coordinates, 3, source, at);
}
inline void commit_bulk() {
    emulated::commit_bulk();
}
template <int Pending>
void wait_bulk_reads() {
    emulated::wait_bulk(Pending);
}
inline void fence_bulk_reads() {}

// ---- order between kernels: they run one after the other ----------------------------------------

inline void launch_dependents() {}
inline void wait_for_prerequisites() {}

// ---- registers and matrices ---------------------------------------------------------------------

template <int Count>
void give_registers(EMULATED_SITE) {
    static_assert(Count >= 24 && Count <= 256 && Count % 8 == 0);
    emulated::collective(~0u, "setmaxnreg.dec", nullptr, nullptr, at);
}
template <int Count>
void take_registers(EMULATED_SITE) {
    static_assert(Count >= 24 && Count <= 256 && Count % 8 == 0);
    emulated::collective(~0u, "setmaxnreg.inc", nullptr, nullptr, at);
}

inline void load_matrices_transposed(uint32_t (&r)[4], uint32_t address, EMULATED_SITE) {
    emulated::load_matrices(r, 4, true, address, at);
}

inline void load_matrices(uint32_t (&r)[4], uint32_t address, EMULATED_SITE) {
    emulated::load_matrices(r, 4, false, address, at);
}

inline uint32_t transpose_matrix(uint32_t elements, EMULATED_SITE) {
    return emulated::transpose_matrix(elements, at);
}

constexpr float float_of_integers = 12582912.0f;

inline float exp2_fast(float x) {
    const float y = std::exp2(x);
    return y < std::numeric_limits<float>::min() ? 0.0f : y;
}
inline uint32_t pack_fp16(float first, float second) {
    return half(first).bits | uint32_t{half(second).bits} << 16;
}
inline uint32_t pack_bf16(float first, float second) {
    return bfloat16(first).bits | uint32_t{bfloat16(second).bits} << 16;
}

#define EMULATED_MMA(NAME, A, B, ACCUMULATOR)                                             \
    inline void NAME(ACCUMULATOR(&d)[4], const uint32_t(&a)[4], uint32_t b0, uint32_t b1, \
                     EMULATED_SITE) {                                                     \
        const uint32_t b[] = {b0, b1};                                                    \
        emulated::multiply(emulated::number::A, emulated::number::B, 2, d, a, b, at);     \
    }
EMULATED_MMA(mma_s8_s8, s8, s8, int32_t)
EMULATED_MMA(mma_s8_u8, s8, u8, int32_t)
EMULATED_MMA(mma_u8_s8, u8, s8, int32_t)
EMULATED_MMA(mma_u8_u8, u8, u8, int32_t)
EMULATED_MMA(mma_s4_s4, s4, s4, int32_t)
EMULATED_MMA(mma_e4m3, e4m3, e4m3, float)
EMULATED_MMA(mma_fp16, f16, f16, float)
EMULATED_MMA(mma_bf16, bf16, bf16, float)
#undef EMULATED_MMA

inline void mma_s8_s8_k16(int32_t (&d)[4], uint32_t a0, uint32_t a1, uint32_t b0, EMULATED_SITE) {
    const uint32_t a[] = {a0, a1, 0, 0}, b[] = {b0, 0};
    emulated::multiply(emulated::number::s8, emulated::number::s8, 1, d, a, b, at);
}

#define EMULATED_MMA_SPARSE(NAME, TYPE, SELECTOR, ACCUMULATOR)                             \
    inline void NAME(ACCUMULATOR(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[4],     \
                     uint32_t metadata, EMULATED_SITE) {                                   \
        emulated::multiply_sparse(emulated::number::TYPE, emulated::number::TYPE, d, a, b, \
                                  metadata, SELECTOR, at);                                 \
    }
EMULATED_MMA_SPARSE(mma_sparse_s8, s8, 0, int32_t)
EMULATED_MMA_SPARSE(mma_sparse_e4m3, e4m3, 0, float)
template <int Selector>
EMULATED_MMA_SPARSE(mma_sparse_fp16, f16, Selector, float)
template <int Selector>
EMULATED_MMA_SPARSE(mma_sparse_bf16, bf16, Selector, float)
#undef EMULATED_MMA_SPARSE

}  // namespace magicube::ptx
