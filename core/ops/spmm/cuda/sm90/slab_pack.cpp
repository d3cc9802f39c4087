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
    int64_t cols() const { return a_.cols; }
    const sr_bcrs_view& matrix() const { return a_; }

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
    stepper(const bundle& of, const slab_geometry& geometry) : bundle_(of), geometry_(geometry) {}

    // Steps of a slab.
    std::vector<step> advance(int64_t slab) {
        const bool last = slab + 1 == geometry_.slabs;
        const int64_t end = (slab + 1) * geometry_.slab_rows;
        // Rows before this one cannot be reached from the next slab.
        const int64_t begin = end - int64_t{geometry_.kept} * geometry_.slab_rows;
        while (next_ < bundle_.rows.size() && bundle_.rows[next_].column < end) {
            waiting_[bundle_.rows[next_].column % residues].push_back(static_cast<int32_t>(next_));
            ++next_;
        }
        // Few rows may wait, towards the end ever fewer, so that no slab is left with many steps.
        const auto may_wait =
            static_cast<size_t>(std::min<int64_t>(40, 10 * (geometry_.slabs - 1 - slab)));
        std::vector<step> steps;
        while (true) {
            size_t total = 0, fewest = SIZE_MAX, urgent = 0;
            for (const auto& rows : waiting_) {
                total += rows.size();
                fewest = std::min(fewest, rows.size());
                urgent += count_urgent(rows, begin, last);
            }
            if (total == 0) break;
            const bool full = fewest >= matrices_a_step;
            if (urgent == 0 && !full && total <= may_wait) break;
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
    const slab_geometry& geometry_;
    size_t next_ = 0;
    std::array<queue, residues> waiting_;
};

// Writes records.
class encoder {
  public:
    encoder(const bundler& bundles, const slab_shape& shape)
        : a_(bundles.matrix()), shape_(shape), bundles_(bundles) {}

    void append(std::vector<uint8_t>& out, const bundle& of, const step& s, int64_t begin) const {
        const size_t start = out.size();
        out.resize(start + static_cast<size_t>(shape_.record_bytes()));
        uint8_t* record = out.data() + start;
        auto* numbers = reinterpret_cast<int16_t*>(record + shape_.record_bytes() - step_slots * 2);
        for (int slot = 0; slot < step_slots; ++slot) {
            const int32_t row = s[static_cast<size_t>(slot)];
            if (row < 0) {
                numbers[slot] = static_cast<int16_t>(hole(slot % residues));
                continue;
            }
            const auto& gathered = of.rows[static_cast<size_t>(row)];
            const int64_t k = gathered.column - begin;
            numbers[slot] = static_cast<int16_t>(place_of(k));
            for (int r = 0; r < shape_.bundle_rows(); ++r)
                put(record, slot, r, bundles_.value_index(of, gathered, r));
        }
    }

  private:
    // Where a row of B lies, from the slab's start in 16-byte units, with its swizzle.
    int64_t place_of(int64_t row) const { return row * (row_bytes / 16) + (row & 7); }
    int64_t hole(int64_t residue) const {
        return shape_.floats ? hole_numbers + place_of(residue) : place_of(residue);
    }

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

// Appends the parts of one group; returns the bytes of the largest.
int64_t pack_group(const bundler& bundles_of, const bundle* bundles, const slab_shape& shape,
                   const slab_geometry& geometry, packed_slabs& packed) {
    const encoder encode(bundles_of, shape);
    std::vector<stepper> steppers;
    const int count = shape.group_bundles();
    steppers.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) steppers.emplace_back(bundles[i], geometry);
    auto& out = packed.records;
    size_t largest = 0;
    for (int64_t slab = 0; slab < geometry.slabs; ++slab) {
        const size_t start = out.size();
        out.resize(start + header_bytes);
        for (int warp = 0; warp < consumer_warps; ++warp) {
            uint32_t header[2] = {static_cast<uint32_t>(out.size() - start), 0};
            for (int b = 0; b < shape.bundles; ++b) {
                const int index = warp * shape.bundles + b;
                const auto steps = steppers[static_cast<size_t>(index)].advance(slab);
                for (const auto& s : steps)
                    encode.append(out, bundles[index], s, slab * geometry.slab_rows);
                header[1] |= static_cast<uint32_t>(steps.size()) << (8 * b);
            }
            std::memcpy(out.data() + start + static_cast<size_t>(warp) * 8, header, 8);
        }
        const size_t bytes = out.size() - start;
        packed.parts.push_back(
            {static_cast<uint32_t>(start / 16), static_cast<uint32_t>(bytes / 16)});
        largest = std::max(largest, bytes);
    }
    return static_cast<int64_t>(largest);
}

// Geometries for this K, the best first. Heights were chosen by measuring; the last fits every
// pattern.
std::vector<slab_geometry> geometries_for(int64_t k) {
    struct ring {
        int32_t slab_rows, b_stages, kept;
    };
    constexpr ring rings[] = {{320, 4, 1}, {256, 4, 1}, {192, 4, 1}, {128, 6, 2},
                              {128, 4, 1}, {64, 8, 3},  {64, 4, 1}};
    constexpr int64_t most_resident_rows = 1408, visit_rows = 512;
    std::vector<slab_geometry> result;
    const auto add = [&](int64_t slab_rows, int64_t b_stages, int64_t kept) {
        const int64_t slabs = ceil_div(k, slab_rows);
        if (slabs <= b_stages) {  // all of them stay
            b_stages = slabs;
            kept = slabs - 1;
        }
        slab_geometry g{};
        g.slab_rows = static_cast<int32_t>(slab_rows);
        for (int64_t boxes = 1; g.box_rows == 0; ++boxes)
            if (slab_rows % boxes == 0 && slab_rows / boxes <= max_box_rows)
                g.box_rows = static_cast<int32_t>(slab_rows / boxes);
        g.slabs = static_cast<int32_t>(slabs);
        g.b_stages = static_cast<int32_t>(b_stages);
        g.kept = static_cast<int32_t>(kept);
        result.push_back(g);
    };
    if (k <= most_resident_rows) {
        const int64_t slabs = ceil_div(k, visit_rows);
        add(round_up(ceil_div(k, slabs), 64), slabs, 0);
    }
    for (const auto& r : rings) add(r.slab_rows, r.b_stages, r.kept);
    return result;
}

// Divides what B leaves of shared memory; false if the parts do not fit.
bool divide(slab_geometry& g, int64_t largest_part) {
    constexpr int64_t fixed = 1024 + zero_rows * row_bytes + part_slack;  // 1024: to align
    const int64_t room = shared_bytes - fixed - int64_t{g.b_stages} * g.slab_rows * row_bytes;
    g.a_bytes = static_cast<int32_t>(round_up(largest_part, 128));
    const int64_t fit = room / g.a_bytes;
    if (!g.resident()) {
        g.a_stages = g.b_stages - g.kept;
        return fit >= g.a_stages;
    }
    g.a_stages = static_cast<int32_t>(std::min<int64_t>(fit, max_stages));
    return fit >= 2;
}

// The bundles of all groups of one matrix.
std::vector<bundle> make_bundles(const bundler& make, int64_t a_group, bool keep_rows_together) {
    std::vector<bundle> all;
    for (int64_t i = 0; i < make.count(); ++i) all.push_back(make.make(i));
    // Bundles of like length go together, so that the warps of a CTA finish together.
    if (!keep_rows_together)
        std::stable_sort(all.begin(), all.end(), [](const bundle& x, const bundle& y) {
            return x.rows.size() > y.rows.size();
        });
    all.resize(static_cast<size_t>(round_up(static_cast<int64_t>(all.size()), a_group)));
    return all;
}

// Whether some groups gather many more rows than others.
bool is_uneven(const std::vector<bundle>& bundles, int64_t a_group) {
    size_t most = 0, fewest = SIZE_MAX;
    for (auto at = bundles.begin(); at != bundles.end(); at += a_group) {
        size_t gathered = 0;
        for (auto b = at; b != at + a_group; ++b) gathered += b->rows.size();
        most = std::max(most, gathered);
        fewest = std::min(fewest, gathered);
    }
    return !bundles.empty() && most > fewest + fewest / 2;
}

// Packs all groups with this geometry; false as soon as a part does not fit.
bool pack_groups(const std::vector<bundler>& bundlers,
                 const std::vector<std::vector<bundle>>& bundles, const slab_shape& shape,
                 slab_geometry g, packed_slabs& packed) {
    const auto a_group = static_cast<size_t>(shape.group_bundles());
    packed.parts.clear();
    packed.records.clear();
    int64_t largest = header_bytes;
    if (!divide(g, largest)) return false;
    for (size_t matrix = 0; matrix < bundles.size(); ++matrix) {
        for (size_t first = 0; first < bundles[matrix].size(); first += a_group) {
            largest = std::max(
                largest, pack_group(bundlers[matrix], &bundles[matrix][first], shape, g, packed));
            if (!divide(g, largest)) return false;
        }
    }
    packed.parts.insert(packed.parts.end(), parts_read_ahead, slab_part{});
    packed.geometry = g;
    return true;
}

}  // namespace

packed_slabs pack_slabs(const sr_bcrs_view& a, const slab_shape& shape, int64_t matrices,
                        bool keep_rows_together) {
    const int64_t a_group = shape.group_bundles();
    std::vector<bundler> bundlers;
    std::vector<std::vector<bundle>> bundles;
    packed_slabs result;
    for (int64_t matrix = 0; matrix < matrices; ++matrix) {
        bundlers.emplace_back(a, shape, matrix);
        bundles.push_back(make_bundles(bundlers.back(), a_group, keep_rows_together));
        result.groups_a_matrix = static_cast<int64_t>(bundles.back().size()) / a_group;
        result.uneven |= is_uneven(bundles.back(), a_group);
        for (const auto& b : bundles.back())
            result.bundle_rows.push_back(static_cast<int32_t>(b.first_row));
    }
    for (const slab_geometry& g : geometries_for(a.cols))
        if (pack_groups(bundlers, bundles, shape, g, result)) return result;
    fail(status::internal_error, "no slab geometry fits");
}

}  // namespace magicube::spmm::sm90
