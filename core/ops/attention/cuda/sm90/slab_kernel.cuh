// SPDX-License-Identifier: Apache-2.0
//
// Fused attention on Hopper: slabs of K and V in a ring of shared memory, gathered by ldmatrix,
// multiplied by mma.sync, the softmax online between the two products.
//
// Computes  out = softmax(scale * Q K^T) V over the allowed keys of each query, for bundles of 8
//           queries whose keys are packed as the slab kernel of SpMM packs columns
//           (spmm/cuda/sm90/slab_format.hpp), without values.
// Layout    rows of K, and of V at the same places further on, lie 64 or 128 bytes wide in shared
//           memory, swizzled by the tensor copies that bring them; with each slab come the
//           scales of its keys (integers) and the row numbers of a group's steps.
//           Slabs that a group does not gather from, or that causality or key lengths hide from it,
//           are left out.
// Mapping   a persistent CTA takes tiles (head, group of 32 bundles), neighbours at the same time,
//           so that L2 holds their K and V; 16 consumer warps own two bundles each, one thread of
//           the producer warpgroup fills the rings, mbarriers order the two.
// Shared    227 KB, divided by the plan. Architecture sm_90a. Rows aligned to 16 bytes.
// Bound     ldmatrix: a row of K and one of V a key and bundle, 128 bytes a clock; then exp2, 16 a
//           clock a multiprocessor.
// Source    the online softmax: FlashAttention (Dao et al., 2022); the gathers are ours.
#pragma once

#include "core/device/cuda/launch.cuh"
#include "core/ops/attention/cuda/sm90/slab_queries.cuh"

namespace magicube::attention::sm90 {

using spmm::sm90::consumer_warps;
using spmm::sm90::hole_numbers;
using spmm::sm90::max_stages;
using spmm::sm90::producer_warps;
using spmm::sm90::ring_position;
using spmm::sm90::shared_bytes;
using spmm::sm90::widest_row_bytes;
using spmm::sm90::zero_rows;

constexpr uint32_t last_of_tile = 1u << 31;
constexpr uint32_t no_keys = 1u << 30;  // the tile's only stage, without a slab

// Where things lie in shared memory; addresses.
struct shared_layout {
    uint32_t left;          // 16 bits a warp and tile: queries that one_query is to compute
    uint32_t keys;          // the ring of K; rows of zeros lie before
    uint32_t values_ahead;  // from a row of K to the row of V
    uint32_t scales;        // of the ring's keys
    uint32_t parts;
    uint32_t full, empty;
    uint32_t constants;  // bits_of_integers, four times
    uint32_t notes;      // of each stage: the slab's number, with the flags below

    __device__ shared_layout(const slab_geometry& g, void* shared, uint64_t* barriers) {
        constexpr uint32_t zeros = zero_rows * widest_row_bytes;
        const uint32_t rows = g.b_stages * g.slab_rows;
        left = (ptx::shared_address(shared) + 1023) & ~1023u;
        keys = left + spmm::sm90::left_bytes + zeros;
        values_ahead = rows * g.row_bytes + zeros;
        scales = keys + 2 * values_ahead - zeros;
        parts = scales + rows * 4;
        full = ptx::shared_address(barriers);
        empty = full + 8 * max_stages;
        constants = empty + 8 * max_stages;
        notes = constants + 16;
    }
};

// Of a tile: its head, and its group among those of all patterns and in its own.
struct tile_place {
    head_place at;
    int64_t group;
    uint32_t group_in_pattern;

    __device__ tile_place(const slab_arguments& args, uint32_t tile) {
        const uint32_t head = args.groups.quotient(tile);
        at.batch = args.heads.quotient(head);
        at.head = args.heads.remainder(head);
        at.kv_head = args.heads_a_kv_head.quotient(static_cast<uint32_t>(at.head));
        group_in_pattern = args.groups.remainder(tile);
        group =
            args.call.shape.pattern_of(at.batch, at.head) * args.groups.value() + group_in_pattern;
    }

