// SPDX-License-Identifier: Apache-2.0
//
// Packs W[a][b][c][d] for the resident family.
//
// Computes  fragments [block i][group of residues][block of outputs][step of k][part][16 outputs],
//           each 32 lanes x 8 elements, zero beyond b and c (resident_format.hpp); of fp32
//           units in the place of fragments.
// Mapping   a thread gathers the 16 bytes of a lane.
// Shared    none. Any architecture; packed is aligned to 16 bytes.
#include "core/ops/kronecker_mm/cuda/sm80/resident_pack.hpp"

#include <algorithm>

#include "core/device/cuda/launch.cuh"

namespace magicube::kronecker_mm::sm80 {
namespace {

constexpr int pack_threads = 128;

struct pack_arguments {
    resident_shape shape;
    step s;
    const void* values;
    uint4* packed;
    int64_t lanes;  // of 16 bytes
};

template <int Kind, int High>
__global__ void __launch_bounds__(pack_threads)
    values_kernel(const __grid_constant__ pack_arguments args) {
    using t = tiling<Kind, High, 1>;
    const auto& shape = args.shape;
    for (int64_t at = int64_t{blockIdx.x} * pack_threads + threadIdx.x; at < args.lanes;
         at += int64_t{gridDim.x} * pack_threads) {
        const int lane = static_cast<int>(at % 32), g = lane / 4, q = lane % 4;
        int64_t rest = at / 32;
        const auto m = static_cast<int>(rest % t::high);
        rest /= t::high;
        const auto part = static_cast<int>(rest % t::fragments);
        rest /= t::fragments;
        const int64_t first_k = rest % shape.steps * t::k_step;
        rest /= shape.steps;
        const int64_t first_j = rest % shape.output_blocks * t::outputs;
        rest /= shape.output_blocks;
        const int64_t groups = shape.d / t::residues;
        const int64_t l = rest % groups * t::residues + (t::residues > 1 ? part : 0);
        const int64_t i = rest / groups;
        uint32_t words[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const int64_t j = first_j + t::j_at(m, g, w % 2);
            words[w] = 0;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int64_t k = first_k + t::k_at(part, q, w / 2 * 2 + half);
                if (j < shape.b && k < shape.c)
                    words[w] |= uint32_t{static_cast<const uint16_t*>(
                                    args.values)[args.s.index(i, j, k, l)]}
                                << 16 * half;
            }
        }
        args.packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

// Of fp32: 16 bytes are a unit of residues and k of one output, by vectors four outputs.
template <int Kind>
__global__ void __launch_bounds__(pack_threads)
    floats_kernel(const __grid_constant__ pack_arguments args) {
    using t = float_tiling<Kind>;
    const auto& shape = args.shape;
    constexpr int step_units = t::step_bytes / 16;
    for (int64_t at = int64_t{blockIdx.x} * pack_threads + threadIdx.x; at < args.lanes;
         at += int64_t{gridDim.x} * pack_threads) {
        const int unit = static_cast<int>(at % step_units);
        int64_t rest = at / step_units;
        const int64_t first_k = rest % shape.steps * t::k_step;
        rest /= shape.steps;
        const int64_t first_j = rest % shape.output_blocks * t::outputs;
        rest /= shape.output_blocks;
        const int64_t groups = shape.d / t::residues;
        const int64_t first_l = rest % groups * t::residues, i = rest / groups;
        uint32_t words[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int64_t j =
                first_j + (t::by_vectors ? unit * 4 + e
                                         : t::j_at(unit / t::output_lanes, unit % t::output_lanes));
            const int64_t k = first_k + (t::by_vectors ? 0 : e / t::residues);
            const int64_t l = first_l + (t::by_vectors ? 0 : e % t::residues);
            words[e] = 0;
            if (j < shape.b && k < shape.c)
                words[e] = static_cast<const uint32_t*>(args.values)[args.s.index(i, j, k, l)];
        }
        args.packed[at] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

using pack_kernel = void (*)(pack_arguments);

pack_kernel float_kernel_for(int kind) {
    switch (kind) {
        case 0:
            return floats_kernel<0>;
        case 1:
            return floats_kernel<1>;
        case 2:
            return floats_kernel<2>;
        default:
            return floats_kernel<4>;
    }
}

pack_kernel kernel_for(const resident_shape& shape) {
    if (shape.unit == 4) return float_kernel_for(shape.kind);
    switch (shape.kind) {
        case 0:
            return shape.high == 1 ? values_kernel<0, 1> : values_kernel<0, 2>;
        case 1:
            return values_kernel<1, 4>;
        case 2:
            return values_kernel<2, 2>;
        case 4:
            return values_kernel<4, 2>;
        default:
            return values_kernel<8, 1>;
    }
}

}  // namespace

cudaError_t load_pack_values(const resident_shape& shape) {
    return magicube::cuda::load_kernel(kernel_for(shape));
}

cudaError_t pack_values(const resident_shape& shape, const step& s, const void* values,
                        void* packed, cudaStream_t stream) {
    const int64_t lanes = packed_bytes(shape) / 16;
    const pack_arguments args{shape, s, values, static_cast<uint4*>(packed), lanes};
    const auto blocks =
        static_cast<unsigned>(std::min<int64_t>(ceil_div(lanes, int64_t{pack_threads}), 1 << 16));
    return magicube::cuda::launch_kernel(kernel_for(shape), {blocks, pack_threads, 0, stream},
                                         args);
}

}  // namespace magicube::kronecker_mm::sm80
