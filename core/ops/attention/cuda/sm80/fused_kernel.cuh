// SPDX-License-Identifier: Apache-2.0
//
// Sparse attention in one kernel on Tensor Cores since sm_80: SDDMM, online softmax and SpMM.
//
// Computes  out = softmax(scale * Q K^T) V over the allowed keys, fp16 or bf16 in, and the
//           log-sum-exp. No score or probability leaves the registers.
// Layout    S^T = K Q^T: gathered keys are the MMA's rows, 8 queries its columns. A lane (g, t) has
//           keys g, g + 8 of 16 and queries 2t, 2t + 1. P^T becomes the second MMA's B by one
//           transposition of 8 x 8 a half; O^T = V^T P^T has elements g, g + 8 of 16 of the head
//           and the same queries, whose statistics are therefore the lane's own.
// Mapping   a warp takes 8 * Sets queries of a block row and a ring of two stages that only it
//           fills and reads: 32 rows of K and V (16 for more than 64 elements a head).
// Shared    16 KB a warp (32 KB for 256 elements), 64 KB a block. Architecture sm_80. Rows of K and
//           V aligned to 16 bytes are copied asynchronously, others element by element.
// Numbers   scores, exponentials and sums in fp32; exponentials are rounded to the type of V for
//           the second MMA. Queries whose sums are not finite (a V of infinity or NaN that another
//           query of the 8 sees) are computed again as the definition reads.
// Bound     2 rows a key and 8 * Sets queries from L2, 37 bytes a clock of a multiprocessor of
//           Hopper: B8 H8 L8192 d64, V = 8, 90 %: 13.7 GB, 1.6 ms. V = 16 halves that.
// Source    online softmax: Milakov and Gimelshein 2018; tiling as in FlashAttention-2.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/ops/attention/cuda/one_query.cuh"
#include "core/ops/attention/cuda/sm80/fused_stage.cuh"

namespace magicube::attention::sm80 {

template <int Dim, int Sets>
struct fused_traits {
    static constexpr int stages = 2;
    static constexpr int warps = Dim <= 128 ? 4 : 2;
    static constexpr int ring_bytes = stages * fused_stage<Dim>::bytes;
    static constexpr int shared_bytes = warps * ring_bytes;
    static constexpr int blocks = Dim * Sets <= 128 ? 3 : 2;
};

// The queries of one warp: 8 * Sets of a block row of a head.
struct fused_task {
    int64_t batch, head;
    int64_t query;  // the first
    int32_t v0;     // its place in the block row
    int32_t count;  // queries there are from the first on, at most those of the block row
    int64_t begin;  // the block row's first slot
    int32_t end;    // slots, without those behind the last allowed key
    allowed_keys keys;

    __device__ fused_task(const fused_arguments& args, int64_t task, int part_queries) {
        const auto& pattern = args.call.pattern;
        const auto& shape = args.call.shape;
        const int64_t part = task % args.parts, rest = task / args.parts;
        const int64_t block_rows = pattern.block_rows();
        // The later block rows of a causal pattern are longer and go first.
        const int64_t in_order = rest % block_rows;
        const int64_t block_row = shape.causal ? block_rows - 1 - in_order : in_order;
        head = rest / block_rows % shape.q_heads;
        batch = rest / block_rows / shape.q_heads;
        v0 = static_cast<int32_t>(part) * part_queries;
        query = block_row * pattern.vector_length + v0;
        count = static_cast<int32_t>(
            min(int64_t{pattern.vector_length - v0}, max(int64_t{0}, pattern.rows - query)));
        const int64_t index = pattern.block_row_index(shape.pattern_of(batch, head), block_row);
        begin = pattern.row_begin[index];
        end = static_cast<int32_t>(pattern.row_end[index] - begin);
        keys = keys_for(shape, args.call.causal_offsets, args.call.key_lengths, batch);
        const int32_t last = min(count, part_queries) - 1;
        if (shape.causal || shape.key_lengths)
            end = slots_below(pattern.col_indices + begin, last < 0 ? 0 : bound(args, last));
    }

    // Keys that one of the warp's queries may see are below this.
    __device__ uint32_t bound(const fused_arguments& args, int32_t i) const {
        if (i >= count) return 0;
        const int64_t behind = saturating_sum(saturating_sum(query + i, keys.reach), 1);
        const int64_t limit = min(min(behind, keys.keys), args.call.pattern.cols);
        return static_cast<uint32_t>(max(int64_t{0}, limit));
    }

