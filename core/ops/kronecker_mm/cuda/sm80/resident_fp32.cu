// SPDX-License-Identifier: Apache-2.0
//
// KroneckerMM of one factor of fp32, exactly so: X is read once, Y written once, and no pass
// permutes either.
//
// Computes  Y_il[j, n] = sum over k of W[i, j, k, l] * X_il[k, n] for all blocks i and residues l.
// Layout    X's tile as in resident_kernel.cuh; W is packed [step][outputs of a warp] in units like
//           those of X (float_tiling), by vectors as single numbers.
// Mapping   that of resident_kernel.cuh. A thread holds 64 sums: every unit of X that it
//           reads meets all units of W that it holds, element by element.
// Sums      fma in the order of k.
// Shared    W's part + one or two tiles of rows x pitch; lanes read neighbouring units or the same.
// Needs     sm_80; any alignment.
// Bound     device memory, or fp32 fma (59 TFLOP/s of an H200) from bc / (b + c) = 28 on.
// Source    our own.
#include "core/ops/kronecker_mm/cuda/sm80/resident_tile.cuh"

namespace magicube::kronecker_mm::sm80 {
namespace {

__device__ __forceinline__ void load_floats(float (&f)[4], uint32_t address) {
    const uint4 v = ptx::load_shared_v4(address);
    f[0] = __uint_as_float(v.x);
    f[1] = __uint_as_float(v.y);
    f[2] = __uint_as_float(v.z);
    f[3] = __uint_as_float(v.w);
}

// Of a thread, as units of Y: [vector][unit], by vectors [output][unit].
template <class t>
using thread_sums = float[16][4];

// x: the address of the thread's first unit, w: of its first output.
template <class t>
__device__ __forceinline__ void multiply_residues(const resident_shape& s, uint32_t w, uint32_t x,
                                                  thread_sums<t>& sums) {
    constexpr int units = 16 / t::own_vectors;                          // of Y, a vector
    [[maybe_unused]] constexpr int at_once = t::residues == 1 ? 1 : 2;  // steps
    const auto row = static_cast<uint32_t>(t::vector_lanes * s.pitch);
    const auto step_bytes = static_cast<uint32_t>(s.groups * 16);
#pragma unroll at_once
    for (int step = 0; step < s.steps; ++step) {
        float of_w[t::own_outputs][4];
#pragma unroll
        for (int j = 0; j < t::own_outputs; ++j)
            load_floats(of_w[j], w + static_cast<uint32_t>(j * t::output_lanes * 16));
#pragma unroll
        for (int n = 0; n < t::own_vectors; ++n) {
            float of_x[4];
            load_floats(of_x, x + static_cast<uint32_t>(n) * row);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
#pragma unroll
                for (int j = 0; j < t::own_outputs; ++j) {
                    const int place = j * t::residues + e % t::residues;
                    float& sum = sums[n * units + place / 4][place % 4];
                    sum = fma_rn(of_w[j][e], of_x[e], sum);
                }
            }
        }
        w += t::step_bytes;
        x += step_bytes;
    }
}

template <class t>
__device__ __forceinline__ void multiply_vectors(const resident_shape& s, uint32_t w, uint32_t x,
                                                 thread_sums<t>& sums) {
#pragma unroll 2
    for (int step = 0; step < s.steps; ++step) {
        float of_w[2][4], of_x[2][4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            load_floats(of_w[half], w + static_cast<uint32_t>(half * 16));
            load_floats(of_x[half], x + static_cast<uint32_t>(half * t::vector_lanes * 16));
        }
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                float& sum = sums[2 * j + n / 4][n % 4];
                sum = fma_rn(of_w[j / 4][j % 4], of_x[n / 4][n % 4], sum);
            }
        }
        w += t::step_bytes;
        x += static_cast<uint32_t>(s.pitch);
    }
}

