// SPDX-License-Identifier: Apache-2.0
//
// KroneckerMM of one factor of fp16 or bf16 on Tensor Cores: X is read once, Y written once, and no
// pass permutes either.
//
// Computes  Y_il[j, n] = sum over k of W[i, j, k, l] * X_il[k, n] for all blocks i and residues l.
// Layout    A tile of X lies in shared memory as it does in global memory, in rows of units of 16
//           bytes (resident_format.hpp): batch first a row is a vector's c x residues, batch last
//           it is a k's vectors. W is packed in fragments of mma.sync.
// Mapping   blockIdx.x: tiles of vectors by (block i, group of residues, range of outputs). A block
//           keeps its part of W in shared memory, if that fits, and walks over tiles of vectors:
//           one is multiplied while the next one arrives. A warp takes 16 to 64 outputs of 8 to 64
//           vectors through all of c; what one 16-byte read brings of 8 residues (vectors) is
//           separated by one prmt a fragment word.
// Sums      fp32, in the order of k's packing.
// Shared    W's part + one or two tiles of rows x pitch, pitch such that the 8 lanes of a phase
//           meet different banks.
// Needs     sm_80; any alignment (units that are not aligned are gathered element by element).
// Bound     device memory: X + Y; X is read from L2 once a range of outputs.
// Source    Gonon, Zheng, Carrivain, Le, "Fast inference with Kronecker-sparse matrices" (2025),
//           for the pattern and its bound; residues parted in registers are our own.
#pragma once

#include "core/ops/kronecker_mm/cuda/sm80/resident_tile.cuh"

namespace magicube::kronecker_mm::sm80 {

struct fp16_operands {
    using storage = half;
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
        ptx::mma_fp16(d, a, b0, b1);
    }
    static __device__ __forceinline__ uint32_t pack(float first, float second) {
        return ptx::pack_fp16(first, second);
    }
};

struct bf16_operands {
    using storage = bfloat16;
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
        ptx::mma_bf16(d, a, b0, b1);
    }
    static __device__ __forceinline__ uint32_t pack(float first, float second) {
        return ptx::pack_bf16(first, second);
    }
};

__device__ __forceinline__ uint32_t low_halves(uint32_t x, uint32_t y) {
    return __byte_perm(x, y, 0x5410);
}
__device__ __forceinline__ uint32_t high_halves(uint32_t x, uint32_t y) {
    return __byte_perm(x, y, 0x7632);
}

__device__ __forceinline__ void load_words(uint32_t (&w)[4], uint32_t address) {
    const uint4 v = ptx::load_shared_v4(address);
    w[0] = v.x;
    w[1] = v.y;
    w[2] = v.z;
    w[3] = v.w;
}

// B's words of one step for 8 vectors (Kind 0: 64), one pair a part. `address` is that of the
// lane's vector (Kind 0: of its unit in row 0).
template <int Kind>
__device__ __forceinline__ void load_operand(uint32_t (&b)[tiling<Kind, 1, 1>::parts][2],
                                             uint32_t address, int step, int t, int pitch,
                                             int groups) {
    if constexpr (Kind == 0 || Kind == 8) {
        const int apart = Kind == 0 ? pitch : 16 * groups;  // bytes from k to k + 1
        uint32_t w[4][4];
#pragma unroll
        for (int s = 0; s < 4; ++s)
            load_words(w[s], address + static_cast<uint32_t>((step * 16 + t + 4 * s) * apart));
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            b[2 * r][0] = low_halves(w[0][r], w[1][r]);
            b[2 * r][1] = low_halves(w[2][r], w[3][r]);
            b[2 * r + 1][0] = high_halves(w[0][r], w[1][r]);
            b[2 * r + 1][1] = high_halves(w[2][r], w[3][r]);
        }
    } else if constexpr (Kind == 4) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t w[4];
            load_words(w, address + static_cast<uint32_t>((step * 8 + half * 4 + t) * 16));
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                b[2 * r][half] = low_halves(w[r], w[2 + r]);
                b[2 * r + 1][half] = high_halves(w[r], w[2 + r]);
            }
        }
    } else {
        uint32_t w[4];
        load_words(w, address + static_cast<uint32_t>((step * 4 + t) * 16));
        if constexpr (Kind == 2) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                b[0][half] = low_halves(w[2 * half], w[2 * half + 1]);
                b[1][half] = high_halves(w[2 * half], w[2 * half + 1]);
            }
        } else {
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                b[part][0] = w[2 * part];
                b[part][1] = w[2 * part + 1];
            }
        }
    }
}