  private:
    // Columns ascend.
    __device__ int32_t slots_below(const int32_t* cols, uint32_t limit) const {
        int32_t low = 0, high = end;
        while (low < high) {
            const int32_t middle = low + (high - low) / 2;
            if (static_cast<uint32_t>(cols[middle]) < limit) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }
};

template <bool Bf16>
struct half_math {
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
        if constexpr (Bf16) {
            ptx::mma_bf16(d, a, b0, b1);
        } else {
            ptx::mma_fp16(d, a, b0, b1);
        }
    }
    static __device__ __forceinline__ uint32_t pack(float first, float second) {
        if constexpr (Bf16) return ptx::pack_bf16(first, second);
        return ptx::pack_fp16(first, second);
    }
};

// 8 queries: their rows of Q as an MMA's B, statistics and sums. A lane has queries 2t and 2t + 1.
template <bool Bf16, int Dim>
struct query_set {
    using math = half_math<Bf16>;
    static constexpr int tiles = Dim / 16;
    static constexpr int groups = fused_stage<Dim>::keys / 16;
    static constexpr float log2_e = 1.44269504f;

    uint32_t q[tiles][2];
    float sums[tiles][4];
    float largest[2];
    float total[2];  // of the lane's keys
    uint32_t bound[2];
    bool invalid[2];  // a score of the lane's keys is NaN or +infinity

    __device__ void start(const fused_arguments& args, const fused_task& at, int set) {
        const int lane = threadIdx.x & 31, own = 8 * set + lane / 4;
        const tensor& from = args.call.q;
        const auto* row = static_cast<const uint16_t*>(from.values) +
                          (own < at.count ? from.row(at.batch, at.head, at.query + own) : 0);
        const int dim = own < at.count ? static_cast<int>(args.call.shape.head_dim) : 0;
#pragma unroll
        for (int i = 0; i < 2 * tiles; ++i)
            q[i / 2][i % 2] = load_pair(row, 8 * i + lane % 4 * 2, dim, args.q_paired);
#pragma unroll
        for (int i = 0; i < 4 * tiles; ++i) sums[i / 4][i % 4] = 0;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            largest[i] = -INFINITY;
            total[i] = 0;
            bound[i] = at.bound(args, 8 * set + lane % 4 * 2 + i);
            invalid[i] = false;
        }
    }

    // Scores of the lane's keys become the MMA's B, exponentials rounded, and the sums are scaled
    // to the largest score so far. `exists` has a bit a score.
    __device__ __forceinline__ void take_scores(float (&s)[groups][4], const uint32_t* keys,
                                                uint32_t exists, float scale,
                                                uint32_t (&p)[groups][2]) {
        float highest[2] = {largest[0], largest[1]};
#pragma unroll
        for (int i = 0; i < 4 * groups; ++i) {
            float& x = s[i / 4][i % 4];
            const bool allowed = keys[i / 2] < bound[i % 2] && (exists >> i & 1);
            x = allowed ? mul_rn(scale, x) : -INFINITY;
            invalid[i % 2] = invalid[i % 2] || !(x < INFINITY);
            highest[i % 2] = fmaxf(highest[i % 2], x);
        }
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
            highest[0] = fmaxf(highest[0], __shfl_xor_sync(~0u, highest[0], step));
            highest[1] = fmaxf(highest[1], __shfl_xor_sync(~0u, highest[1], step));
        }
        if (__any_sync(~0u, highest[0] > largest[0] || highest[1] > largest[1])) rescale(highest);
        const float reference[2] = {largest[0] == -INFINITY ? 0 : largest[0],
                                    largest[1] == -INFINITY ? 0 : largest[1]};
#pragma unroll
        for (int i = 0; i < 2 * groups; ++i) {
            const float e0 = exponential(s[i / 2][i % 2 * 2], reference[0]);
            const float e1 = exponential(s[i / 2][i % 2 * 2 + 1], reference[1]);
            total[0] += e0;
            total[1] += e1;
            p[i / 2][i % 2] = ptx::transpose_matrix(math::pack(e0, e1));
        }
    }

  private:
    static __device__ __forceinline__ uint32_t load_pair(const uint16_t* row, int d, int dim,
                                                         bool paired) {
        if (paired && d + 1 < dim) return *reinterpret_cast<const uint32_t*>(row + d);
        uint32_t pair = d < dim ? row[d] : 0;
        if (d + 1 < dim) pair |= uint32_t{row[d + 1]} << 16;
        return pair;
    }

    static __device__ __forceinline__ float exponential(float score, float reference) {
        return ptx::exp2_fast((score - reference) * log2_e);
    }

    __device__ __forceinline__ void rescale(const float (&highest)[2]) {
        float factor[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            factor[i] = highest[i] > largest[i] ? exponential(largest[i], highest[i]) : 1.0f;
            largest[i] = highest[i];
            total[i] *= factor[i];
        }
#pragma unroll
        for (int i = 0; i < 4 * tiles; ++i) sums[i / 4][i % 4] *= factor[i % 2];
    }
};

