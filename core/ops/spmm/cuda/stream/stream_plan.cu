// SPDX-License-Identifier: Apache-2.0
// The stream family as an implementation of SpMM: what it accepts, its packing, its launches.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/common/checked.hpp"
#include "core/device/cuda/check.hpp"
#include "core/device/cuda/runtime.hpp"
#include "core/device/device.hpp"
#include "core/formats/cuda/launch.cuh"
#include "core/ops/make_plan.hpp"
#include "core/ops/spmm/cuda/scratch.hpp"
#include "core/ops/spmm/cuda/stream/stream_launch.hpp"
#include "core/ops/spmm/cuda/stream/stream_pack.hpp"
#include "core/ops/spmm/cuda/stream/stream_schedule.hpp"
#include "core/ops/spmm/spmm.hpp"

namespace magicube::spmm {
namespace stream {

int64_t shared_bytes(operand_kind kind, int chunks, int64_t segment_rows) {
    return row_bytes(kind, chunks) * (zero_rows + segment_rows) + ring_bytes(kind) +
           partial_bytes(kind, chunks);
}

namespace {

using cuda::scratch;
using magicube::cuda::check;
using magicube::cuda::device_scope;

constexpr int64_t most_matrices = 65535;  // of a batch: blockIdx.y
constexpr int64_t segment_step = 32;      // rows, whole words of the packer's bitmap

#define MAGICUBE_STREAM(KIND) {&stream_##KIND##_1, &stream_##KIND##_2, &stream_##KIND##_4},
const stream_instance* const instances[][3] = {MAGICUBE_STREAM_KINDS(MAGICUBE_STREAM)};
#undef MAGICUBE_STREAM

std::optional<operand_kind> kind_of(precision_pair pair) {
    if (pair.rhs == dtype::int16) return {};
    switch (pair.lhs) {
        case dtype::int4:
            return operand_kind::s4;
        case dtype::int8:
            return operand_kind::s8;
        case dtype::uint8:
            return operand_kind::u8;
        case dtype::int12:
        case dtype::int16:
            return operand_kind::s8u8;
        case dtype::e4m3:
            return operand_kind::e4m3;
        case dtype::fp16:
            return operand_kind::fp16;
        case dtype::bf16:
            return operand_kind::bf16;
        default:
            return {};
    }
}

int chunks_for(int64_t n) {
    return n <= 16 ? 1 : n <= 32 ? 2 : 4;
}

// Of a panel, at least.
int least_chunks(const problem& p) {
    return p.n_max > 4 * chunk_columns ? 1 : chunks_for(p.n_max);
}

const stream_instance& instance_for(operand_kind kind, int chunks) {
    return *instances[static_cast<int>(kind)][chunks / 2];
}

// Of a CTA, at most.
int shared_bytes_of(const context& ctx) {
    int bytes = 0;
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, ctx.ordinal),
          "cudaDeviceGetAttribute");
    return bytes;
}

// Makes a kernel ready for launches. Returns the architecture that its code was compiled for.
int load(const context& ctx, operand_kind kind, int chunks) {
    device_scope scope(ctx.ordinal);
    const auto info = instance_for(kind, chunks).load(shared_bytes_of(ctx));
    check(info.code, "stream_kernel");
    return info.architecture;
}

// Rows of B that fit in shared memory beside the sums.
int64_t rows_that_fit(const context& ctx, operand_kind kind, int chunks) {
    const int64_t rows = (shared_bytes_of(ctx) - ring_bytes(kind) - partial_bytes(kind, chunks)) /
                         row_bytes(kind, chunks);
    constexpr int64_t numbered = 65536;
    return (std::min(rows, numbered) - zero_rows) / segment_step * segment_step;
}

// Matrices of the batch that have records of their own.
int64_t matrices_of(const problem& p) {
    const auto& a = p.pattern;
    if (p.batch_count == 0) return 0;
    return a.batch_count > 1 && (a.different_patterns || a.values_stride != 0) ? a.batch_count : 1;
}

// How A and B are cut.
struct cutting {
    pack_source source{};
    int chunks;      // of a panel
    int64_t panels;  // of n_max columns
    int64_t ctas;    // for a panel of one matrix