template <class t>
using warp_sums = float[t::sums][t::high][t::wide][4];

// The sums of a warp, from output j and vector n on, l its first residue.
template <class Operands, class t, int Kind>
__device__ __forceinline__ void store_sums(const resident_arguments& args, const block_place& p,
                                           int64_t j, int64_t l, int64_t n,
                                           const warp_sums<t>& sums) {
    constexpr bool apart = t::by_vectors || Kind == 8;  // a unit is one output
    constexpr int units = apart ? 2 * t::high : 2 * t::sums * t::high / 8;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, q = static_cast<int>(threadIdx.x) % 4;
    j += t::j_at(0, g, 0);
    n += t::by_vectors ? 8 * q : 2 * q;
    const int64_t output_apart = args.shape.d * args.store.row_stride;
    auto* first_unit = unit_of<t>(args, p, j, l, n);
    const float alpha = args.store.alpha;
    const auto pack = [alpha](const float(&y)[8]) {
        const auto pair = [&](int e) {
            return Operands::pack(fma_rn(alpha, y[e], 0.0f), fma_rn(alpha, y[e + 1], 0.0f));
        };
        return make_uint4(pair(0), pair(2), pair(4), pair(6));
    };
#pragma unroll
    for (int w = 0; w < t::wide; ++w) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
#pragma unroll
            for (int u = 0; u < units; ++u) {
                unit_sums<t> unit;
                auto& y = unit.y;
#pragma unroll
                for (int x = 0; x < 8; ++x) {
                    if constexpr (apart) {
                        y[x] = sums[x][u / 2][w][u % 2 * 2 + e];
                    } else if constexpr (Kind == 4) {
                        y[x] = sums[x % 4][u][w][x / 4 * 2 + e];
                    } else if constexpr (Kind == 2) {
                        y[x] = sums[x % 2][x / 4][w][x / 2 % 2 * 2 + e];
                    } else {
                        y[x] = sums[0][x / 2][w][x % 2 * 2 + e];
                    }
                }
                const int output = t::j_at(apart ? u / 2 : u, 0, apart ? u % 2 : 0);
                const int vector = t::by_vectors ? 32 * e : 8 * w + e;
                store_unit<t>(args, p, j + output, l, n + vector,
                              first_unit + output * output_apart + vector * args.store.col_stride,
                              unit, pack);
            }
        }
    }
}

// By vectors: which of a warp's 8 units is mma's column g, such that the lanes that store side by
// side hold units side by side (columns 2 q of all q, then columns 2 q + 1).
__device__ __forceinline__ int unit_place(int g) {
    return g % 2 * 4 + g / 2;
}

// Where a warp's fragments of W lie, each 512 bytes, in the order of use.
template <bool Shared>
struct fragment_source {
    const uint4* global;
    uint32_t shared;

    __device__ __forceinline__ void load(uint32_t (&a)[4], int fragment) const {
        uint4 v;
        if constexpr (Shared) {
            v = ptx::load_shared_v4(shared + static_cast<uint32_t>(fragment * fragment_bytes));
        } else {
            v = __ldg(global + fragment * 32);
        }
        a[0] = v.x;
        a[1] = v.y;
        a[2] = v.z;
        a[3] = v.w;
    }
};

template <class t>
using step_weights = uint32_t[t::fragments][t::high][4];

template <class t, bool Shared>
__device__ __forceinline__ void load_step(const fragment_source<Shared>& w, int step,
                                          step_weights<t>& a) {
#pragma unroll
    for (int f = 0; f < t::fragments; ++f)
#pragma unroll
        for (int m = 0; m < t::high; ++m) w.load(a[f][m], (step * t::fragments + f) * t::high + m);
}

template <class Operands, class t, int Kind>
__device__ __forceinline__ void multiply_step(const resident_shape& s, uint32_t address, int step,
                                              const step_weights<t>& a, warp_sums<t>& sums) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < t::wide; ++n) {
        uint32_t b[t::parts][2];
        load_operand<Kind>(b, address + static_cast<uint32_t>(n * 8 * s.pitch), step, lane % 4,
                           s.pitch, s.groups);
#pragma unroll
        for (int part = 0; part < t::parts; ++part) {
#pragma unroll
            for (int m = 0; m < t::high; ++m) {
                Operands::mma(sums[part % t::sums][m][n], a[part % t::fragments][m], b[part][0],
                              b[part][1]);
            }
        }
    }
}

