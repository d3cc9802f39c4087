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
// Source    Gonon, Zheng, Carrivain, Le, "Fast inference with Kronecker-sparse matrices" (2025), for
//           the pattern and its bound; the separation of residues in registers is our own.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/ptx.cuh"
#include "core/ops/kronecker_mm/cuda/sm80/resident_launch.hpp"
#include "core/ops/spmm/cuda/store.cuh"

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

// What a block owns, and the tile that it works on.
struct block_place {
    int64_t i;
    int64_t l;              // its first residue
    int32_t first_outputs;  // block of a warp's outputs
    int32_t output_blocks;  // of them
    int64_t first_vector;
    int64_t batch;

    __device__ __forceinline__ void move_to(const resident_arguments& args, int64_t tile) {
        batch = static_cast<uint32_t>(tile) / static_cast<uint32_t>(args.row_tiles);
        first_vector = (tile - batch * args.row_tiles) * args.shape.rows;
    }
};

template <class Tiling>
__device__ __forceinline__ block_place place_of(const resident_arguments& args, uint32_t part) {
    const auto& s = args.shape;
    const auto splits = static_cast<uint32_t>(s.splits);
    const auto residue_blocks =
        static_cast<uint32_t>(s.d) / static_cast<uint32_t>(Tiling::residues * s.groups);
    const uint32_t split = part % splits, block = part / splits;
    block_place p{};
    p.i = block / residue_blocks;
    p.l = int64_t{block % residue_blocks} * Tiling::residues * s.groups;
    p.first_outputs = static_cast<int32_t>(split) * s.own_outputs;
    p.output_blocks = min(s.own_outputs, s.output_blocks - p.first_outputs);
    return p;
}

// Element e of a unit, wherever it lies; 0 beyond the operand.
template <class t>
__device__ uint16_t gather_element(const resident_arguments& args, const block_place& p, int row,
                                   int unit, int e) {
    const auto& s = args.shape;
    int64_t k, l = p.l, n = p.first_vector;
    if constexpr (t::by_vectors) {
        k = row;
        n += unit * 8 + e;
    } else if constexpr (t::residues == 8) {
        k = unit / s.groups;
        l += unit % s.groups * 8 + e;
        n += row;
    } else {
        const int place = unit * 8 + e;
        k = place / t::residues;
        l += place % t::residues;
        n += row;
    }
    if (k >= s.c || n >= args.vectors) return 0;
    const int64_t feature = (p.i * s.c + k) * s.d + l;
    return static_cast<const uint16_t*>(
        args.x)[p.batch * args.x_batch_stride + feature * args.x_feature_stride +
                n * args.x_vector_stride];
}

// A column of units, in rows `row`, row + step and so on.
template <class t>
__device__ __forceinline__ void load_column(const resident_arguments& args, const block_place& p,
                                            int unit, int row, int step, uint32_t shared) {
    const auto& s = args.shape;
    int64_t feature = p.i * s.c * s.d + p.l;
    int64_t n = p.first_vector;
    int valid = 16;  // bytes
    if constexpr (t::by_vectors) {
        n += unit * 8;
        feature += row * s.d;
        valid = static_cast<int>(max(min(args.vectors - n, int64_t{8}), int64_t{0})) * 2;
    } else if constexpr (t::residues == 8) {
        const int k = s.groups == 2 ? unit >> 1 : unit;
        feature += k * s.d + (s.groups == 2 ? (unit & 1) * 8 : 0);
        if (k >= s.c) valid = 0;
    } else {
        feature += unit * 8;
        if (unit * (8 / t::residues) >= s.c) valid = 0;
    }
    if constexpr (!t::by_vectors) n += row;
    // Rows inside the operand: of k, or of vectors.
    const auto rows = static_cast<int>(
        min(t::by_vectors ? s.c : args.vectors - p.first_vector, int64_t{s.shared_rows}));
    const auto* from = static_cast<const uint16_t*>(args.x) + p.batch * args.x_batch_stride +
                       feature * args.x_feature_stride + n * args.x_vector_stride;
    const int64_t apart = step * (t::by_vectors ? s.d * args.x_feature_stride
                                                : args.x_vector_stride);
    uint32_t target = shared + static_cast<uint32_t>(row * s.pitch + unit * 16);
    for (; row < s.shared_rows; row += step) {
        const bool inside = row < rows && valid > 0;
        ptx::copy_async16(target, inside ? from : args.x, inside ? valid : 0);
        from += apart;
        target += static_cast<uint32_t>(step * s.pitch);
    }
}