// The keys and element masks of a step, as lanes hold them: slot i of the step lane i.
template <int Dim>
struct step_slots {
    static constexpr int keys = fused_stage<Dim>::keys;

    const fused_arguments& args;
    const fused_task& at;

    __device__ __forceinline__ int32_t load_key(int32_t step) const {
        const int32_t slot = step * keys + (threadIdx.x & 31) % keys;
        return slot < at.end ? __ldg(args.call.pattern.col_indices + at.begin + slot) : -1;
    }

    // Bit i: score i of the lane exists, i / 2 counting its keys, i % 2 its queries.
    __device__ __forceinline__ uint32_t mask(int32_t step, int set) const {
        const auto& pattern = args.call.pattern;
        if (!pattern.element_mask) return ~0u;
        const int lane = threadIdx.x & 31, bytes = (pattern.vector_length + 7) / 8;
        uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < keys / 8; ++i) {
            const int32_t slot = step * keys + 8 * i + lane / 4;
            const int64_t at_byte = (at.begin + slot) * bytes + at.v0 / 8 + set;
            const uint32_t byte =
                slot < at.end && at.v0 / 8 + set < bytes ? pattern.element_mask[at_byte] : 0u;
            bits |= (byte >> (lane % 4 * 2) & 3) << (2 * i);
        }
        return bits;
    }
};

template <bool Bf16, int Dim, int Sets>
__device__ __forceinline__ void attend(uint32_t stage, int32_t key, float scale,
                                       const uint32_t (&masks)[Sets],
                                       query_set<Bf16, Dim> (&sets)[Sets]) {
    using layout = fused_stage<Dim>;
    using set_type = query_set<Bf16, Dim>;
    constexpr int groups = set_type::groups, tiles = set_type::tiles;
    uint32_t keys[2 * groups];
#pragma unroll
    for (int i = 0; i < 2 * groups; ++i)
        keys[i] = static_cast<uint32_t>(__shfl_sync(~0u, key, 8 * i + (threadIdx.x & 31) / 4));
    float s[Sets][groups][4] = {};
#pragma unroll
    for (int i = 0; i < groups * tiles; ++i) {
        uint32_t a[4];
        layout::load_keys(a, stage, i / tiles, i % tiles);
#pragma unroll
        for (int set = 0; set < Sets; ++set)
            half_math<Bf16>::mma(s[set][i / tiles], a, sets[set].q[i % tiles][0],
                                 sets[set].q[i % tiles][1]);
    }
    uint32_t p[Sets][groups][2];
#pragma unroll
    for (int set = 0; set < Sets; ++set)
        sets[set].take_scores(s[set], keys, masks[set], scale, p[set]);
#pragma unroll
    for (int i = 0; i < groups * tiles; ++i) {
        uint32_t a[4];
        layout::load_values(a, stage, i / tiles, i % tiles);
#pragma unroll
        for (int set = 0; set < Sets; ++set)
            half_math<Bf16>::mma(sets[set].sums[i % tiles], a, p[set][i / tiles][0],
                                 p[set][i / tiles][1]);
    }
}

__device__ __noinline__ inline void compute_again(const cuda::kernel_arguments& call, int64_t batch,
                                                  int64_t head, int64_t query) {
    cuda::one_query(call, batch, head, query).compute();
}

// Divides by the sums and writes; queries whose sums are not finite are computed again.
template <bool Bf16, int Dim>
__device__ __forceinline__ void write_set(const fused_arguments& args, const fused_task& at,
                                          int set, query_set<Bf16, Dim>& queries) {
    const int lane = threadIdx.x & 31;
    const auto& call = args.call;
    bool again[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        float total = queries.total[i];
        bool invalid = queries.invalid[i], finite = true;
#pragma unroll
        for (int step = 4; step < 32; step *= 2) {
            total += __shfl_xor_sync(~0u, total, step);
            invalid = __shfl_xor_sync(~0u, static_cast<int>(invalid), step) || invalid;
        }
        const float largest = invalid ? NAN : queries.largest[i];
        const bool regular = largest > -INFINITY;
        const int own = 8 * set + lane % 4 * 2 + i;
        const int64_t query = at.query + own;
        const int64_t row = own < at.count ? call.out.row(at.batch, at.head, query) : 0;
        const float factor = div_rn(1.0f, total);
#pragma unroll
        for (int j = 0; j < 2 * query_set<Bf16, Dim>::tiles; ++j) {
            const float sum = queries.sums[j / 2][j % 2 * 2 + i];
            finite = finite && fabsf(sum) < INFINITY;
            const int d = 8 * j + lane / 4;
            const float y = regular ? sum * factor : invalid ? NAN : 0.0f;
            if (own < at.count && d < call.shape.head_dim)
                magicube::cuda::store_element(call.out.values, call.shape.out_type, row + d, y);
        }
        again[i] = !finite && regular && own < at.count;
        if (call.log_sum_exp && own < at.count && lane / 4 == 0) {
            const double statistic =
                static_cast<double>(largest) + std::log(static_cast<double>(total));
            call.log_sum_exp[call.statistic_index(at.batch, at.head, query)] =
                regular ? static_cast<float>(statistic) : largest;
        }
    }
    const uint32_t even = __ballot_sync(~0u, again[0]), odd = __ballot_sync(~0u, again[1]);
    for (int i = 0; (even | odd) != 0 && i < 8; ++i) {
        const bool wanted = (i % 2 == 0 ? even : odd) & 0x11111111u << (i / 2);
        __syncwarp();  // what was written above is overwritten by other lanes
        if (wanted) compute_again(call, at.batch, at.head, at.query + 8 * set + i);
    }
}

