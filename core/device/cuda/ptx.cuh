// SPDX-License-Identifier: Apache-2.0
// The PTX instructions that kernels use, one function each. Addresses of shared memory are 32 bits.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace magicube::ptx {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- shared memory -----------------------------------------------------------------------------

__device__ __forceinline__ int32_t load_shared_s16(uint32_t address) {
    int16_t value;
    asm volatile("ld.shared.s16 %0, [%1];" : "=h"(value) : "r"(address));
    return value;
}

__device__ __forceinline__ uint2 load_shared_v2(uint32_t address) {
    uint2 value;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(address));
    return value;
}

__device__ __forceinline__ uint4 load_shared_v4(uint32_t address) {
    uint4 value;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(address));
    return value;
}

__device__ __forceinline__ void store_shared_zero16(uint32_t address) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

__device__ __forceinline__ uint32_t load_shared_u32(uint32_t address) {
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
    return value;
}

// One, two or four bytes, in the low ones of the result.
template <int Bytes>
__device__ __forceinline__ uint32_t load_shared(uint32_t address) {
    uint32_t value;
    if constexpr (Bytes == 4) {
        value = load_shared_u32(address);
    } else if constexpr (Bytes == 2) {
        asm volatile("ld.shared.u16 %0, [%1];" : "=r"(value) : "r"(address));
    } else {
        asm volatile("ld.shared.u8 %0, [%1];" : "=r"(value) : "r"(address));
    }
    return value;
}

__device__ __forceinline__ void store_shared_u8(uint32_t address, uint32_t value) {
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_shared_u16(uint32_t address, uint32_t value) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(static_cast<uint16_t>(value))
                 : "memory");
}

__device__ __forceinline__ void store_shared_u32(uint32_t address, uint32_t value) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ __forceinline__ void store_shared_v2(uint32_t address, uint2 value) {
    asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(value.x), "r"(value.y)
                 : "memory");
}

// ---- asynchronous copies (sm_80) ---------------------------------------------------------------

// 16 bytes, of which the first `bytes` are read and the others become 0. Passes L1 by.
__device__ __forceinline__ void copy_async16(uint32_t target, const void* source, uint32_t bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
                 "r"(bytes)
                 : "memory");
}

// Copies 4, 8 or 16 bytes; 16 go past L1. L2 gets the whole line.
template <int Bytes>
__device__ __forceinline__ void copy_async(uint32_t target, const void* source) {
    if constexpr (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(target), "l"(source)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2;" ::"r"(target),
                     "l"(source), "n"(Bytes)
                     : "memory");
    }
}

__device__ __forceinline__ void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `Pending` of this thread's groups are under way.
template <int Pending>
__device__ __forceinline__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// Has L2 fetch the line.
__device__ __forceinline__ void prefetch(const void* global) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
}

// ---- mbarrier ----------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async;" ::: "memory");
}

// Waits until the phase with this parity has completed.
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n\t"
        ".reg .pred done;\n\t"
        "again:\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
        "@done bra ready;\n\t"
        "bra again;\n\t"
        "ready:\n\t"
        "}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and has the phase wait for so many bytes of copies.
__device__ __forceinline__ void barrier_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

// ---- bulk copies (sm_90) -----------------------------------------------------------------------

// bytes is a multiple of 16; both addresses are aligned to 16.
__device__ __forceinline__ void copy_bulk(uint32_t target, const void* source, uint32_t bytes,
                                          uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(target),
        "l"(source), "r"(bytes), "r"(barrier)
        : "memory");
}

__device__ __forceinline__ void copy_tile(uint32_t target, const CUtensorMap* map, int x, int y,
                                          int z, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(target),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
        : "memory");
}

__device__ __forceinline__ void copy_tile(uint32_t target, const CUtensorMap* map, int x, int y,
                                          int z, int w, uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(target),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
        : "memory");
}

// From shared memory to the tile at (x, y, z), as one of this thread's bulk copies.
__device__ __forceinline__ void store_tile(const CUtensorMap* map, int x, int y, int z,
                                           uint32_t source) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
            map),
        "r"(source), "r"(x), "r"(y), "r"(z)
        : "memory");
}

__device__ __forceinline__ void commit_bulk() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most `Pending` of this thread's groups of bulk copies still read shared memory.
template <int Pending>
__device__ __forceinline__ void wait_bulk_reads() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

// Lets bulk copies see what this thread has written to shared memory.
__device__ __forceinline__ void fence_bulk_reads() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- order between kernels (sm_90) --------------------------------------------------------------

// Lets the next kernel of the stream start, if it was launched to overlap this one; what it reads
// of this kernel's results it must wait for.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Waits until the kernels before have ended and their results can be read.
__device__ __forceinline__ void wait_for_prerequisites() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ---- registers and matrices --------------------------------------------------------------------

template <int Count>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

