// SPDX-License-Identifier: Apache-2.0
#include "core/ops/cpu/row_kernels.hpp"

namespace magicube {

const row_kernels& rows_of(simd_level level) {
#if defined(__x86_64__)
    if (level >= simd_level::avx512_vnni) return avx512_vnni_rows;
    if (level == simd_level::avx2) return avx2_rows;
#endif
    static_cast<void>(level);
    return portable_rows;
}

}  // namespace magicube