    // No query of the tile sees a key that is first gathered with this slab or a later one. Where
    // calls are causal, groups hold neighbouring queries.
    __device__ int end_of_slabs(const slab_arguments& args) const {
        constexpr int64_t group_queries = int64_t{consumer_warps} * warp_bundles * 8;
        const auto& call = args.call;
        const slab_geometry& g = args.geometry;
        const int64_t last = min((group_in_pattern + 1) * group_queries, call.pattern.rows) - 1;
        const key_limit limit(
            call, keys_for(call.shape, call.causal_offsets, call.key_lengths, at.batch), last);
        const int visible = min(limit.keys, limit.reach + 1);
        return visible <= 0 ? 0 : min((visible - 1) / g.slab_rows + 1 + g.kept, g.slabs);
    }
};

// Fills the rings for all of this CTA's tiles; one thread.
template <class Math>
__device__ inline void produce(const slab_arguments& args, const CUtensorMap* k_map,
                               const CUtensorMap* v_map, const shared_layout& at) {
    const slab_geometry& g = args.geometry;
    const uint32_t rows_bytes = g.slab_rows * Math::row_bytes;
    const uint32_t scale_bytes = Math::integers ? g.slab_rows * 4 : 0;
    ring_position stage{0, 1};
    int slot = 0;  // of the ring of K and V
    for (uint32_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
        const tile_place place(args, tile);
        const auto batch = static_cast<int>(place.at.batch);
        const auto head = static_cast<int>(place.at.kv_head);
        const float* scales = args.key_scales + (place.at.batch * args.call.shape.kv_heads + head) *
                                                    (int64_t{g.slabs} * g.slab_rows);
        const slab_visit* visits = args.visits + place.group * (g.slabs + visits_read_ahead);
        const int end = place.end_of_slabs(args);
        slab_visit next = visits[0], after = visits[1];
        for (bool last = false; !last;) {
            const slab_visit visit = next;
            next = after;
            const bool none = visit.slab >= end;
            last = none || next.slab >= end;
            after = *(++visits + 1);  // a look takes longer than a slab
            const uint32_t full = at.full + 8 * stage.stage, bytes = visit.length * 16;
            ptx::barrier_wait(at.empty + 8 * stage.stage, stage.parity);
            ptx::store_shared_u32(at.notes + 4 * stage.stage,
                                  visit.slab | (last ? last_of_tile : 0) | (none ? no_keys : 0));
            if (none) {
                ptx::barrier_arrive(full);
                stage.advance(g.a_stages);
                continue;
            }
            ptx::barrier_expect(full, bytes + 2 * rows_bytes + scale_bytes);
            ptx::copy_bulk(at.parts + stage.stage * g.a_bytes,
                           args.records + int64_t{visit.begin} * 16, bytes, full);
            const uint32_t target = at.keys + slot * rows_bytes;
            const int first_key = visit.slab * g.slab_rows;
            for (int row = 0; row < g.slab_rows; row += g.box_rows) {
                const uint32_t to = target + row * Math::row_bytes;
                ptx::copy_tile(to, k_map, 0, first_key + row, head, batch, full);
                ptx::copy_tile(to + at.values_ahead, v_map, 0, first_key + row, head, batch, full);
            }
            if constexpr (Math::integers)
                ptx::copy_bulk(at.scales + slot * scale_bytes, scales + first_key, scale_bytes,
                               full);
            if (++slot == g.b_stages) slot = 0;
            stage.advance(g.a_stages);
        }
    }
}

// Which keys a slab has, and which a warp's bundles see.
struct slab_keys {
    int first, last;
    const key_limit (&limits)[warp_bundles];
    float first_log2;  // of the call
};

// The steps of a list of keys that are still to come, and the rows of the next.
template <class Math>
struct step_list {
    uint32_t record;
    typename Math::rows row;