template <class t>
__device__ __forceinline__ void load_tile(const resident_arguments& args, const block_place& p,
                                          uint32_t shared) {
    const auto& s = args.shape;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    // Threads side by side own units side by side.
    const bool narrow = s.units < threads;
    const int step = narrow ? threads / s.units : 1;
    const int row = narrow ? thread / s.units : 0;
    if (row >= step) return;
    for (int unit = thread - row * s.units; unit < s.units; unit += threads) {
        if (args.x_units) {
            load_column<t>(args, p, unit, row, step, shared);
            continue;
        }
        for (int r = row; r < s.shared_rows; r += step) {
            const uint32_t target = shared + static_cast<uint32_t>(r * s.pitch + unit * 16);
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                const uint32_t word =
                    gather_element<t>(args, p, r, unit, 2 * w) |
                    uint32_t{gather_element<t>(args, p, r, unit, 2 * w + 1)} << 16;
                ptx::store_shared_u32(target + 4 * w, word);
            }
        }
    }
}

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

// The block's part of W: [group][block of outputs], each all steps of k.
template <class Tiling>
__device__ __forceinline__ void load_weights(const resident_arguments& args, const block_place& p,
                                             uint32_t shared) {
    const auto& s = args.shape;
    const int64_t set_bytes = int64_t{s.steps} * Tiling::step_bytes;
    for (int group = 0; group < s.groups; ++group) {
        const int64_t set =
            (p.i * (s.d / Tiling::residues) + p.l / Tiling::residues + group) * s.output_blocks +
            p.first_outputs;
        const auto* from = reinterpret_cast<const uint8_t*>(args.w) + set * set_bytes;
        const int bytes = static_cast<int>(set_bytes) * p.output_blocks;
        const uint32_t target =
            shared + static_cast<uint32_t>(group * s.own_outputs * static_cast<int>(set_bytes));
        for (int at = static_cast<int>(threadIdx.x) * 16; at < bytes;
             at += static_cast<int>(blockDim.x) * 16)
            ptx::copy_async16(target + static_cast<uint32_t>(at), from + at, 16);
    }
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

// Eight sums that are a unit of Y: outputs and residues from (j, l) on for vector n, or vectors
// from n on.
template <class t>
__device__ __noinline__ void store_scaled(const resident_arguments& args, const block_place& p,
                                          int64_t j, int64_t l, int64_t n, float y0, float y1,
                                          float y2, float y3, float y4, float y5, float y6,
                                          float y7) {
    const auto& s = args.shape;
    const float y[8] = {y0, y1, y2, y3, y4, y5, y6, y7};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
        const int64_t j_of = j + (t::by_vectors ? 0 : e / t::residues);
        if (j_of >= s.b) continue;
        const int64_t feature =
            (p.i * s.b + j_of) * s.d + l + (t::by_vectors ? 0 : e % t::residues);
        spmm::cuda::store_one(args.store, p.batch, feature, n + (t::by_vectors ? e : 0), y[e]);
    }
}

// The same where Y holds units and the epilogue is a factor.
template <class Operands>
__device__ __forceinline__ void store_unit(uint16_t* target, float alpha, const float (&y)[8]) {
    uint4 words;
    const auto pair = [&](int e) {
        return Operands::pack(fma_rn(alpha, y[e], 0.0f), fma_rn(alpha, y[e + 1], 0.0f));
    };
    words.x = pair(0);
    words.y = pair(2);
    words.z = pair(4);
    words.w = pair(6);
    *reinterpret_cast<uint4*>(target) = words;
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
    const auto& s = args.shape;
    j += t::j_at(0, g, 0);
    n += t::by_vectors ? 16 * q : 2 * q;
    const auto& y_at = args.store;
    const int64_t output_apart = s.d * y_at.row_stride;
    auto* first_unit = static_cast<uint16_t*>(y_at.c) + p.batch * y_at.batch_stride +
                       (p.i * s.b * s.d + l) * y_at.row_stride + j * output_apart +
                       n * y_at.col_stride;
    const bool direct = args.y_units && !args.scaled;
#pragma unroll
    for (int w = 0; w < t::wide; ++w) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
#pragma unroll
            for (int u = 0; u < units; ++u) {
                float y[8];
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
                const int vector = t::by_vectors ? 8 * e : 8 * w + e;
                if (j + output >= s.b || n + vector >= args.vectors) continue;
                const bool whole = t::by_vectors ? n + vector + 8 <= args.vectors
                                                 : j + output + 8 / t::residues <= s.b;
                if (direct && whole) {
                    store_unit<Operands>(
                        first_unit + output * output_apart + vector * y_at.col_stride, y_at.alpha,
                        y);
                } else {
                    store_scaled<t>(args, p, j + output, l, n + vector, y[0], y[1], y[2], y[3],
                                    y[4], y[5], y[6], y[7]);
                }
            }
        }
    }
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
    __device__ __forceinline__ void advance(int fragments) {
        global += fragments * 32;
        shared += static_cast<uint32_t>(fragments * fragment_bytes);
    }
};

