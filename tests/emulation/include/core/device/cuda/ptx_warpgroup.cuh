// SPDX-License-Identifier: Apache-2.0
// Takes the place of core/device/cuda/ptx_warpgroup.cuh.
#pragma once

#include <cstdint>

#include "emulation/warpgroup.hpp"

namespace magicube::ptx {

inline void barrier_arrive_after_copies(uint32_t barrier, EMULATED_SITE) {
    emulated::arrive_after_copies(barrier, at);
}

// ---- products of a warpgroup --------------------------------------------------------------------

inline void warpgroup_fence(EMULATED_SITE) {
    emulated::warpgroup_fence(at);
}
inline void warpgroup_commit(EMULATED_SITE) {
    emulated::warpgroup_commit(at);
}
template <int Pending>
void warpgroup_wait(EMULATED_SITE) {
    emulated::warpgroup_wait(Pending, at);
}

inline void fence_products() {}

#define EMULATED_WGMMA_SPARSE(NAME, TYPE)                                                         \
    inline void NAME(float(&d)[128], uint64_t a, uint64_t b, uint32_t metadata, bool adds,        \
                     EMULATED_SITE) {                                                             \
        emulated::warpgroup_product product{emulated::number::TYPE, emulated::number::TYPE, 256}; \
        product.a = a;                                                                            \
        product.b = b;                                                                            \
        product.b_across = true;                                                                  \
        product.adds = adds;                                                                      \
        product.sparse = true;                                                                    \
        product.metadata = metadata;                                                              \
        emulated::warpgroup_multiply(product, d, at);                                             \
    }
EMULATED_WGMMA_SPARSE(warpgroup_multiply_sparse_fp16, f16)
EMULATED_WGMMA_SPARSE(warpgroup_multiply_sparse_bf16, bf16)
#undef EMULATED_WGMMA_SPARSE

}  // namespace magicube::ptx