    __device__ __forceinline__ explicit step_list(uint32_t first) : record(first) {
        row = Math::load_rows(record, threadIdx.x & 31);
    }
    // One record past the part's last is read, and not used.
    __device__ __forceinline__ typename Math::rows take() {
        const typename Math::rows taken = row;
        record += step_slots * 2;
        row = Math::load_rows(record, threadIdx.x & 31);
        return taken;
    }
};

// The scores of a step that queries do not see become -infinity: those of holes, and in a slab with
// hidden keys those. Bundles Each * l and on have list l.
template <class Math, int First, int Lists, int Each>
__device__ __forceinline__ void hide_keys(float (&s)[Lists][Each][2][4],
                                          const typename Math::rows (&row)[Lists], bool limited,
                                          const slab_keys& slab) {
    if (limited) {
        constexpr int shift = Math::row_bytes == 64 ? 2 : 3;
#pragma unroll
        for (int b = 0; b < Lists * Each; ++b) {
            int hidden[4];
            Math::numbers_of(row[b / Each], threadIdx.x & 31, hidden);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                hidden[i] =
                    hidden[i] >= hole_numbers
                        ? 8
                        : slab.limits[First + b].hidden_from(slab.first + (hidden[i] >> shift));
            query_bundle<Math>::hide(s[b / Each][b % Each], hidden);
        }
        return;
    }
    uint32_t holes[Lists], any = 0;
#pragma unroll
    for (int l = 0; l < Lists; ++l) any |= holes[l] = Math::holes(row[l]);
    if (any == 0) return;
#pragma unroll
    for (int b = 0; b < Lists * Each; ++b)
        query_bundle<Math>::hide(s[b / Each][b % Each], holes[b / Each]);
}

// So many steps of each of the lists, for Lists * Each bundles from First on. Together, so that one
// hides the latency of the other.
template <class Math, int First, int Lists, int Each>
__device__ __forceinline__ void attend_steps(int steps, step_list<Math>* const (&lists)[Lists],
                                             const step_source& from,
                                             const typename Math::constants& known,
                                             const slab_keys& slab,
                                             query_bundle<Math> (&queries)[warp_bundles],
                                             bool& irregular) {
    const int lane = threadIdx.x & 31;
    bool limited = false;
#pragma unroll
    for (int b = 0; b < Lists * Each; ++b)
        limited |= !slab.limits[First + b].hides_none_to(slab.last);
#pragma unroll 1
    for (; steps > 0; --steps) {
        typename Math::rows row[Lists];
        typename Math::place place[Lists];
        float s[Lists][Each][2][4];
        typename Math::exponentials e[Lists * Each];
        typename Math::probabilities p[Lists][Each];
#pragma unroll
        for (int l = 0; l < Lists; ++l) {
            row[l] = lists[l]->take();
            place[l] = Math::find(from, row[l]);
            Math::scores(First + l, s[l], from, place[l], lane, known, queries);
        }
        hide_keys<Math, First>(s, row, limited, slab);
        bool over = false;
#pragma unroll
        for (int b = 0; b < Lists * Each; ++b) {
            e[b] = queries[First + b].exponentials_of(s[b / Each][b % Each]);
            over |= e[b].over;
        }
        if (__any_sync(~0u, over)) {
#pragma unroll
            for (int b = 0; b < Lists * Each; ++b)
                queries[First + b].refer(s[b / Each][b % Each], slab.first_log2, e[b], irregular);
        }
#pragma unroll
        for (int b = 0; b < Lists * Each; ++b)
            p[b / Each][b % Each] = queries[First + b].take(e[b]);
#pragma unroll
        for (int l = 0; l < Lists; ++l) Math::accumulate(First + l, queries, from, place[l], p[l]);
    }
}

// The steps of one part for a warp's bundles.
template <class Math>
__device__ __forceinline__ void attend_part(uint32_t part, int warp, bool shared_keys,
                                            const step_source& from,
                                            const typename Math::constants& known,
                                            const slab_keys& slab,
                                            query_bundle<Math> (&queries)[warp_bundles],
                                            bool& irregular) {
    const uint2 header = ptx::load_shared_v2(part + warp * 8);
    if (header.y == 0) return;
    const auto first_steps = static_cast<int>(header.y & 0xff);
    step_list<Math> first(part + header.x);
    if (shared_keys) {
        attend_steps<Math, 0, 1, 2>(first_steps, {&first}, from, known, slab, queries, irregular);
        return;
    }
    const auto second_steps = static_cast<int>(header.y >> 8);
    step_list<Math> second(part + header.x + first_steps * step_slots * 2);
    int both = 0;
    if constexpr (Math::together) {
        both = min(first_steps, second_steps);
        attend_steps<Math, 0, 2, 1>(both, {&first, &second}, from, known, slab, queries, irregular);
    }
    attend_steps<Math, 0, 1, 1>(first_steps - both, {&first}, from, known, slab, queries,
                                irregular);
    attend_steps<Math, 1, 1, 1>(second_steps - both, {&second}, from, known, slab, queries,
                                irregular);
}

// The first query of a warp's bundle in a tile; negative for none.
__device__ __forceinline__ int first_query(const slab_arguments& args, const tile_place& place,
                                           int warp, int bundle) {
    const int64_t of_group = place.group * consumer_warps + warp;
    if (args.shared_keys) {
        const int first = args.bundle_rows[of_group];
        return first < 0 ? first : first + 8 * bundle;
    }
    return args.bundle_rows[of_group * warp_bundles + bundle];
}

// Where a warp notes what is left of a tile; the last of many tiles share a place.
__device__ __forceinline__ uint32_t left_place(const shared_layout& at, int warp, uint32_t tile) {
    constexpr uint32_t places = spmm::sm90::left_bytes / 2 / consumer_warps;
    return at.left + (warp * places + min(tile / gridDim.x, places - 1)) * 2;
}

__device__ __forceinline__ void note_left(const shared_layout& at, int warp, uint32_t tile,
                                          uint32_t left) {
    if (left == 0 || (threadIdx.x & 31) != 0) return;
    const uint32_t place = left_place(at, warp, tile);
    ptx::store_shared_u16(place, ptx::load_shared<2>(place) | left);
}

// Apart from the tiles, whose registers would otherwise be kept in memory around the calls.
__device__ __noinline__ inline void compute_left(const slab_arguments& args,
                                                 const shared_layout& at, int warp) {
    for (uint32_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
        const uint32_t left = ptx::load_shared<2>(left_place(at, warp, tile));
        if (left == 0) continue;
        const tile_place place(args, tile);
        for (int i = 0; i < 8 * warp_bundles; ++i) {
            const int first = first_query(args, place, warp, i / 8);
            const int query = first + i % 8;
            if (left >> i & 1 && first >= 0 && query < args.call.pattern.rows)
                cuda::one_query(args.call, place.at.batch, place.at.head, query).compute();
        }
    }
}

template <class Math>
__device__ __forceinline__ void consume(const slab_arguments& args, const shared_layout& at,
                                        int warp) {
    const slab_geometry& g = args.geometry;
    const int slab_bytes = g.slab_rows * Math::row_bytes;
    const int lane = threadIdx.x & 31;
    ring_position stage{0, 0};
    ring_view keys;
    keys.begin = keys.base = at.keys;
    keys.end = at.keys + g.b_stages * slab_bytes;
    const step_source from{keys, at.values_ahead, at.scales - at.keys / Math::row_bytes * 4};
    const auto known = Math::constants::read(at.constants);
    for (uint32_t tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
        const tile_place place(args, tile);
        const allowed_keys allowed = keys_for(args.call.shape, args.call.causal_offsets,
                                              args.call.key_lengths, place.at.batch);
        const int first[warp_bundles] = {first_query(args, place, warp, 0),
                                         first_query(args, place, warp, 1)};
        query_bundle<Math> queries[warp_bundles];
        bool irregular = false;
        const key_limit limits[warp_bundles] = {{args.call, allowed, max(first[0], 0)},
                                                {args.call, allowed, max(first[1], 0)}};
#pragma unroll
        for (int b = 0; b < warp_bundles; ++b)
            queries[b].start(args, place.at, max(first[b], 0), irregular);
        for (bool last = false; !last;) {
            ptx::barrier_wait(at.full + 8 * stage.stage, stage.parity);
            __syncwarp();
            const uint32_t note = ptx::load_shared_u32(at.notes + 4 * stage.stage);
            last = note & last_of_tile;
            if (!(note & no_keys)) {
                const int first_key = static_cast<int>(note & 0xffff) * g.slab_rows;
                attend_part<Math>(at.parts + stage.stage * g.a_bytes, warp, args.shared_keys, from,
                                  known,
                                  {first_key, first_key + g.slab_rows - 1, limits, args.first_log2},
                                  queries, irregular);
                keys.advance(slab_bytes);
            }
            __syncwarp();
            if (lane == 0) ptx::barrier_arrive(at.empty + 8 * stage.stage);
            stage.advance(g.a_stages);
        }
        irregular = __any_sync(~0u, irregular);
        uint32_t left = 0;
        const value_scales<Math> scales(args.call, place.at);
#pragma unroll
        for (int b = 0; b < warp_bundles; ++b)
            if (first[b] >= 0)
                left |= write_bundle<Math>(args, place.at, first[b], irregular, scales, queries[b])
                        << (8 * b);
        note_left(at, warp, tile, left);
    }
    __syncwarp();
    compute_left(args, at, warp);
}

template <class Math>
__global__ void __launch_bounds__((consumer_warps + producer_warps) * 32, 1)
    slab_kernel(const __grid_constant__ CUtensorMap k_map,
                const __grid_constant__ CUtensorMap v_map,
                const __grid_constant__ slab_arguments args) {
// Compiled for sm_90a alone; the implementation declines other devices.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    MAGICUBE_DYNAMIC_SHARED(uint8_t, shared, 16);
    // Then the constants and the notes.
    __shared__ __align__(16) uint64_t barriers[2 * max_stages + 2 + max_stages / 2];
    const shared_layout at(args.geometry, shared, barriers);
    const int warp = __shfl_sync(~0u, threadIdx.x >> 5, 0);
    if (threadIdx.x < max_stages) {
        ptx::barrier_init(at.full + 8 * threadIdx.x, 1);
        ptx::barrier_init(at.empty + 8 * threadIdx.x, consumer_warps);
        ptx::fence_barrier_init();
    }
    if (threadIdx.x < 2)
        barriers[2 * max_stages + threadIdx.x] =
            uint64_t{bits_of_integers} << 32 | bits_of_integers;
    if (threadIdx.x < spmm::sm90::left_bytes / 16)
        ptx::store_shared_zero16(at.left + threadIdx.x * 16);
    if (threadIdx.x < 2 * zero_rows * widest_row_bytes / 16) {
        constexpr int each = zero_rows * widest_row_bytes / 16;
        ptx::store_shared_zero16(at.keys - zero_rows * widest_row_bytes +
                                 threadIdx.x / each * at.values_ahead + threadIdx.x % each * 16);
    }
    __syncthreads();
    if (warp >= consumer_warps) {
        ptx::give_registers<24>();
        if (threadIdx.x == consumer_warps * 32) produce<Math>(args, &k_map, &v_map, at);
    } else {
        ptx::take_registers<112>();
        consume<Math>(args, at, warp);
    }
#endif
}

template <class Math>
cudaError_t load_slab() {
    return cudaFuncSetAttribute(slab_kernel<Math>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                shared_bytes);
}

template <class Math>
cudaError_t launch_slab(const CUtensorMap& k, const CUtensorMap& v, const slab_arguments& args,
                        int ctas, cudaStream_t stream) {
    return magicube::cuda::launch_kernel(
        slab_kernel<Math>,
        {dim3(static_cast<unsigned>(ctas)), (consumer_warps + producer_warps) * 32, shared_bytes,
         stream},
        k, v, args);
}

using int8_64 = integer_math<64>;
using int8_128 = integer_math<128>;
using fp16_64 = half_math<false>;
using bf16_64 = half_math<true>;

#define MAGICUBE_DEFINE_ATTENTION_SLAB(TYPE, DIM)                                         \
    const slab_instance slab_##TYPE##_##DIM = {dtype::TYPE, DIM, load_slab<TYPE##_##DIM>, \
                                               launch_slab<TYPE##_##DIM>};

}  // namespace magicube::attention::sm90