template <class Operands, class t, int Kind, bool Shared>
__device__ __forceinline__ void multiply(const resident_shape& s, const fragment_source<Shared>& w,
                                         uint32_t address, warp_sums<t>& sums) {
    // The fragments of a step are on their way while the one before is multiplied, where registers
    // are enough.
    if constexpr (t::sums * t::high * t::wide * 4 + 2 * t::fragments * t::high * 4 > 96) {
#pragma unroll 1
        for (int step = 0; step < s.steps; ++step) {
            step_weights<t> a;
            load_step<t>(w, step, a);
            multiply_step<Operands, t, Kind>(s, address, step, a, sums);
        }
    } else {
        step_weights<t> even, odd;
        load_step<t>(w, 0, even);
#pragma unroll 1
        for (int step = 0; step < s.steps; step += 2) {
            load_step<t>(w, min(step + 1, s.steps - 1), odd);
            multiply_step<Operands, t, Kind>(s, address, step, even, sums);
            if (step + 1 == s.steps) break;
            load_step<t>(w, min(step + 2, s.steps - 1), even);
            multiply_step<Operands, t, Kind>(s, address, step + 1, odd, sums);
        }
    }
}

template <class Operands, class t, int Kind, bool Shared>
__device__ __forceinline__ void multiply_fragments(const resident_arguments& args,
                                                   const block_place& p, uint32_t w, uint32_t x) {
    const auto& s = args.shape;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int row_blocks = s.rows / t::vectors;
    const int items = row_blocks * s.groups * p.output_blocks;
    const int set_fragments = s.steps * t::fragments * t::high;
    for (int item = warp; item < items; item += static_cast<int>(blockDim.x) / 32) {
        const int rows = item % row_blocks, rest = item / row_blocks;
        const int group = rest % s.groups, outputs = rest / s.groups;
        if (p.first_vector + rows * t::vectors >= args.vectors) continue;
        const int64_t l = p.l + group * t::residues;
        fragment_source<Shared> source{};
        if constexpr (Shared) {
            const int set = group * s.own_outputs + outputs;
            source.shared =
                w + static_cast<uint32_t>(set * set_fragments * fragment_bytes + lane * 16);
        } else {
            const int64_t set = (p.i * (s.d / t::residues) + l / t::residues) * s.output_blocks +
                                p.first_outputs + outputs;
            source.global = args.w + set * set_fragments * 32 + lane;
        }
        const int place = t::by_vectors ? (rows * 8 + unit_place(lane / 4)) * 16
                                        : (rows * t::vectors + lane / 4) * s.pitch + group * 16;
        warp_sums<t> sums = {};
        multiply<Operands, t, Kind, Shared>(s, source, x + static_cast<uint32_t>(place), sums);
        store_sums<Operands, t, Kind>(args, p, int64_t{p.first_outputs + outputs} * t::outputs, l,
                                      p.first_vector + rows * t::vectors, sums);
    }
}

template <class Operands, int Kind, int High, int Wide, bool Shared>
struct fragment_compute {
    using tiling_type = tiling<Kind, High, Wide>;
    static constexpr bool w_is_shared = Shared;

    static __device__ __forceinline__ void multiply_tile(const resident_arguments& args,
                                                         const block_place& p, uint32_t w,
                                                         uint32_t x) {
        multiply_fragments<Operands, tiling_type, Kind, Shared>(args, p, w, x);
    }
};

template <class Operands, int Kind, int High, int Wide, bool Shared>
constexpr resident_instance resident_instance_of = {
    Kind,
    High,
    Wide,
    Shared,
    load_resident<fragment_compute<Operands, Kind, High, Wide, Shared>>,
    launch_resident<fragment_compute<Operands, Kind, High, Wide, Shared>>};

#define MAGICUBE_RESIDENT(KIND, HIGH, WIDE)                  \
    resident_instance_of<operands, KIND, HIGH, WIDE, false>, \
        resident_instance_of<operands, KIND, HIGH, WIDE, true>,

}  // namespace magicube::kronecker_mm::sm80
