// SPDX-License-Identifier: Apache-2.0
// How the Hopper family cuts gathered rows into steps: whatever the columns, each is gathered once,
// from where it can be reached.
#include "core/ops/spmm/cuda/sm90/slab_steps.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/numbers.hpp"

using namespace magicube::spmm::sm90;

namespace {

struct listed {
    std::vector<int32_t> columns;
    std::vector<int32_t> begins{0};

    // of_ten: about so many of ten columns; only_residue: of which only this class, -1 for all.
    listed(int64_t k, int of_ten, int only_residue, support::generator& random) {
        std::vector<bool> has(static_cast<size_t>(k));
        for (auto&& column : has) column = support::uniform(random, 0, 9) < of_ten;
        for (int c = 0; c < residues; ++c) {
            for (int64_t i = c; i < k; i += residues)
                if (has[static_cast<size_t>(i)] && (only_residue < 0 || only_residue == c))
                    columns.push_back(static_cast<int32_t>(i));
            begins.push_back(static_cast<int32_t>(columns.size()));
        }
    }
};

slab_geometry geometry_of(int64_t k, int32_t slab_rows, int32_t kept) {
    slab_geometry g{};
    g.slab_rows = slab_rows;
    g.slabs = static_cast<int32_t>((k + slab_rows - 1) / slab_rows);
    g.kept = kept;
    return g;
}

// All that a step must not do; counts what was gathered.
void check_step(const listed& list, const slab_geometry& g, int64_t slab, const slab_step& step,
                std::vector<int>& gathered) {
    const int64_t end = (slab + 1) * g.slab_rows;
    const int64_t begin = (slab - g.kept) * g.slab_rows;
    int rows = 0;
    for (int m = 0; m < matrices_a_step; ++m) {
        int of_class[residues] = {};
        for (int c = 0; c < residues; ++c) {
            const int32_t row = step.rows[m * residues + c];
            if (row < 0) continue;
            ++rows;
            REQUIRE(row < static_cast<int32_t>(list.columns.size()));
            ++gathered[static_cast<size_t>(row)];
            const int32_t column = list.columns[static_cast<size_t>(row)];
            CHECK(column >= begin);
            CHECK(column < end);
            ++of_class[column % residues];
        }
        // A class gives a matrix one row of its own and at most one more to a hole.
        for (const int count : of_class) CHECK(count <= 2);
    }
    CHECK(rows > 0);
}

// The number of steps.
int check_all(const listed& list, const slab_geometry& g) {
    std::vector<int> gathered(list.columns.size());
    slab_stepper stepper({list.columns.data(), list.begins.data()}, g);
    int steps = 0;
    for (int64_t slab = 0; slab < g.slabs; ++slab) {
        stepper.enter(slab);
        slab_stepper ahead = stepper;
        slab_step step, same;
        for (int of_slab = 1; stepper.next(step); ++of_slab) {
            REQUIRE(of_slab <= 255);  // the header's count has 8 bits
            check_step(list, g, slab, step, gathered);
            REQUIRE(ahead.next(same));
            for (int i = 0; i < step_slots; ++i) CHECK(same.rows[i] == step.rows[i]);
            ++steps;
        }
    }
    for (const int times : gathered) CHECK(times == 1);
    return steps;
}

}  // namespace

TEST_CASE("slab steps gather each row once, from where it can be reached") {
    support::generator random(77);
    for (const int64_t k : {1, 63, 64, 500, 1408, 4096}) {
        for (const int of_ten : {0, 1, 5, 10}) {
            for (const int only_residue : {-1, 0, 5}) {
                const listed list(k, of_ten, only_residue, random);
                for (const int32_t slab_rows : {64, 128, 320, 512}) {
                    for (const int32_t kept : {0, 1, 3})
                        check_all(list, geometry_of(k, slab_rows, kept));
                }
            }
        }
    }
}

TEST_CASE("slab steps of a dense bundle have no holes") {
    support::generator random(78);
    const listed list(4096, 10, -1, random);
    CHECK(check_all(list, geometry_of(4096, 256, 1)) == 4096 / step_slots);
}

TEST_CASE("slab steps of no columns are none") {
    const auto g = geometry_of(1000, 256, 1);
    slab_stepper stepper({nullptr, nullptr}, g);
    slab_step step;
    for (int64_t slab = 0; slab < g.slabs; ++slab) {
        stepper.enter(slab);
        CHECK(!stepper.next(step));
    }
}