    cutting(const context& ctx, const problem& p, int panel_chunks) : chunks(panel_chunks) {
        source.a = p.pattern;
        source.bundles = ceil_div(p.pattern.rows, int64_t{bundle_rows});
        const int64_t k = std::max<int64_t>(p.pattern.cols, 1);
        source.segments =
            static_cast<int32_t>(ceil_div(k, rows_that_fit(ctx, *kind_of(p.pair()), chunks)));
        source.segment_rows =
            static_cast<int32_t>(round_up(ceil_div(k, int64_t{source.segments}), segment_step));
        panels = std::max<int64_t>(ceil_div(p.n_max, int64_t{chunks} * chunk_columns), 1);
        // One a multiprocessor, shared by the panels and by the matrices of the batch.
        const int64_t sharing = panels * std::max<int64_t>(p.batch_count, 1);
        ctas = std::clamp<int64_t>(magicube::cuda::multiprocessors(ctx.ordinal) / sharing, 1,
                                   std::max<int64_t>(source.bundles, 1));
    }
};

// Vectors of the bundles of one matrix, about: of merged block rows those columns that at least one
// has, were they independent.
double count_vectors(const sr_bcrs_view& a) {
    const double matrices =
        static_cast<double>(a.different_patterns ? std::max<int64_t>(a.batch_count, 1) : 1);
    const double slots = static_cast<double>(a.slots) / matrices;
    const int v = a.vector_length;
    const double area = static_cast<double>(a.block_rows()) * static_cast<double>(a.cols);
    if (v >= bundle_rows || area == 0) return slots * std::max(1, v / bundle_rows);
    double absent = 1;
    for (int i = 0; i < bundle_rows / v; ++i) absent *= 1 - std::min(1.0, slots / area);
    return (1 - absent) * area * v / bundle_rows;
}

// The records of A over the memory's bandwidth, for further panels over that of L2, unless the
// gathers take longer; B into every multiprocessor through L2, again for each tile if it comes in
// segments, before each of which the warps wait for each other. Where panels share the
// multiprocessors, a CTA has many bundles to finish.
double cost_of(const context& ctx, const problem& p, const cutting& cut) {
    constexpr double launch_us = 3.2, unit_us = 2.5, finished_bundle_us = 0.14;
    constexpr double memory_bytes_per_us = 4.2e6, l2_bytes_per_us = 8e6;
    constexpr double fill_bytes_per_us = 6e4, gathered_bytes_per_us = 2e5;  // of a multiprocessor
    const operand_kind kind = *kind_of(p.pair());
    const double vectors = count_vectors(p.pattern);
    const double bytes = vectors / record_slots * (record_value_bytes(kind) + record_index_bytes) *
                         static_cast<double>(matrices_of(p));
    const auto panels = static_cast<double>(cut.panels);
    const double streaming = bytes / memory_bytes_per_us + (panels - 1) * bytes / l2_bytes_per_us;
    const auto b_row_bytes = static_cast<double>(row_bytes(kind, cut.chunks));
    const double gathering =
        vectors / static_cast<double>(cut.ctas) * b_row_bytes / gathered_bytes_per_us;
    const int64_t tiles =
        ceil_div(ceil_div(cut.source.bundles, cut.ctas), int64_t{tile_bundles(cut.chunks)});
    const double fills = static_cast<double>(p.pattern.cols) * b_row_bytes / fill_bytes_per_us *
                         static_cast<double>(cut.source.segments == 1 ? 1 : tiles);
    const double waits = unit_us * static_cast<double>(cut.source.segments * tiles - 1);
    const double ctas = static_cast<double>(cut.ctas) * panels * static_cast<double>(p.batch_count);
    const double waves = std::max(1.0, ctas / magicube::cuda::multiprocessors(ctx.ordinal));
    const double finishing = cut.panels == 1
                                 ? 0
                                 : finished_bundle_us * static_cast<double>(cut.source.bundles) /
                                       static_cast<double>(cut.ctas);
    return launch_us + std::max(streaming, gathering * waves) + (fills + waits + finishing) * waves;
}

// One panel where a kernel's sums hold all columns; otherwise the width that costs least.
cutting cut(const context& ctx, const problem& p) {
    if (p.n_max <= chunks_for(p.n_max) * chunk_columns) return cutting(ctx, p, chunks_for(p.n_max));
    cutting best(ctx, p, 1);
    for (const int chunks : {2, 4}) {
        if (rows_that_fit(ctx, *kind_of(p.pair()), chunks) < segment_step) continue;
        const cutting other(ctx, p, chunks);
        if (cost_of(ctx, p, other) < cost_of(ctx, p, best)) best = other;
    }
    return best;
}

std::string decline(const context& ctx, const problem& p) {
    const auto kind = kind_of(p.pair());
    const int capability = magicube::cuda::compute_capability(ctx.ordinal);
    if (!kind)
        return text("it has no kernel for ", name_of(p.pattern.type), "/", name_of(p.b_type));
    if (capability < 80) return text("it needs an sm_80 GPU; this is sm_", capability);
    if (p.n_max > most_columns)
        return text("n_max is ", p.n_max, "; it serves up to ", most_columns, " columns");
    if (p.batch_count > most_matrices)
        return text("the batch has ", p.batch_count, " matrices; it takes ", most_matrices);
    if (rows_that_fit(ctx, *kind, least_chunks(p)) < segment_step)
        return "the device has too little shared memory for so many columns";
    if (kind == operand_kind::e4m3) {
        const int compiled = load(ctx, *kind, least_chunks(p));
        if (compiled < 89)
            return text("e4m3 needs sm_89; this library's code for the GPU is sm_", compiled);
    }
    return "";
}

// Waits for the device.
schedule make_schedule(const context& ctx, const problem& p, const cutting& cut) {
    const pack_source& source = cut.source;
    device_scope scope(ctx.ordinal);
    magicube::cuda::require_no_capture(ctx);
    schedule_shape shape;
    shape.matrices = matrices_of(p);
    shape.bundles = source.bundles;
    shape.segments = source.segments;
    shape.largest_tile = tile_bundles(cut.chunks);
    shape.ctas = cut.ctas;
    const int64_t counts = checked_mul(shape.matrices * shape.bundles, shape.segments, "segments");
    require(counts < UINT32_MAX, status::not_supported, "A has ", counts,
            " bundles and segments, more than the stream kernel can number");
    std::vector<uint32_t> records(static_cast<size_t>(counts));
    if (counts > 0) {
        const size_t bytes = records.size() * sizeof(records[0]);
        const scratch memory(ctx, static_cast<int64_t>(bytes));
        check(count_records(source, shape.matrices, memory.as<uint32_t>(), ctx.stream),
              "count_kernel");
        copy_memory(ctx, records.data(), memory.as<void>(), bytes);
        synchronize(ctx);
    }
    return make_schedule(shape, records);
}

// Where the sections of the plan's buffer lie.
struct layout {
    int64_t values, indices, entries, slots, row_begin, bytes;
    int64_t value_bytes, slot_bytes, row_begin_bytes;