template <int Count>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

// Four 8x8 matrices of 16-bit elements, transposed; lane l names row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

// Four 8x8 matrices of 16-bit elements as they lie; lane l names row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address));
}

// Transposes an 8x8 matrix of 16-bit elements, two of a row a lane.
__device__ __forceinline__ uint32_t transpose_matrix(uint32_t elements) {
    uint32_t transposed;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                 : "=r"(transposed)
                 : "r"(elements));
    return transposed;
}

// Integers below 2^22 in magnitude, added to the bits of this float, are added to the float.
constexpr float float_of_integers = 12582912.0f;

// 2^x within 2 units in the last place; subnormal results are 0.
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two numbers rounded to 16 bits, the first in the low half.
__device__ __forceinline__ uint32_t pack_fp16(float first, float second) {
    uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
    return packed;
}

__device__ __forceinline__ uint32_t pack_bf16(float first, float second) {
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
    return packed;
}

#define MAGICUBE_MMA_K32(NAME, SHAPE_TYPES, ACCUMULATOR, CONSTRAINT)                             \
    __device__ __forceinline__ void NAME(ACCUMULATOR(&d)[4], const uint32_t(&a)[4], uint32_t b0, \
                                         uint32_t b1) {                                          \
        asm volatile("mma.sync.aligned." SHAPE_TYPES                                             \
                     " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"          \
                     : CONSTRAINT(d[0]), CONSTRAINT(d[1]), CONSTRAINT(d[2]), CONSTRAINT(d[3])    \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));            \
    }
MAGICUBE_MMA_K32(mma_s8_s8, "m16n8k32.row.col.s32.s8.s8.s32", int32_t, "+r")
MAGICUBE_MMA_K32(mma_s8_u8, "m16n8k32.row.col.s32.s8.u8.s32", int32_t, "+r")
MAGICUBE_MMA_K32(mma_u8_s8, "m16n8k32.row.col.s32.u8.s8.s32", int32_t, "+r")
MAGICUBE_MMA_K32(mma_u8_u8, "m16n8k32.row.col.s32.u8.u8.s32", int32_t, "+r")
MAGICUBE_MMA_K32(mma_s4_s4, "m16n8k64.row.col.s32.s4.s4.s32", int32_t, "+r")
MAGICUBE_MMA_K32(mma_e4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32", float, "+f")
MAGICUBE_MMA_K32(mma_fp16, "m16n8k16.row.col.f32.f16.f16.f32", float, "+f")
MAGICUBE_MMA_K32(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32", float, "+f")
#undef MAGICUBE_MMA_K32

// 16 deep: half as much as mma_s8_s8, of the first two registers of its A and the first of its B.
__device__ __forceinline__ void mma_s8_s8_k16(int32_t (&d)[4], uint32_t a0, uint32_t a1,
                                              uint32_t b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
}

// Sparse A: of each group of 4 rows of B, a row of A has two, whose positions metadata holds, 4
// bits a group. Bytes: lane g * 4 + t gives those of row g + t % 2 * 8, groups t / 2 * 8 and on.
#define MAGICUBE_MMA_SPARSE(NAME, SHAPE_TYPES, SELECTOR, ACCUMULATOR, CONSTRAINT)             \
    __device__ __forceinline__ void NAME(ACCUMULATOR(&d)[4], const uint32_t(&a)[4],           \
                                         const uint32_t(&b)[4], uint32_t metadata) {          \
        asm volatile("mma.sp::ordered_metadata.sync.aligned." SHAPE_TYPES                     \
                     " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11},"               \
                     " {%0, %1, %2, %3}, %12, %13;"                                           \
                     : CONSTRAINT(d[0]), CONSTRAINT(d[1]), CONSTRAINT(d[2]), CONSTRAINT(d[3]) \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),      \
                       "r"(b[2]), "r"(b[3]), "r"(metadata), "n"(SELECTOR));                   \
    }
MAGICUBE_MMA_SPARSE(mma_sparse_s8, "m16n8k64.row.col.s32.s8.s8.s32", 0, int32_t, "+r")
MAGICUBE_MMA_SPARSE(mma_sparse_e4m3, "m16n8k64.row.col.f32.e4m3.e4m3.f32", 0, float, "+f")
// For 16-bit operands lanes t = 0 and 1 of each four (selector 0), or t = 2 and 3, give those of
// four groups in row g (low half) and row g + 8.
template <int Selector>
MAGICUBE_MMA_SPARSE(mma_sparse_fp16, "m16n8k32.row.col.f32.f16.f16.f32", Selector, float, "+f")
template <int Selector>
MAGICUBE_MMA_SPARSE(mma_sparse_bf16, "m16n8k32.row.col.f32.bf16.bf16.f32", Selector, float, "+f")
#undef MAGICUBE_MMA_SPARSE

}  // namespace magicube::ptx
