// SPDX-License-Identifier: Apache-2.0
// The instances of the slab kernel, one row each: MAGICUBE_SLAB(operands, bundles, sets, planes).
// The files slab_*.cu compile them, slab_plan.cu picks one.
//
// operands  s8: signed 8-bit values, s8n: the same for tiles of 64 columns; u8: unsigned; s8u8: a
//           high plane and a low one; e4m3, fp16, bf16
// bundles   of 8 rows a warp; sets of values that share a bundle's gathers; whether sets are byte
//           planes
#define MAGICUBE_SLABS_INT8(ROW) \
    ROW(s8, 2, 1, false)         \
    ROW(s8, 1, 1, false)         \
    ROW(s8, 1, 2, false)         \
    ROW(s8n, 2, 1, false)        \
    ROW(s8n, 1, 1, false)        \
    ROW(s8n, 1, 2, false)        \
    ROW(u8, 2, 1, false)         \
    ROW(u8, 1, 1, false)         \
    ROW(u8, 1, 2, false)         \
    ROW(s8u8, 1, 2, true)
#define MAGICUBE_SLABS_E4M3(ROW) \
    ROW(e4m3, 2, 1, false)       \
    ROW(e4m3, 1, 1, false)       \
    ROW(e4m3, 1, 2, false)
#define MAGICUBE_SLABS_FP16(ROW) \
    ROW(fp16, 2, 1, false)       \
    ROW(fp16, 1, 1, false)       \
    ROW(fp16, 1, 2, false)
#define MAGICUBE_SLABS_BF16(ROW) \
    ROW(bf16, 2, 1, false)       \
    ROW(bf16, 1, 1, false)       \
    ROW(bf16, 1, 2, false)
#define MAGICUBE_SLABS(ROW)  \
    MAGICUBE_SLABS_INT8(ROW) \
    MAGICUBE_SLABS_E4M3(ROW) \
    MAGICUBE_SLABS_FP16(ROW) \
    MAGICUBE_SLABS_BF16(ROW)