    layout(const problem& p, const pack_source& source, const schedule& s) {
        const int64_t records = s.entries.empty() ? 0 : s.entries.back().record;
        value_bytes = records * record_value_bytes(*kind_of(p.pair()));
        slot_bytes = checked_mul(records, record_slots * source.parts() * 4, "the slot map");
        row_begin_bytes = p.pattern.block_rows() *
                          (p.pattern.different_patterns ? p.pattern.batch_count : 1) *
                          index_bytes(p.pattern.row_begin.type);
        const bool kept = p.values != value_mode::fixed;
        buffer_layout sections;
        const auto reserve = [&](int64_t count, int64_t each) {
            return sections.reserve(count, each, "the packed A");
        };
        values = reserve(p.values == value_mode::per_call ? 0 : value_bytes, 1);
        indices = reserve(records, record_index_bytes);
        entries = reserve(static_cast<int64_t>(s.entries.size()), sizeof(entry));
        slots = reserve(kept ? slot_bytes : 0, 1);
        row_begin = reserve(kept ? row_begin_bytes : 0, 1);
        bytes = sections.bytes();
    }
};

buffer_needs needs(const context& ctx, const problem& p) {
    const cutting how = cut(ctx, p);
    const layout at(p, how.source, make_schedule(ctx, p, how));
    return {at.bytes, p.values == value_mode::per_call ? at.value_bytes : 0};
}

// How the kernel had best read B.
b_source source_of(const dense_view& b) {
    const int64_t bits = storage_bits(b.type);
    b_source s{};
    s.data = static_cast<const uint8_t*>(b.values);
    s.int4 = b.type == dtype::int4;
    s.row_stride = b.storage == order::row ? b.ld : 1;
    s.col_stride = b.storage == order::row ? 1 : b.ld;
    s.batch_stride = b.batch_stride;
    s.rows = b.rows;
    s.cols = static_cast<int32_t>(b.cols);
    const auto aligned = [&](int64_t bytes, int64_t stride) {
        return reinterpret_cast<uintptr_t>(b.values) % static_cast<uintptr_t>(bytes) == 0 &&
               stride * bits % (bytes * 8) == 0 && b.batch_stride * bits % (bytes * 8) == 0;
    };
    s.path = b_path::elements;
    if (s.row_stride == 1 && aligned(4, b.cols == 1 ? 8 : s.col_stride)) {
        s.path = b_path::columns;
    } else if (s.col_stride == 1) {
        for (const int vector : {16, 8, 4}) {
            if (s.int4 && vector > 4) continue;
            if (!aligned(vector, s.row_stride) || b.cols * bits % (vector * 8) != 0) continue;
            s.path = b_path::rows;
            s.vector_bytes = vector;
            break;
        }
    }
    return s;
}

class stream_plan final : public plan {
  public:
    stream_plan(const context& ctx, const spmm::problem& p, plan_resources resources)
        : plan(ctx, p, std::move(resources)), kind_(*kind_of(p.pair())) {
        const cutting how = cut(ctx, p);
        source_ = how.source;
        chunks_ = how.chunks;
        ctas_ = how.ctas;
        const schedule s = make_schedule(ctx, p, how);
        const layout at(p, source_, s);
        char* buffer = this->resources().buffer.data();
        values_ = reinterpret_cast<uint8_t*>(buffer + at.values);
        arguments_.values = values_;
        auto* indices = reinterpret_cast<uint16_t*>(buffer + at.indices);
        arguments_.indices = reinterpret_cast<const uint8_t*>(indices);
        copy_memory(ctx, buffer + at.entries, s.entries.data(), s.entries.size() * sizeof(entry));
        arguments_.entries = reinterpret_cast<const entry*>(buffer + at.entries);
        arguments_.ctas_apart = matrices_of(p) > 1 ? ctas_ : 0;
        arguments_.tiles_a_cta = static_cast<int32_t>(s.tiles_a_cta);
        arguments_.tile_bundles = static_cast<int32_t>(s.tile_bundles);
        arguments_.bundles = static_cast<uint32_t>(source_.bundles);
        arguments_.segments = source_.segments;
        arguments_.segment_rows = source_.segment_rows;
        arguments_.fixed_values = p.values == value_mode::fixed;
        // Every kernel that an execution may take: executions neither load nor allocate.
        arguments_.overlaps = true;
        for (int chunks = 1; chunks <= chunks_; chunks *= 2)
            arguments_.overlaps &= load(ctx, kind_, chunks) >= 90;
        entry_count_ = static_cast<int64_t>(s.entries.size());
        tell_first_runs(s);
        pack(ctx, p, at, indices);
        synchronize(ctx);  // the arrays on the host and those that the caller may free end here
        source_.a = problem().pattern;
        source_.a.row_begin.data = buffer + at.row_begin;
    }

