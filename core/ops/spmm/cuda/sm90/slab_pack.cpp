// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cuda/sm90/slab_pack.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>

namespace magicube::spmm::sm90 {
namespace {

constexpr int residues = 8;  // rows of B whose numbers differ mod 8 share no banks
constexpr int matrices_a_step = step_slots / residues;

// One gathered row of a bundle: its column, and the slot of each block row that the bundle merges
// (V < 8), or the one slot that it is part of; -1 where a block row has no such column.
struct gathered {
    int32_t column;
    std::array<int64_t, 16> slots;
};

struct bundle {
    int64_t first_row = -1;
    std::vector<gathered> rows;
};

// The bundles of one matrix: blocks of V < 8 merged, blocks of V > bundle split.
class bundler {
  public:
    bundler(const sr_bcrs_view& a, const slab_shape& shape, int64_t matrix)
        : a_(a), matrix_(matrix), rows_(shape.bundle_rows()) {}

    int64_t count() const { return ceil_div(a_.rows, rows_); }

    bundle make(int64_t index) const {
        bundle result;
        result.first_row = index * rows_;
        const int64_t v = a_.vector_length;
        const int64_t blocks = std::max<int64_t>(1, rows_ / v);
        std::vector<std::pair<int32_t, std::pair<int, int64_t>>> found;
        for (int64_t b = 0; b < blocks; ++b) {
            const int64_t block_row = result.first_row / v + b;
            if (block_row >= a_.block_rows()) break;
            const int64_t at = a_.block_row_index(matrix_, block_row);
            for (int64_t slot = a_.row_begin[at]; slot < a_.row_end[at]; ++slot)
                found.push_back({a_.col_indices[slot], {static_cast<int>(b), slot}});
        }
        if (blocks > 1) std::sort(found.begin(), found.end());
        for (const auto& [column, place] : found) {
            if (result.rows.empty() || result.rows.back().column != column) {
                result.rows.push_back({column, {}});
                result.rows.back().slots.fill(-1);
            }
            result.rows.back().slots[static_cast<size_t>(place.first)] = place.second;
        }
        return result;
    }

    // Index of the value of a bundle's row, or -1.
    int64_t value_index(const bundle& of, const gathered& row, int r) const {
        const int64_t v = a_.vector_length;
        const int64_t absolute = of.first_row + r;
        const int64_t slot = row.slots[static_cast<size_t>(v < rows_ ? r / v : 0)];
        if (slot < 0 || absolute >= a_.rows) return -1;
        return a_.value_index(matrix_, slot, absolute % v);
    }

  private:
    const sr_bcrs_view& a_;
    int64_t matrix_;
    int rows_;
};

using step = std::array<int32_t, step_slots>;  // indices into bundle::rows; -1: nothing

// Cuts a bundle's rows into steps, slab after slab. Surplus of a residue class waits for the next
// slab, where it can still be reached, unless waiting gains nothing.
class stepper {
  public:
    explicit stepper(const bundle& of) : bundle_(of) {}

    // Steps of the slab [begin, end) of K.
    std::vector<step> advance(int64_t begin, int64_t end, bool last) {
        while (next_ < bundle_.rows.size() && bundle_.rows[next_].column < end) {
            waiting_[bundle_.rows[next_].column % residues].push_back(static_cast<int32_t>(next_));
            ++next_;
        }
        std::vector<step> steps;
        while (true) {
            size_t total = 0, fewest = SIZE_MAX, urgent = 0;
            for (const auto& rows : waiting_) {
                total += rows.size();
                fewest = std::min(fewest, rows.size());
                urgent += count_urgent(rows, begin, last);
            }
            if (total == 0 || (urgent == 0 && fewest < matrices_a_step)) break;
            steps.push_back(take(begin, last));
        }
        return steps;
    }

  private:
    using queue = std::deque<int32_t>;

    size_t count_urgent(const queue& q, int64_t begin, bool last) const {
        if (last) return q.size();
        size_t count = 0;
        while (count < q.size() && column(q[count]) < begin) ++count;
        return count;
    }

    int32_t column(int32_t row) const { return bundle_.rows[static_cast<size_t>(row)].column; }

