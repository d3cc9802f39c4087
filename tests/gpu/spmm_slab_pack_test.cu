// SPDX-License-Identifier: Apache-2.0
// The slab family's packing on the device, read back as the kernel reads it.
#include "core/ops/spmm/cuda/sm90/slab_pack.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <map>
#include <random>

#include "core/common/error.hpp"
#include "core/device/device.hpp"

namespace magicube::spmm::sm90 {
namespace {

// A random matrix of 8- or 16-bit values in SR-BCRS.
struct sample {
    std::vector<int64_t> begin, end;
    std::vector<int32_t> columns;
    std::vector<uint8_t> values;
    sr_bcrs_view view;

    sample(int64_t rows, int64_t cols, int v, double density, double dense_row, dtype type,
           unsigned seed) {
        std::mt19937 random(seed);
        const int64_t block_rows = ceil_div(rows, v);
        for (int64_t i = 0; i < block_rows; ++i) {
            std::bernoulli_distribution present(i == block_rows / 2 ? dense_row : density);
            begin.push_back(static_cast<int64_t>(columns.size()));
            for (int64_t k = 0; k < cols; ++k)
                if (present(random)) columns.push_back(static_cast<int32_t>(k));
            end.push_back(static_cast<int64_t>(columns.size()));
            while (columns.size() % 16 != 0) columns.push_back(-1);
        }
        const auto bytes = static_cast<size_t>(storage_bits(type) / 8);
        for (size_t i = 0; i < columns.size() * static_cast<size_t>(v) * bytes; ++i)
            values.push_back(static_cast<uint8_t>(random()));
        view.rows = rows;
        view.cols = cols;
        view.values = values.data();
        view.type = type;
        view.vector_length = v;
        view.stride = 16;
        view.slots = static_cast<int64_t>(columns.size());
        view.row_begin = {begin.data(), index_type::int64};
        view.row_end = {end.data(), index_type::int64};
        view.col_indices = columns.data();
    }
};

context on_gpu() {
    context ctx;
    ctx.device = device_kind::cuda;
    return ctx;
}

// An array of the device that starts as a copy, or poisoned.
template <class T>
class device_array {
  public:
    explicit device_array(size_t count)
        : count_(count), memory_(on_gpu(), static_cast<int64_t>(count * sizeof(T) + 1)) {
        set_memory(on_gpu(), data(), 0xa5, count * sizeof(T));
    }
    explicit device_array(const std::vector<T>& host) : device_array(host.size()) {
        copy_memory(on_gpu(), data(), host.data(), count_ * sizeof(T));
        synchronize(on_gpu());
    }
    T* data() const { return memory_.as<T>(); }
    std::vector<T> read() const {
        std::vector<T> host(count_);
        copy_memory(on_gpu(), host.data(), data(), count_ * sizeof(T));
        synchronize(on_gpu());
        return host;
    }