    void pack_values(const context& ctx, const void* values) override {
        fill(ctx, values, values_);
    }

    sr_bcrs_view matrix_with(const void* values) const override {
        sr_bcrs_view view = problem().pattern;
        view.values = const_cast<void*>(values);  // not written: an operand
        view.read_only = true;
        return view;
    }

    void run(const context& ctx, const arguments& args) const override {
        stream_arguments k = arguments_;
        k.store = cuda::make_store_arguments(ctx, problem(), args);
        k.b = source_of(args.b);
        if (problem().values == value_mode::per_call) {
            auto* values = static_cast<uint8_t*>(args.workspace);
            fill(ctx, args.a_values, values);
            k.values = values;
        }
        const int chunks = std::min(chunks_for(args.b.cols), chunks_);
        const dim3 grid(static_cast<unsigned>(ctas_), static_cast<unsigned>(problem().batch_count),
                        static_cast<unsigned>(ceil_div(args.b.cols, chunks * chunk_columns)));
        device_scope scope(ctx.ordinal);
        check(instance_for(kind_, chunks).launch(k, grid, ctx.stream), "stream_kernel");
    }

  private:
    void pack(const context& ctx, const spmm::problem& p, const layout& at, uint16_t* indices) {
        char* buffer = this->resources().buffer.data();
        std::optional<scratch> temporary;
        if (p.values == value_mode::fixed && at.slot_bytes > 0) {
            temporary.emplace(ctx, at.slot_bytes);
            slots_ = temporary->as<int32_t>();
        } else {
            slots_ = reinterpret_cast<int32_t*>(buffer + at.slots);
        }
        if (entry_count_ > 0) {
            device_scope scope(ctx.ordinal);
            check(place_slots(source_, kind_, arguments_.entries, entry_count_, indices, slots_,
                              ctx.stream),
                  "place_kernel");
            if (p.values != value_mode::fixed)
                copy_memory(ctx, buffer + at.row_begin, p.pattern.row_begin.data,
                            static_cast<size_t>(at.row_begin_bytes));
        }
        if (p.values != value_mode::per_call) fill(ctx, p.pattern.values, values_);
        if (temporary) synchronize(ctx);
    }

