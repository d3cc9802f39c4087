// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cpu/simd_kernels.hpp"

namespace magicube::spmm::cpu {

const simd_kernels& kernels_of(simd_level level) {
#if defined(__x86_64__)
    if (level == simd_level::amx_int8) return amx_int8_kernels;
    if (level == simd_level::avx512_vnni) return avx512_vnni_kernels;
    if (level == simd_level::avx2) return avx2_kernels;
#endif
    static_cast<void>(level);
    return portable_kernels;
}

}  // namespace magicube::spmm::cpu