// The thread's sums; j and n are the warp's first output and vector.
template <class t>
__device__ __forceinline__ void store_sums(const resident_arguments& args, const block_place& p,
                                           int64_t j, int64_t l, int64_t n,
                                           const thread_sums<t>& sums) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int output_lane = t::by_vectors ? lane / t::vector_lanes : lane % t::output_lanes;
    const int vector_lane = t::by_vectors ? lane % t::vector_lanes : lane / t::output_lanes;
    const float alpha = args.store.alpha;
    const auto pack = [alpha](const float(&y)[4]) {
        const auto word = [&](int e) { return __float_as_uint(fma_rn(alpha, y[e], 0.0f)); };
        return make_uint4(word(0), word(1), word(2), word(3));
    };
    constexpr int units = 16 / (t::by_vectors ? t::own_outputs : t::own_vectors);
#pragma unroll
    for (int at = 0; at < 16; ++at) {
        int64_t own_j = j, own_n = n;
        if constexpr (t::by_vectors) {
            own_j += t::j_at(at / units, output_lane);
            own_n += (at % units * t::vector_lanes + vector_lane) * 4;
        } else {
            own_j += t::j_at(at % units * 4 / t::residues, output_lane);
            own_n += at / units * t::vector_lanes + vector_lane;
        }
        unit_sums<t> unit;
#pragma unroll
        for (int e = 0; e < 4; ++e) unit.y[e] = sums[at][e];
        store_unit<t>(args, p, own_j, l, own_n, unit_of<t>(args, p, own_j, l, own_n), unit, pack);
    }
}

template <int Kind>
struct float_compute {
    using tiling_type = float_tiling<Kind>;
    static constexpr bool w_is_shared = true;

    static __device__ __forceinline__ void multiply_tile(const resident_arguments& args,
                                                         const block_place& p, uint32_t w,
                                                         uint32_t x) {
        using t = tiling_type;
        const auto& s = args.shape;
        const int lane = static_cast<int>(threadIdx.x) % 32;
        const int row_blocks = s.rows / t::vectors;
        const int items = row_blocks * s.groups * p.output_blocks;
        const int set_bytes = s.steps * t::step_bytes;
        for (int item = static_cast<int>(threadIdx.x) / 32; item < items;
             item += static_cast<int>(blockDim.x) / 32) {
            const int rows = item % row_blocks, rest = item / row_blocks;
            const int group = rest % s.groups, outputs = rest / s.groups;
            if (p.first_vector + rows * t::vectors >= args.vectors) continue;
            const uint32_t of_w =
                w + static_cast<uint32_t>((group * s.own_outputs + outputs) * set_bytes);
            thread_sums<t> sums = {};
            if constexpr (t::by_vectors) {
                multiply_vectors<t>(
                    s, of_w + static_cast<uint32_t>(lane / t::vector_lanes * 32),
                    x + static_cast<uint32_t>(rows * t::vectors * 4 + lane % t::vector_lanes * 16),
                    sums);
            } else {
                const int row = rows * t::vectors + lane / t::output_lanes;
                multiply_residues<t>(s, of_w + static_cast<uint32_t>(lane % t::output_lanes * 16),
                                     x + static_cast<uint32_t>(row * s.pitch + group * 16), sums);
            }
            store_sums<t>(args, p, int64_t{p.first_outputs + outputs} * t::outputs,
                          p.l + group * t::residues, p.first_vector + rows * t::vectors, sums);
        }
    }
};

template <int Kind>
constexpr resident_instance instance_of = {
    Kind, 1, 1, true, load_resident<float_compute<Kind>>, launch_resident<float_compute<Kind>>};

}  // namespace

extern const resident_instance resident_fp32[resident_float_instances];
const resident_instance resident_fp32[resident_float_instances] = {instance_of<0>, instance_of<1>,
                                                                   instance_of<2>, instance_of<4>};

}  // namespace magicube::kronecker_mm::sm80
