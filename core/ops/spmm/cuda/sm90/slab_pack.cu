// SPDX-License-Identifier: Apache-2.0
//
// Packs A for the slab kernel: lists columns, measures each geometry, writes steps, then values.
//
// Computes  the parts that slab_format.hpp describes, from the public SR-BCRS layout.
// Mapping   listing: a block a list of columns, a warp a residue class; the columns are a bitmap,
//           so that block rows are merged without sorting. Measuring and writing: a warp a group, a
//           lane a bundle, which runs slab_stepper; offsets are sums over the warp. Slots and
//           values: a block a part, a warp that part's records of a consumer warp.
// Shared    the bitmap: 4 KB. Any architecture.
// Bound     the latency of the steps, which follow from one another.
#include "core/ops/spmm/cuda/sm90/slab_pack.hpp"

#include <algorithm>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/launch.cuh"
#include "core/device/cuda/scan.cuh"
#include "core/ops/plan_buffer.hpp"
#include "core/ops/spmm/cuda/pack_reads.cuh"
#include "core/ops/spmm/cuda/sm90/slab_steps.hpp"

namespace magicube::spmm::sm90 {
namespace {

using magicube::cuda::check;
using magicube::cuda::device_scope;
using magicube::cuda::launch_kernel;
using magicube::cuda::sum_up_to_lane;

constexpr int list_threads = residues * 32;
constexpr int bitmap_words = 1024;
constexpr int bitmap_rows = bitmap_words * 32;
constexpr int most_merged = 8;
constexpr int begins_a_list = residues + 1;
constexpr int most_candidates = 10;
constexpr uint32_t residue_mask = 0x01010101;  // columns of residue 0 in a word of the bitmap

struct list_source {
    sr_bcrs_view a;
    int32_t list_rows;
    int32_t lists_a_matrix;
};

// Marks the columns from `first` on of the block rows that a list merges. All threads of the block.
__device__ void mark_columns(const list_source& s, int64_t list, int64_t first, uint32_t* bits) {
    __shared__ int64_t ranges[most_merged][2];
    const int merged = s.list_rows / s.a.vector_length;
    __syncthreads();  // the last marks have been read
    if (static_cast<int>(threadIdx.x) < merged) {
        const int64_t block_row = list % s.lists_a_matrix * merged + threadIdx.x;
        int64_t begin = 0, end = 0;
        if (block_row < s.a.block_rows()) {
            const int64_t at = s.a.block_row_index(list / s.lists_a_matrix, block_row);
            begin = s.a.row_begin[at];
            end = s.a.row_end[at];
        }
        ranges[threadIdx.x][0] = cuda::lower_bound(s.a.col_indices, begin, end, first);
        ranges[threadIdx.x][1] =
            cuda::lower_bound(s.a.col_indices, begin, end, first + bitmap_rows);
    }
    for (int i = threadIdx.x; i < bitmap_words; i += list_threads) bits[i] = 0;
    __syncthreads();
    for (int m = 0; m < merged; ++m) {
        for (int64_t i = ranges[m][0] + threadIdx.x; i < ranges[m][1]; i += list_threads) {
            const auto k = static_cast<uint32_t>(s.a.col_indices[i] - first);
            atomicOr(bits + k / 32, 1u << k % 32);
        }
    }
    __syncthreads();
}

// Of each list the columns if there is an array for them, otherwise how many each class has.
__global__ void __launch_bounds__(list_threads)
    list_kernel(const __grid_constant__ list_source s, int64_t list_count,
                const __grid_constant__ column_lists lists) {
    __shared__ uint32_t bits[bitmap_words];
    __shared__ int32_t totals[residues];
    const int residue = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int64_t list = blockIdx.x; list < list_count; list += gridDim.x) {
        int32_t* begins = lists.begins + list * begins_a_list;
        int32_t* columns =
            lists.columns ? lists.columns + lists.starts[list] + begins[residue] : nullptr;
        int32_t count = 0;
        for (int64_t first = 0; first < s.a.cols; first += bitmap_rows) {
            mark_columns(s, list, first, bits);
            for (int word = lane; word - lane < bitmap_words; word += 32) {
                uint32_t marks = bits[word] & residue_mask << residue;
                const int own = __popc(marks);
                const int sum = sum_up_to_lane(own);
                if (columns)
                    for (int32_t at = count + sum - own; marks != 0; marks &= marks - 1)
                        columns[at++] = static_cast<int32_t>(first + word * 32 + __ffs(marks) - 1);
                count += __shfl_sync(~0u, sum, 31);
            }
        }
        if (lists.columns) continue;
        if (lane == 0) totals[residue] = count;
        __syncthreads();
        if (threadIdx.x == 0) {
            int32_t sum = 0;
            for (int r = 0; r < residues; ++r) {
                begins[r] = sum;
                sum += totals[r];
            }
            begins[residues] = sum;
        }
    }
}

// The lists of the bundle of a group that is this lane's.
__device__ residue_lists lists_of(const column_lists& lists, const slab_shape& shape,
                                  int64_t group) {
    const int lane = threadIdx.x % 32;
    if (lane >= shape.group_bundles()) return {nullptr, nullptr};
    const int64_t list = lists.of_bundle[group * shape.group_bundles() + lane];
    if (list < 0) return {nullptr, nullptr};
    return {lists.columns + lists.starts[list], lists.begins + list * begins_a_list};
}

struct candidate_list {
    slab_geometry geometries[most_candidates];
};

// The bytes of a group's parts, were its geometry that of blockIdx.y.
__global__ void __launch_bounds__(32)
    measure_kernel(const __grid_constant__ column_lists lists, slab_shape shape,
                   const __grid_constant__ candidate_list candidates, group_size* sizes) {
    const slab_geometry g = candidates.geometries[blockIdx.y];
    slab_stepper stepper(lists_of(lists, shape, blockIdx.x), g);
    slab_step step;
    group_size size{0, 0};
    for (int64_t slab = 0; slab < g.slabs; ++slab) {
        stepper.enter(slab);
        int steps = 0;
        while (stepper.next(step)) ++steps;
        const int64_t bytes =
            header_bytes + int64_t{__reduce_add_sync(~0u, steps)} * shape.record_bytes();
        size.largest = max(size.largest, bytes);
        size.total += bytes;
    }
    if (threadIdx.x == 0) sizes[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = size;
}

// Row numbers of a record, and in its places of the slot map the columns of A.
__device__ void write_step(const slab_step& step, const int32_t* columns, int64_t begin,
                           const pack_target& t, int16_t* numbers, int32_t* slots) {
    const slab_geometry& g = t.geometry;
    for (int slot = 0; slot < step_slots; ++slot) {
        const int32_t row = step.rows[slot];
        const int32_t column = row < 0 ? -1 : columns[row];
        const int64_t hole = (t.shape.floats ? hole_numbers : 0) + g.place_of(slot % residues);
        numbers[slot] = static_cast<int16_t>(row < 0 ? hole : g.place_of(column - begin));
        slots[slot * t.merged()] = column;
    }
}

// Headers, row numbers, and the slot map as far as write_step goes.
__global__ void __launch_bounds__(32)
    write_kernel(const __grid_constant__ pack_target t, const __grid_constant__ column_lists lists,
                 const int64_t* record_begins) {
    const int64_t group = blockIdx.x;
    const int lane = threadIdx.x;
    const int bundles = t.shape.bundles, record_bytes = t.shape.record_bytes();
    const slab_geometry& g = t.geometry;
    const residue_lists own = lists_of(lists, t.shape, group);
    slab_stepper stepper(own, g);
    slab_step step;
    int64_t begin = record_begins[group];
    int64_t record = (begin - group * g.slabs * header_bytes) / record_bytes;
    for (int64_t slab = 0; slab < g.slabs; ++slab) {
        stepper.enter(slab);
        slab_stepper ahead = stepper;
        int steps = 0;
        while (ahead.next(step)) ++steps;
        const int sum = sum_up_to_lane(steps);
        const int before = sum - steps;
        const int total = __shfl_sync(~0u, sum, 31);
        uint8_t* part = t.records + begin;
        uint32_t counts = static_cast<uint32_t>(steps);
        for (int b = 1; b < bundles; ++b)
            counts |= static_cast<uint32_t>(__shfl_down_sync(~0u, steps, b)) << 8 * b;
        if (lane < t.shape.group_bundles() && lane % bundles == 0)
            reinterpret_cast<uint2*>(part)[lane / bundles] =
                make_uint2(static_cast<uint32_t>(header_bytes + before * record_bytes), counts);
        for (int i = before; i < sum; ++i) {
            stepper.next(step);
            uint8_t* numbers = part + header_bytes + i * record_bytes + t.shape.numbers_at();
            write_step(step, own.columns, slab * g.slab_rows, t,
                       reinterpret_cast<int16_t*>(numbers),
                       t.slots + (record + i) * step_slots * t.merged());
        }
        const int64_t bytes = header_bytes + int64_t{total} * record_bytes;
        if (lane == 0)
            t.parts[group * g.slabs + slab] = {static_cast<uint32_t>(begin / 16),
                                               static_cast<uint32_t>(bytes / 16)};
        begin += bytes;
        record += total;
    }
}

// Visits the records of a part that are this warp's: visit(number of the record, its offset in
// bytes, number of its bundle).
template <class Visit>
__device__ __forceinline__ void each_record(const pack_target& t, int64_t group, int64_t slab,
                                            const Visit& visit) {
    const int warp = threadIdx.x / 32;
    const int record_bytes = t.shape.record_bytes();
    const int64_t index = group * t.geometry.slabs + slab;
    const int64_t part = int64_t{t.parts[index].begin} * 16;
    const uint2 header = reinterpret_cast<const uint2*>(t.records + part)[warp];
    int64_t record =
        (part - (index + 1) * header_bytes + static_cast<int64_t>(header.x)) / record_bytes;
    int64_t offset = part + header.x;
    for (int b = 0; b < t.shape.bundles; ++b) {
        const int64_t bundle = (group * consumer_warps + warp) * t.shape.bundles + b;
        for (uint32_t i = header.y >> (8 * b) & 0xff; i > 0; --i) {
            visit(record, offset, bundle);
            ++record;
            offset += record_bytes;
        }
    }
}

// Turns the slot map's columns into slots.
__global__ void __launch_bounds__(consumer_warps * 32)
    find_kernel(const __grid_constant__ pack_target t) {
    const int lane = threadIdx.x % 32, merged = t.merged();
    const int64_t group = blockIdx.x;
    const auto find = [&](int64_t record, int64_t, int64_t bundle) {
        const int64_t block_row = t.bundle_rows[bundle] / t.a.vector_length;
        int32_t* slots = t.slots + (record * step_slots + lane) * merged;
        const int32_t column = slots[0];
        for (int m = 0; m < merged; ++m) {
            int32_t found = -1;
            if (column >= 0 && block_row + m < t.a.block_rows()) {
                const int64_t at = t.a.block_row_index(group / t.groups_a_matrix, block_row + m);
                const int64_t end = t.a.row_end[at];
                const int64_t slot =
                    cuda::lower_bound(t.a.col_indices, t.a.row_begin[at], end, column);
                if (slot < end && t.a.col_indices[slot] == column)
                    found = static_cast<int32_t>(slot);
            }
            slots[m] = found;
        }
    };
    for (int64_t slab = blockIdx.y; slab < t.geometry.slabs; slab += gridDim.y)
        each_record(t, group, slab, find);
}

// The slot of the step whose value byte or half i of lane g * 4 + t is, for the order of slots that
// ldmatrix.trans and prmt leave.
__device__ __forceinline__ int slot_of(bool halves, int t, int i) {
    const int p = t * 2 + (i & 1);
    return halves ? (i >> 2) * 16 + (i >> 1 & 1) * 8 + p : ((i >> 2) * 2 + (i >> 1 & 1)) * 8 + p;
}

// The eight values of a lane in one of a record's row sets.
__device__ __forceinline__ void fill_set(const pack_target& t, const int32_t* slots, int64_t matrix,
                                         int64_t first_row, int set, uint8_t* target) {
    const int lane = threadIdx.x % 32, merged = t.merged();
    const int in_bundle = set * 8 + lane / 4;
    const int64_t row = first_row + in_bundle;
    const int part = merged > 1 ? in_bundle / t.a.vector_length : 0;
    const int64_t v = row % t.a.vector_length;
    uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int32_t slot = slots[slot_of(t.shape.halves, lane % 4, i) * merged + part];
        if (slot < 0 || row >= t.a.rows) continue;
        const uint32_t bits = cuda::value_bits(t.a, t.a.value_index(matrix, slot, v));
        if (t.shape.halves) {
            words[i / 2] |= bits << i % 2 * 16;
        } else if (t.shape.planes == 2) {
            // The high byte is the first, signed plane.
            words[i / 4] |= (bits >> 8 & 0xff) << i % 4 * 8;
            words[2 + i / 4] |= (bits & 0xff) << i % 4 * 8;
        } else {
            words[i / 4] |= (bits & 0xff) << i % 4 * 8;
        }
    }
    if (t.shape.halves) {
        reinterpret_cast<uint4*>(target)[lane] = make_uint4(words[0], words[1], words[2], words[3]);
        return;
    }
    reinterpret_cast<uint2*>(target)[lane] = make_uint2(words[0], words[1]);
    if (t.shape.planes == 2)
        reinterpret_cast<uint2*>(target)[32 + lane] = make_uint2(words[2], words[3]);
}

__global__ void __launch_bounds__(consumer_warps * 32)
    fill_kernel(const __grid_constant__ pack_target t, uint8_t* records) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t group = blockIdx.x;
    const auto fill = [&](int64_t record, int64_t offset, int64_t bundle) {
        const int32_t* slots = t.slots + record * step_slots * t.merged();
        for (int set = 0; set < t.shape.row_sets; ++set)
            fill_set(t, slots, group / t.groups_a_matrix, t.bundle_rows[bundle], set,
                     records + offset + set * t.shape.planes * t.shape.set_bytes());
        if (records == t.records || lane >= step_slots / 2) return;
        const int64_t numbers = offset + t.shape.numbers_at();
        reinterpret_cast<uint32_t*>(records + numbers)[lane] =
            reinterpret_cast<const uint32_t*>(t.records + numbers)[lane];
    };
    const slab_geometry& g = t.geometry;
    for (int64_t slab = blockIdx.y; slab < g.slabs; slab += gridDim.y) {
        each_record(t, group, slab, fill);
        if (records == t.records || lane != 0) continue;
        const int64_t part = int64_t{t.parts[group * g.slabs + slab].begin} * 16;
        reinterpret_cast<uint2*>(records + part)[warp] =
            reinterpret_cast<const uint2*>(t.records + part)[warp];
    }
}