template <class Operands, class t, int Kind, bool Shared>
__device__ __forceinline__ void multiply(const resident_shape& s, fragment_source<Shared> w,
                                         uint32_t address, warp_sums<t>& sums) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int step = 0; step < s.steps; ++step) {
        uint32_t a[t::fragments][t::high][4];
#pragma unroll
        for (int f = 0; f < t::fragments; ++f)
#pragma unroll
            for (int m = 0; m < t::high; ++m) w.load(a[f][m], f * t::high + m);
        w.advance(t::fragments * t::high);
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
}

template <class Operands, class t, int Kind, bool Shared>
__device__ __forceinline__ void multiply_tile(const resident_arguments& args, const block_place& p,
                                              uint32_t w, uint32_t x) {
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
        const int place = t::by_vectors ? (rows * 8 + lane / 4) * 16
                                        : (rows * t::vectors + lane / 4) * s.pitch + group * 16;
        warp_sums<t> sums = {};
        multiply<Operands, t, Kind, Shared>(s, source, x + static_cast<uint32_t>(place), sums);
        store_sums<Operands, t, Kind>(args, p, int64_t{p.first_outputs + outputs} * t::outputs, l,
                                      p.first_vector + rows * t::vectors, sums);
    }
}

template <class Operands, int Kind, int High, int Wide, bool Shared>
__global__ void __launch_bounds__(most_threads, 1)
    resident_kernel(const __grid_constant__ resident_arguments args) {
    using t = tiling<Kind, High, Wide>;
    MAGICUBE_DYNAMIC_SHARED(uint8_t, memory, 128);
    const auto& s = args.shape;
    const auto parts = static_cast<uint32_t>(s.parts());
    const uint32_t walkers = gridDim.x / parts;
    const uint32_t w = ptx::shared_address(memory);
    const uint32_t tile_bytes = static_cast<uint32_t>(s.shared_rows * s.pitch);
    const uint32_t first = w + static_cast<uint32_t>(s.w_bytes);
    block_place p = place_of<t>(args, blockIdx.x % parts);
    if constexpr (Shared) load_weights<t>(args, p, w);
    int64_t tile = blockIdx.x / parts;
    p.move_to(args, tile);
    load_tile<t>(args, p, first);
    ptx::commit_copies();
    for (uint32_t turn = 0; tile < args.tiles; ++turn, tile += walkers) {
        const bool more = tile + walkers < args.tiles;
        const uint32_t x = first + (s.buffers == 2 ? turn % 2 * tile_bytes : 0);
        block_place next = p;
        if (more) next.move_to(args, tile + walkers);
        if (s.buffers == 2) {
            if (more) load_tile<t>(args, next, first + (turn + 1) % 2 * tile_bytes);
            ptx::commit_copies();
            ptx::wait_copies<1>();
        } else {
            ptx::wait_copies<0>();
        }
        __syncthreads();
        multiply_tile<Operands, t, Kind, Shared>(args, p, w, x);
        __syncthreads();
        if (s.buffers == 1 && more) {
            load_tile<t>(args, next, first);
            ptx::commit_copies();
        }
        p = next;
    }
}

template <class Operands, int Kind, int High, int Wide, bool Shared>
cudaError_t load_resident(int shared_bytes) {
    return cudaFuncSetAttribute(resident_kernel<Operands, Kind, High, Wide, Shared>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

template <class Operands, int Kind, int High, int Wide, bool Shared>
cudaError_t launch_resident(const resident_arguments& args, dim3 grid, cudaStream_t stream) {
    return magicube::cuda::launch_kernel(
        resident_kernel<Operands, Kind, High, Wide, Shared>,
        {grid, static_cast<unsigned>(args.shape.threads),
         static_cast<size_t>(args.shape.shared_bytes()), stream},
        args);
}

template <class Operands, int Kind, int High, int Wide, bool Shared>
constexpr resident_instance resident_instance_of = {
    Kind,
    High,
    Wide,
    Shared,
    load_resident<Operands, Kind, High, Wide, Shared>,
    launch_resident<Operands, Kind, High, Wide, Shared>};

#define MAGICUBE_RESIDENT(KIND, HIGH, WIDE)                  \
    resident_instance_of<operands, KIND, HIGH, WIDE, false>, \
        resident_instance_of<operands, KIND, HIGH, WIDE, true>,

}  // namespace magicube::kronecker_mm::sm80