template <bool Bf16, int Dim, int Sets>
__device__ __forceinline__ void compute_task(const fused_arguments& args, int64_t task,
                                             uint32_t ring) {
    using layout = fused_stage<Dim>;
    const fused_task at(args, task, 8 * Sets);
    const int64_t kv_head = args.call.kv_head_of(at.head), dim = args.call.shape.head_dim;
    const lane_source<Dim> k(args.call.k, at.batch, kv_head, dim);
    const lane_source<Dim> v(args.call.v, at.batch, kv_head, dim);
    const step_slots<Dim> slots{args, at};
    const float scale = args.call.scale.get();
    query_set<Bf16, Dim> sets[Sets];
#pragma unroll
    for (int set = 0; set < Sets; ++set) sets[set].start(args, at, set);
    const int32_t steps = (at.end + layout::keys - 1) / layout::keys;
    int32_t key = slots.load_key(0), next_key = slots.load_key(1);
    if (steps > 0) fill_stage<Dim>(k, v, ring, key, args.kv_aligned);
    ptx::commit_copies();
    for (int32_t step = 0; step < steps; ++step) {
        if (step + 1 < steps)
            fill_stage<Dim>(k, v, ring + (step + 1) % 2 * layout::bytes, next_key, args.kv_aligned);
        ptx::commit_copies();
        const int32_t key_after = slots.load_key(step + 2);
        uint32_t masks[Sets];
#pragma unroll
        for (int set = 0; set < Sets; ++set) masks[set] = slots.mask(step, set);
        ptx::wait_copies<1>();
        // This stage has arrived for all lanes.
        __syncwarp();
        attend<Bf16, Dim, Sets>(ring + step % 2 * layout::bytes, key, scale, masks, sets);
        // All lanes have read the stage that the next step fills.
        __syncwarp();
        key = next_key;
        next_key = key_after;
    }
#pragma unroll
    for (int set = 0; set < Sets; ++set) write_set<Bf16, Dim>(args, at, set, sets[set]);
}

template <bool Bf16, int Dim, int Sets>
__global__ void __launch_bounds__((fused_traits<Dim, Sets>::warps * 32),
                                  (fused_traits<Dim, Sets>::blocks))
    fused_kernel(const __grid_constant__ fused_arguments args) {
    using traits = fused_traits<Dim, Sets>;
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 128);
    const int warp = threadIdx.x / 32;
    const uint32_t ring = ptx::shared_address(shared + warp * traits::ring_bytes);
    for (int64_t task = int64_t{blockIdx.x} * traits::warps + warp; task < args.call.tasks;
         task += int64_t{gridDim.x} * traits::warps)
        compute_task<Bf16, Dim, Sets>(args, task, ring);
}

template <bool Bf16, int Dim, int Sets>
cudaError_t prepare_fused() {
    return cudaFuncSetAttribute(fused_kernel<Bf16, Dim, Sets>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                fused_traits<Dim, Sets>::shared_bytes);
}

template <bool Bf16, int Dim, int Sets>
cudaError_t launch_fused(const fused_arguments& args, int64_t blocks, cudaStream_t stream) {
    using traits = fused_traits<Dim, Sets>;
    magicube::cuda::launch_kernel(
        fused_kernel<Bf16, Dim, Sets>,
        {static_cast<unsigned>(blocks), traits::warps * 32, traits::shared_bytes, stream}, args);
    return cudaGetLastError();
}

constexpr bool fp16_is_bf16 = false, bf16_is_bf16 = true;

#define MAGICUBE_DEFINE_FUSED(TYPE, DIM, SETS)             \
    const fused_instance fused_##TYPE##_##DIM##_##SETS = { \
        TYPE##_is_bf16,                                    \
        DIM,                                               \
        SETS,                                              \
        fused_traits<DIM, SETS>::warps,                    \
        prepare_fused<TYPE##_is_bf16, DIM, SETS>,          \
        launch_fused<TYPE##_is_bf16, DIM, SETS>};

}  // namespace magicube::attention::sm80