  private:
    size_t count_;
    cuda::scratch memory_;
};

// A packed matrix, back on the host.
struct packed_slabs {
    slab_geometry geometry{};
    std::vector<slab_part> parts;
    std::vector<uint8_t> records;
    std::vector<int32_t> bundle_rows;
    int64_t groups_a_matrix = 0;
};

// in_call: the values are filled into records of their own, as PER_CALL plans do.
packed_slabs pack(const sample& a, const slab_shape& shape, int64_t matrices, bool together,
                  bool in_call) {
    const device_array<int64_t> begin(a.begin), end(a.end);
    const device_array<int32_t> columns(a.columns);
    const device_array<uint8_t> values(a.values);
    sr_bcrs_view view = a.view;
    view.row_begin.data = begin.data();
    view.row_end.data = end.data();
    view.col_indices = columns.data();
    view.values = nullptr;
    const pattern_packer packer(on_gpu(), view, shape, matrices, together);
    const slab_outline& outline = packer.outline();
    const device_array<slab_part> parts(static_cast<size_t>(outline.parts()) + parts_read_ahead);
    const device_array<uint8_t> records(static_cast<size_t>(outline.record_bytes));
    const device_array<uint8_t> own(static_cast<size_t>(outline.record_bytes));
    const device_array<int32_t> bundle_rows(outline.bundle_rows.size());
    const device_array<uint8_t> slots(static_cast<size_t>(packer.slot_map_bytes()));
    pack_target target{view,
                       shape,
                       outline.groups(),
                       outline.groups_a_matrix,
                       outline.geometry,
                       bundle_rows.data(),
                       parts.data(),
                       records.data(),
                       reinterpret_cast<int32_t*>(slots.data())};
    packer.write(on_gpu(), target);
    const auto& filled = in_call ? own : records;
    REQUIRE(fill_values(target, values.data(), filled.data(), nullptr) == cudaSuccess);
    return {outline.geometry, parts.read(), filled.read(), bundle_rows.read(),
            outline.groups_a_matrix};
}

using element = std::pair<int64_t, int64_t>;  // row, column

// The stored elements, as bits.
std::map<element, uint32_t> elements_of(const sample& a) {
    const int64_t v = a.view.vector_length;
    const auto bytes = static_cast<size_t>(storage_bits(a.view.type) / 8);
    std::map<element, uint32_t> result;
    for (size_t block = 0; block < a.begin.size(); ++block)
        for (int64_t slot = a.begin[block]; slot < a.end[block]; ++slot)
            for (int64_t r = 0; r < v; ++r) {
                const int64_t row = static_cast<int64_t>(block) * v + r;
                if (row >= a.view.rows) continue;
                uint32_t bits = 0;
                std::memcpy(
                    &bits,
                    a.values.data() + static_cast<size_t>(a.view.value_index(0, slot, r)) * bytes,
                    bytes);
                if (bits != 0) result[{row, a.columns[static_cast<size_t>(slot)]}] = bits;
            }
    return result;
}

// The value that the MMA multiplies row `slot` of a step with, for row g of a set of 8. For bytes,
// lane (g, t) feeds the rows 2t and 2t + 1 of matrices 0 and 1, then of 2 and 3; for halves, of the
// step's first 16 rows those, and 8 further on, then of its last 16.
uint32_t value_at(const uint8_t* set, bool halves, int slot, int g) {
    if (!halves)
        return set[(g * 4 + slot % 8 / 2) * 8 + slot / 16 * 4 + slot / 8 % 2 * 2 + slot % 2];
    uint16_t bits = 0;
    const int word = slot / 16 * 2 + slot % 16 / 8;
    std::memcpy(&bits, set + (g * 4 + slot % 8 / 2) * 16 + word * 4 + slot % 2 * 2, 2);
    return bits;
}

class reader {
  public:
    reader(const packed_slabs& packed, const slab_shape& shape) : p_(packed), shape_(shape) {}

    std::map<element, uint32_t> read() {
        const auto& g = p_.geometry;
        const auto a_group = static_cast<size_t>(consumer_warps * shape_.bundles);
        const size_t groups = p_.bundle_rows.size() / a_group;
        REQUIRE(p_.parts.size() == groups * static_cast<size_t>(g.slabs) + parts_read_ahead);
        for (size_t group = 0; group < groups; ++group)
            for (int slab = 0; slab < g.slabs; ++slab)
                read_part(
                    p_.parts[group * static_cast<size_t>(g.slabs) + static_cast<size_t>(slab)],
                    &p_.bundle_rows[group * a_group], slab);
        for (size_t i = p_.parts.size() - parts_read_ahead; i < p_.parts.size(); ++i)
            REQUIRE(p_.parts[i].length == 0);
        return std::move(elements_);
    }

  private:
    void read_part(slab_part part, const int32_t* rows, int slab) {
        REQUIRE(part.length * 16 <= static_cast<uint32_t>(p_.geometry.a_bytes));
        const uint8_t* bytes = p_.records.data() + size_t{part.begin} * 16;
        uint32_t used = header_bytes;
        for (int warp = 0; warp < consumer_warps; ++warp) {
            uint32_t header[2];
            std::memcpy(header, bytes + warp * 8, 8);
            REQUIRE(header[0] == used);
            for (int b = 0; b < shape_.bundles; ++b)
                for (uint32_t i = 0; i < (header[1] >> (8 * b) & 0xff); ++i) {
                    read_record(bytes + used, rows[warp * shape_.bundles + b], slab);
                    used += static_cast<uint32_t>(shape_.record_bytes());
                }
        }
        REQUIRE(used == part.length * 16);
    }