    // One step: up to four rows of each class without conflict, then surplus into the holes of one
    // matrix after another while that saves more than the conflict costs.
    step take(int64_t begin, bool last) {
        step result;
        result.fill(-1);
        for (int c = 0; c < residues; ++c)
            for (int m = 0; m < matrices_a_step && !waiting_[c].empty(); ++m)
                result[m * residues + c] = pop(c);
        for (int m = matrices_a_step - 1; m >= 0; --m) {
            int holes = 0, classes = 0;
            bool urgent = false;
            for (int c = 0; c < residues; ++c) {
                holes += result[m * residues + c] < 0;
                classes += !waiting_[c].empty();
                urgent |= count_urgent(waiting_[c], begin, last) > 0;
            }
            const int saved = std::min(holes, classes);
            if (saved == 0 || (!urgent && saved < residues / 2)) continue;
            fill_holes(result, m, begin);
        }
        return result;
    }

    void fill_holes(step& result, int m, int64_t begin) {
        std::array<bool, residues> used{};
        for (int c = 0; c < residues; ++c) {
            if (result[m * residues + c] >= 0) continue;
            int best = -1;
            for (int d = 0; d < residues; ++d) {
                if (used[d] || waiting_[d].empty()) continue;
                if (best < 0 || rank(d, begin) > rank(best, begin)) best = d;
            }
            if (best < 0) return;
            used[best] = true;
            result[m * residues + c] = pop(best);
        }
    }

    // What must go now comes first, then the longest queue.
    std::pair<bool, size_t> rank(int c, int64_t begin) const {
        return {column(waiting_[c].front()) < begin, waiting_[c].size()};
    }

    int32_t pop(int c) {
        const int32_t row = waiting_[c].front();
        waiting_[c].pop_front();
        return row;
    }

    const bundle& bundle_;
    size_t next_ = 0;
    std::array<queue, residues> waiting_;
};

// Writes records.
class encoder {
  public:
    encoder(const sr_bcrs_view& a, const slab_shape& shape, const bundler& bundles)
        : a_(a), shape_(shape), bundles_(bundles) {}

    void append(std::vector<uint8_t>& out, const bundle& of, const step& s, int64_t begin) const {
        const size_t start = out.size();
        out.resize(start + static_cast<size_t>(shape_.record_bytes()));
        uint8_t* record = out.data() + start;
        auto* numbers = reinterpret_cast<int16_t*>(record + shape_.record_bytes() - step_slots * 2);
        for (int slot = 0; slot < step_slots; ++slot) {
            const int32_t row = s[static_cast<size_t>(slot)];
            if (row < 0) {
                numbers[slot] = static_cast<int16_t>(slot % residues);
                continue;
            }
            const auto& gathered = of.rows[static_cast<size_t>(row)];
            const int64_t k = gathered.column - begin;
            numbers[slot] = static_cast<int16_t>(k < 0 ? k : k + zero_rows);
            for (int r = 0; r < shape_.bundle_rows(); ++r)
                put(record, slot, r, bundles_.value_index(of, gathered, r));
        }
    }

  private:
    void put(uint8_t* record, int slot, int r, int64_t index) const {
        if (index < 0) return;
        const int set = r / 8 * shape_.planes;
        if (shape_.halves) {
            const uint16_t bits = static_cast<const uint16_t*>(a_.values)[index];
            std::memcpy(record + set * 512 + half_place(slot, r % 8), &bits, 2);
            return;
        }
        uint8_t* place = record + set * 256 + byte_place(slot, r % 8);
        const auto* bytes = static_cast<const uint8_t*>(a_.values);
        if (shape_.planes == 2) {
            place[0] = bytes[2 * index + 1];  // the high byte is the first, signed plane
            place[256] = bytes[2 * index];
        } else if (a_.type == dtype::int4) {
            place[0] = static_cast<uint8_t>(load_int4(bytes, index));
        } else {
            place[0] = bytes[index];
        }
    }