// A block a part.
dim3 part_grid(const pack_target& t) {
    return dim3(static_cast<unsigned>(t.groups),
                static_cast<unsigned>(std::min(t.geometry.slabs, 65535)));
}

template <class T>
void upload(const context& ctx, T* target, const std::vector<T>& array) {
    copy_memory(ctx, target, array.data(), array.size() * sizeof(T));
}

template <class T>
std::vector<T> download(const context& ctx, const T* array, int64_t count) {
    std::vector<T> result(static_cast<size_t>(count));
    copy_memory(ctx, result.data(), array, result.size() * sizeof(T));
    synchronize(ctx);
    return result;
}

}  // namespace

pattern_packer::pattern_packer(const context& ctx, const sr_bcrs_view& a, const slab_shape& shape,
                               int64_t matrices, bool keep_rows_together)
    : a_(a), shape_(shape) {
    if (matrices == 0 || a.rows == 0) return;
    const bundle_source source{matrices, a.rows,
                               std::max<int64_t>(a.vector_length, shape.bundle_rows()),
                               a.different_patterns};
    const device_scope scope(ctx.ordinal);
    list_columns(ctx, source, keep_rows_together);
    measure(ctx);
}

void pattern_packer::list_columns(const context& ctx, const bundle_source& source,
                                  bool keep_rows_together) {
    const int64_t lists_a_matrix = ceil_div(source.rows, source.list_rows);
    const int64_t lists = lists_a_matrix * (source.different_patterns ? source.matrices : 1);
    const int64_t groups =
        ceil_div(ceil_div(source.rows, shape_.bundle_rows()), shape_.group_bundles()) *
        source.matrices;
    require(lists <= INT32_MAX && groups <= INT32_MAX, status::not_supported, "A has ", lists,
            " block rows of ", source.list_rows, " or more; the slab kernel takes 2^31 - 1");
    buffer_layout tables;
    const char* what = "the tables of columns";
    const int64_t begins_at = tables.reserve(lists * begins_a_list, 4, what);
    const int64_t starts_at = tables.reserve(lists, 8, what);
    const int64_t of_bundle_at = tables.reserve(groups * shape_.group_bundles(), 4, what);
    tables_.emplace(ctx, tables.bytes());
    lists_.begins = tables_->as<int32_t>(begins_at);
    lists_.starts = tables_->as<int64_t>(starts_at);
    lists_.of_bundle = tables_->as<int32_t>(of_bundle_at);

    const list_source from{a_, static_cast<int32_t>(source.list_rows),
                           static_cast<int32_t>(lists_a_matrix)};
    const auto grid = static_cast<unsigned>(lists);
    const auto run_list_kernel = [&] {
        check(launch_kernel(list_kernel, {grid, list_threads, 0, ctx.stream}, from, lists, lists_),
              "list_kernel");
    };
    run_list_kernel();
    const auto begins = download(ctx, lists_.begins, lists * begins_a_list);
    std::vector<int32_t> lengths;
    std::vector<int64_t> starts;
    int64_t columns = 0;
    for (size_t end = residues; end < begins.size(); end += begins_a_list) {
        lengths.push_back(begins[end]);
        starts.push_back(columns);
        columns += begins[end];
    }
    outline_ = group_bundles(source, shape_, lengths, keep_rows_together);
    upload(ctx, tables_->as<int64_t>(starts_at), starts);
    upload(ctx, tables_->as<int32_t>(of_bundle_at), outline_.lists);
    if (columns > 0) {
        columns_.emplace(ctx, columns * 4);
        lists_.columns = columns_->as<int32_t>();
        run_list_kernel();
    }
    synchronize(ctx);  // the arrays on the host end here
}

