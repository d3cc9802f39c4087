// SPDX-License-Identifier: Apache-2.0
#include "core/formats/row_cursor.hpp"

#include "cases.hpp"

using namespace magicube;
using namespace support;

namespace {

// Seeking, from the row's start and from every element on, ends where walking does.
template <class View>
void check_seek(const View& view) {
    using cursor = row_cursor<View>;
    const auto same = [](const cursor& a, const cursor& b) {
        if (a.done() || b.done()) return a.done() == b.done();
        return a.column() == b.column() && a.position() == b.position();
    };
    for (int64_t batch = 0; batch < view.batch_count; ++batch)
        for (int64_t row = 0; row < view.rows; ++row)
            for (int64_t column = 0; column < view.cols; ++column) {
                cursor walked(view, batch, row);
                while (!walked.done() && walked.column() < column) walked.next();
                const bool exists = !walked.done() && walked.column() == column;
                REQUIRE(position_in(view, batch, row, column) == (exists ? walked.position() : -1));
                for (cursor from(view, batch, row);; from.next()) {
                    cursor sought = from;
                    sought.seek(column);
                    REQUIRE(same(sought, walked));
                    if (from.done() || from.column() >= column) break;
                }
            }
}

}  // namespace

TEST_CASE("a cursor seeks to where it would have walked, in every format") {
    generator random(80);
    const element_grid grid = random_grid(random, kind::int8, 30, 41, 1, 0.2);
    csr_arrays csr = csr_of(grid, kind::int8);
    check_seek(csr_view_of(csr, grid));
    for (const int64_t block : {1, 3, 7}) {
        csr_arrays bsr = bsr_of(grid, kind::int8, 2, block);
        check_seek(bsr_view_of(bsr, grid, 2, block));
    }
    for (const int64_t s : strides)
        for (const bool mask : {false, true})
            for (const auto batching : {batch_kind::one_pattern, batch_kind::different_patterns}) {
                sparse_sample sample({kind::int8, 21, 37, 4, s, 0.4, mask, mask, 2, batching, 6},
                                     random);
                check_seek(view_of(sample));
            }
}