    // Where in a set the MMA's lane g * 4 + t takes the value of row g from, for the order of slots
    // that ldmatrix.trans and prmt leave: matrix i, position p.
    static int byte_place(int slot, int g) {
        const int i = slot / 8, p = slot % 8;
        const int j = (i & 1) * 2 + (p & 1) + (i >> 1) * 4;
        return (g * 4 + (p >> 1)) * 8 + j;
    }
    static int half_place(int slot, int g) {
        const int h = slot / 16, p = slot % 16;
        const int t = p % 8 / 2;
        const int word = h * 2 + p / 8;
        return (g * 4 + t) * 16 + word * 4 + (p & 1) * 2;
    }

    const sr_bcrs_view& a_;
    const slab_shape& shape_;
    const bundler& bundles_;
};

// The part of A of every slab of one group, with slabs of this height.
struct group_parts {
    std::vector<std::vector<uint8_t>> parts;
    size_t largest = 0;
};

group_parts pack_group(const std::vector<bundle>& bundles, const encoder& encode,
                       const slab_shape& shape, int64_t k, int64_t height) {
    std::vector<stepper> steppers;
    steppers.reserve(bundles.size());
    for (const auto& b : bundles) steppers.emplace_back(b);
    group_parts result;
    const int64_t slabs = std::max<int64_t>(1, ceil_div(k, height));
    for (int64_t slab = 0; slab < slabs; ++slab) {
        const int64_t begin = slab * height;
        std::vector<uint8_t> part(header_bytes);
        for (int warp = 0; warp < consumer_warps; ++warp) {
            uint32_t header[2] = {static_cast<uint32_t>(part.size()), 0};
            for (int b = 0; b < shape.bundles; ++b) {
                const size_t index =
                    static_cast<size_t>(warp) * static_cast<size_t>(shape.bundles) +
                    static_cast<size_t>(b);
                const auto steps =
                    steppers[index].advance(begin, begin + height, slab + 1 == slabs);
                for (const auto& s : steps) encode.append(part, bundles[index], s, begin);
                header[1] |= static_cast<uint32_t>(steps.size()) << (16 * b);
            }
            std::memcpy(part.data() + warp * 8, header, 8);
        }
        result.largest = std::max(result.largest, part.size());
        result.parts.push_back(std::move(part));
    }
    return result;
}

}  // namespace

packed_slabs pack_slabs(const sr_bcrs_view& a, const slab_shape& shape, int64_t matrices) {
    packed_slabs result;
    const int64_t a_group = int64_t{consumer_warps} * shape.bundles;
    for (int64_t matrix = 0; matrix < matrices; ++matrix) {
        const bundler make_bundles(a, shape, matrix);
        const encoder encode(a, shape, make_bundles);
        std::vector<bundle> all;
        for (int64_t i = 0; i < make_bundles.count(); ++i) all.push_back(make_bundles.make(i));
        // Bundles of like length go together, so that the warps of a CTA finish together.
        std::stable_sort(all.begin(), all.end(), [](const bundle& x, const bundle& y) {
            return x.rows.size() > y.rows.size();
        });
        all.resize(static_cast<size_t>(round_up(static_cast<int64_t>(all.size()), a_group)));
        result.groups_a_matrix = static_cast<int64_t>(all.size()) / a_group;
        for (size_t first = 0; first < all.size(); first += static_cast<size_t>(a_group)) {
            const std::vector<bundle> bundles(all.begin() + static_cast<int64_t>(first),
                                              all.begin() + static_cast<int64_t>(first) + a_group);
            group_parts parts;
            int64_t height = 512;
            for (;; height -= box_rows) {
                parts = pack_group(bundles, encode, shape, a.cols, height);
                if (height * row_bytes + static_cast<int64_t>(parts.largest) <= slab_budget) break;
                require(height > box_rows, status::internal_error, "slab records do not fit");
            }
            result.groups.push_back({static_cast<uint32_t>(result.offsets.size()),
                                     static_cast<uint32_t>(height),
                                     static_cast<uint32_t>(parts.parts.size()), 0});
            for (const auto& part : parts.parts) {
                result.offsets.push_back(static_cast<uint32_t>(result.records.size() / 16));
                result.records.insert(result.records.end(), part.begin(), part.end());
            }
            result.offsets.push_back(static_cast<uint32_t>(result.records.size() / 16));
            for (const auto& b : bundles)
                result.bundle_rows.push_back(static_cast<int32_t>(b.first_row));
        }
    }
    return result;
}

}  // namespace magicube::spmm::sm90