void pattern_packer::measure(const context& ctx) {
    const auto candidates = geometries_for(a_.cols, shape_);
    require(candidates.size() <= most_candidates, status::internal_error, "too many geometries");
    candidate_list list{};
    std::copy(candidates.begin(), candidates.end(), list.geometries);
    const int64_t groups =
        static_cast<int64_t>(outline_.bundle_rows.size()) / shape_.group_bundles();
    const int64_t count = groups * static_cast<int64_t>(candidates.size());
    const cuda::scratch sizes(ctx, count * static_cast<int64_t>(sizeof(group_size)));
    const dim3 grid(static_cast<unsigned>(groups), static_cast<unsigned>(candidates.size()));
    check(launch_kernel(measure_kernel, {grid, 32, 0, ctx.stream}, lists_, shape_, list,
                        sizes.as<group_size>()),
          "measure_kernel");
    choose_geometry(outline_, candidates, download(ctx, sizes.as<group_size>(), count));
}

int64_t pattern_packer::slot_map_bytes() const {
    const int64_t records =
        (outline_.record_bytes - outline_.parts() * header_bytes) / shape_.record_bytes();
    const int64_t merged = std::max(1, 8 / a_.vector_length);
    return checked_mul(records, step_slots * merged * 4, "the slot map");
}

