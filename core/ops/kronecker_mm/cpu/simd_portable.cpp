// SPDX-License-Identifier: Apache-2.0
// KroneckerMM's cpu_simd with what every processor has: vectors of 16 bytes that the compiler maps
// to what there is.
#include "core/ops/kronecker_mm/cpu/simd_kernels.hpp"

namespace magicube::kronecker_mm::cpu {
namespace {

#define MAGICUBE_SIMD

typedef float four_floats __attribute__((vector_size(16)));

struct lanes {
    using vector = four_floats;
    static constexpr int64_t width = 4;
    static constexpr int vectors = 2;

    static vector zero() { return vector{}; }
    static vector load(const float* from) {
        vector v;
        std::memcpy(&v, from, sizeof(v));
        return v;
    }
    static void store(float* to, vector v) { std::memcpy(to, &v, sizeof(v)); }
    static vector spread(float x) { return vector{x, x, x, x}; }
    static vector multiply_add(vector a, vector b, vector c) { return a * b + c; }
    template <int64_t Period>
    static vector repeat(const float* from) {
        static_assert(Period == 2);
        return vector{from[0], from[1], from[0], from[1]};
    }
};

#include "core/ops/kronecker_mm/cpu/simd_kernels.inc"

}  // namespace

const simd_kernels portable_kernels = {"portable", lanes::width, select_multiply, select_finish,
                                       select_load};

const simd_kernels& kernels_of(simd_level level) {
#if defined(__x86_64__)
    if (level >= simd_level::avx512_vnni) return avx512_kernels;
    if (level == simd_level::avx2) return avx2_kernels;
#endif
    static_cast<void>(level);
    return portable_kernels;
}

}  // namespace magicube::kronecker_mm::cpu
