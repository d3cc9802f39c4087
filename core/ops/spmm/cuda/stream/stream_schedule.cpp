// SPDX-License-Identifier: Apache-2.0
#include "core/ops/spmm/cuda/stream/stream_schedule.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "core/common/checked.hpp"

namespace magicube::spmm::stream {
namespace {

constexpr int64_t finishing_cost =
    2;  // records for which one could go past for each bundle's store

// The bundles of each CTA, in ascending order; `lengths` has all records of each bundle.
std::vector<std::vector<int64_t>> deal_out(const std::vector<int64_t>& lengths, int64_t ctas) {
    std::vector<int64_t> order(lengths.size());
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
        return lengths[static_cast<size_t>(x)] > lengths[static_cast<size_t>(y)];
    });
    using load = std::pair<int64_t, int64_t>;  // cost so far, CTA
    std::priority_queue<load, std::vector<load>, std::greater<>> least;
    for (int64_t c = 0; c < ctas; ++c) least.push({0, c});
    std::vector<std::vector<int64_t>> dealt(static_cast<size_t>(ctas));
    for (const int64_t bundle : order) {
        auto [cost, cta] = least.top();
        least.pop();
        dealt[static_cast<size_t>(cta)].push_back(bundle);
        least.push({cost + lengths[static_cast<size_t>(bundle)] + finishing_cost, cta});
    }
    for (auto& bundles : dealt) std::sort(bundles.begin(), bundles.end());
    return dealt;
}

// Appends the entries of one CTA after another.
class appender {
  public:
    appender(const schedule_shape& shape, const std::vector<uint32_t>& records, schedule& result)
        : shape_(shape), records_(records), result_(result) {}

    void append(int64_t matrix, const std::vector<int64_t>& bundles) {
        const auto count = static_cast<int64_t>(bundles.size());
        for (int64_t tile = 0; tile < result_.tiles_a_cta; ++tile) {
            for (int64_t segment = 0; segment < shape_.segments; ++segment) {
                for (int64_t place = 0; place < result_.tile_bundles; ++place) {
                    // Places are filled tile after tile, so that the last tiles may be empty.
                    const int64_t i = tile * result_.tile_bundles + place;
                    if (i < count) {
                        append_entry(matrix * shape_.bundles + bundles[static_cast<size_t>(i)],
                                     segment);
                    } else {
                        append_end();
                    }
                }
                append_end();
            }
        }
    }

  private:
    void append_entry(int64_t bundle, int64_t segment) {
        result_.entries.push_back({static_cast<uint32_t>(next_), static_cast<uint32_t>(bundle),
                                   static_cast<uint32_t>(segment)});
        next_ += records_[static_cast<size_t>(bundle * shape_.segments + segment)];
        require(next_ < UINT32_MAX, status::not_supported,
                "A has more records of 64 vectors than the stream kernel can number");
    }
    void append_end() { result_.entries.push_back({static_cast<uint32_t>(next_), no_bundle, 0}); }

    const schedule_shape& shape_;
    const std::vector<uint32_t>& records_;
    schedule& result_;
    int64_t next_ = 0;
};

// All records of each bundle of a matrix.
std::vector<int64_t> lengths_of(const schedule_shape& shape, const std::vector<uint32_t>& records,
                                int64_t matrix) {
    std::vector<int64_t> lengths;
    const auto* of_matrix = records.data() + matrix * shape.bundles * shape.segments;
    for (int64_t b = 0; b < shape.bundles; ++b)
        lengths.push_back(std::accumulate(of_matrix + b * shape.segments,
                                          of_matrix + (b + 1) * shape.segments, int64_t{0}));
    return lengths;
}

}  // namespace

schedule make_schedule(const schedule_shape& shape, const std::vector<uint32_t>& records) {
    std::vector<std::vector<int64_t>> dealt;
    int64_t most = 1;
    for (int64_t matrix = 0; matrix < shape.matrices; ++matrix)
        for (auto& bundles : deal_out(lengths_of(shape, records, matrix), shape.ctas)) {
            most = std::max(most, static_cast<int64_t>(bundles.size()));
            dealt.push_back(std::move(bundles));
        }
    schedule result;
    result.tiles_a_cta = ceil_div(most, shape.largest_tile);
    result.tile_bundles = ceil_div(most, result.tiles_a_cta);
    appender append(shape, records, result);
    for (size_t i = 0; i < dealt.size(); ++i)
        append.append(static_cast<int64_t>(i) / shape.ctas, dealt[i]);
    return result;
}

}  // namespace magicube::spmm::stream