void pattern_packer::write(const context& ctx, const pack_target& target) const {
    if (target.groups == 0) return;
    const device_scope scope(ctx.ordinal);
    const cuda::scratch begins(ctx, target.groups * 8);
    upload(ctx, begins.as<int64_t>(), outline_.record_begins);
    upload(ctx, target.bundle_rows, outline_.bundle_rows);
    set_memory(ctx, target.parts + outline_.parts(), 0, parts_read_ahead * sizeof(slab_part));
    const auto groups = static_cast<unsigned>(target.groups);
    check(launch_kernel(write_kernel, {groups, 32, 0, ctx.stream}, target, lists_,
                        begins.as<int64_t>()),
          "write_kernel");
    if (!shape_.keys_only) {
        constexpr int threads = consumer_warps * 32;
        check(launch_kernel(find_kernel, {part_grid(target), threads, 0, ctx.stream}, target),
              "find_kernel");
        // The first values may come with a call that is being captured.
        check(magicube::cuda::load_kernel(fill_kernel), "fill_kernel");
    }
    synchronize(ctx);  // the arrays on the host and those that the caller may free end here
}

cudaError_t fill_values(const pack_target& target, const void* values, uint8_t* records,
                        cudaStream_t stream) {
    if (target.groups == 0) return cudaSuccess;
    pack_target source = target;
    source.a.values = const_cast<void*>(values);  // not written
    return launch_kernel(fill_kernel, {part_grid(target), consumer_warps * 32, 0, stream}, source,
                         records);
}

}  // namespace magicube::spmm::sm90