    void tell_first_runs(const schedule& s) {
        const int64_t a_cta = s.tiles_a_cta * source_.segments * (s.tile_bundles + 1);
        const int64_t ctas = entry_count_ / a_cta;
        if (ctas > most_first_runs) return;
        arguments_.first_run_count = static_cast<int32_t>(ctas);
        for (int64_t i = 0; i < ctas; ++i) {
            const auto* e = s.entries.data() + i * a_cta;
            arguments_.first_runs[i] = {e[0].record, e[s.tile_bundles].record};
        }
    }

    void fill(const context& ctx, const void* values, uint8_t* target) const {
        if (entry_count_ == 0) return;
        pack_source source = source_;
        source.a.values = const_cast<void*>(values);  // not written
        device_scope scope(ctx.ordinal);
        check(fill_values(source, kind_, arguments_.entries, entry_count_, slots_, target,
                          ctx.stream),
              "fill_kernel");
    }

    operand_kind kind_;
    pack_source source_;
    stream_arguments arguments_{};
    uint8_t* values_ = nullptr;
    int32_t* slots_ = nullptr;
    int64_t entry_count_ = 0;
    int64_t ctas_ = 1;
    int chunks_ = 1;  // of a panel, at most
};

double cost(const context& ctx, const problem& p) {
    return cost_of(ctx, p, cut(ctx, p));
}

}  // namespace
}  // namespace stream

extern const implementation<operation> cuda_stream;
const implementation<operation> cuda_stream = {"stream",
                                               device_kind::cuda,
                                               false,
                                               stream::decline,
                                               stream::cost,
                                               stream::needs,
                                               make_plan<operation, stream::stream_plan>};

}  // namespace magicube::spmm