    void read_record(const uint8_t* record, int32_t first_row, int slab) {
        const auto& g = p_.geometry;
        int16_t numbers[step_slots];
        std::memcpy(numbers, record + shape_.record_bytes() - sizeof(numbers), sizeof(numbers));
        for (int slot = 0; slot < step_slots; ++slot) {
            const bool zeros = numbers[slot] >= hole_numbers;
            REQUIRE((!zeros || shape_.floats));
            // 8 or 4 units of 16 bytes a row; the swizzle is the row's number mod 8, or half of it.
            const int unit = numbers[slot] - (zeros ? hole_numbers : 0);
            const bool wide = shape_.row_bytes == 128;
            const int row = wide ? unit >> 3 : unit >> 2;
            REQUIRE((wide ? (unit ^ row) & 7 : (unit ^ row >> 1) & 3) == 0);
            const int64_t k = int64_t{slab} * g.slab_rows + row;
            if (!zeros) {
                REQUIRE(row >= -g.kept * g.slab_rows);
                REQUIRE(row < g.slab_rows);
                REQUIRE(k >= 0);
            }
            for (int r = 0; r < shape_.bundle_rows(); ++r) {
                uint32_t bits = 0;
                for (int plane = 0; plane < shape_.planes; ++plane) {
                    const int set = r / 8 * shape_.planes + plane;
                    const uint8_t* values = record + set * (shape_.halves ? 512 : 256);
                    bits = bits << 8 | value_at(values, shape_.halves, slot, r % 8);
                }
                if (bits == 0) continue;
                REQUIRE(!zeros);
                REQUIRE(first_row >= 0);
                REQUIRE(elements_.emplace(element{first_row + r, k}, bits).second);
            }
        }
    }

    const packed_slabs& p_;
    const slab_shape& shape_;
    std::map<element, uint32_t> elements_;
};

slab_shape shape_for(dtype type, int v, int bundles, bool narrow) {
    slab_shape shape;
    shape.row_bytes = narrow ? 64 : 128;
    shape.planes = type == dtype::int16 ? 2 : 1;
    shape.row_sets = v >= 16 && shape.planes == 1 ? 2 : 1;
    shape.bundles = shape.sets() == 1 ? bundles : 1;
    shape.halves = shape.floats = type == dtype::fp16;
    return shape;
}

void check(int64_t rows, int64_t cols, int v, double density, dtype type, int bundles,
           bool together) {
    CAPTURE(rows);
    CAPTURE(cols);
    CAPTURE(v);
    CAPTURE(density);
    CAPTURE(name_of(type));
    const sample a(rows, cols, v, density, 0.9, type, static_cast<unsigned>(cols + v));
    const slab_shape shape = shape_for(type, v, bundles, type == dtype::int8 && cols % 3 != 0);
    const packed_slabs packed = pack(a, shape, 1, together, cols % 2 == 1);
    const auto& g = packed.geometry;
    CHECK(int64_t{g.slabs} * g.slab_rows >= cols);
    CHECK(g.slab_rows % g.box_rows == 0);
    CHECK(g.a_stages >= 1);
    CHECK(1024 + zero_rows * widest_row_bytes + consumer_warps * store_slots * store_slot_bytes +
              g.b_stages * g.slab_rows * g.row_bytes + g.a_stages * g.a_bytes <=
          shared_bytes);
    CHECK((g.resident() || g.a_stages == g.b_stages - g.kept));
    const bool same = reader(packed, shape).read() == elements_of(a);
    CHECK(same);
}

}  // namespace

TEST_SUITE_BEGIN("gpu/spmm_slab_pack");

TEST_CASE("every element of A is packed once, where the kernel can reach its row of B") {
    for (const dtype type : {dtype::int8, dtype::int16, dtype::fp16})
        for (const int v : {1, 4, 8, 16, 64})
            for (const int64_t cols : {1, 100, 700, 1400, 2100})
                for (const int bundles : {1, 2}) check(323, cols, v, 0.06, type, bundles, false);
    check(1000, 3000, 8, 0.3, dtype::int8, 2, true);
    check(300, 1500, 8, 1.0, dtype::int8, 2, false);
    check(300, 1500, 8, 1.0, dtype::fp16, 2, false);
    check(300, 5000, 16, 1.0, dtype::fp16, 1, false);
}

TEST_CASE("issue_06 packing takes matrices without rows, without vectors and without a batch") {
    check(100, 256, 8, 0.0, dtype::int8, 2, false);
    sample none(64, 64, 8, 0.5, 0.5, dtype::int8, 1);
    none.view.batch_count = 0;
    none.view.row_begin.data = none.view.row_end.data = nullptr;
    const sample no_rows(0, 64, 8, 0.5, 0.5, dtype::int8, 1);
    const auto check_none = [](const sr_bcrs_view& a) {
        const pattern_packer packer(on_gpu(), a, shape_for(dtype::int8, 8, 2, false), a.batch_count,
                                    false);
        CHECK(packer.outline().groups() == 0);
        CHECK(packer.slot_map_bytes() == 0);
    };
    check_none(none.view);
    check_none(no_rows.view);
}

TEST_SUITE_END();

}  // namespace magicube::spmm::sm90
