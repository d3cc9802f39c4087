// SPDX-License-Identifier: Apache-2.0
// V:n:M: what descriptors and arrays must be, and what the errors say.
#include "cases.hpp"

using namespace magicube;
using namespace support;

namespace {

std::string sizes_error(const vnm_view& view) {
    return error_of([&] { validate_sizes(view); });
}

// 20 rows and 19 columns in blocks of 16 rows: groups of 8, 8 and 3 columns.
struct broken_matrix {
    generator random{111};
    vnm_sample sample;

    explicit broken_matrix(int64_t n = 2, int64_t m = 8)
        : sample({kind::fp16, 20, 19, 16, m, n, selection::first}, random) {}

    std::string error() {
        const auto view = view_of(sample);
        return error_of([&] {
            validate_pattern(context(), sparse_view(view), "A");
            validate_values(context(), sparse_view(view), "A");
        });
    }
};

}  // namespace

TEST_CASE("V:N:M: sizes, types and pointers") {
    generator random(110);
    vnm_sample sample({kind::fp16, 20, 19, 16, 8}, random);
    const vnm_view good = view_of(sample);
    CHECK(sizes_error(good) == "");
    vnm_view view = good;
    for (const int32_t v : {0, 2, 8, 512, -16}) {
        view.vector_length = v;
        CHECK(sizes_error(view) ==
              text("vector_length is ", v, "; it must be 1, 16, 32, 64, 128 or 256"));
    }
    view = good;
    view.m = 3;
    CHECK(sizes_error(view) == "m is 3; for n = 2 it must be from 4 to 65536");
    view.m = 65537;
    CHECK(sizes_error(view) == "m is 65537; for n = 2 it must be from 4 to 65536");
    view.n = 5;
    view.m = 6;
    CHECK(sizes_error(view) == "m is 6; for n = 5 it must be from 7 to 65536");
    view.n = 0;
    CHECK(sizes_error(view) == "n is 0; it must be from 1 to 254");
    view.n = 255;
    CHECK(sizes_error(view) == "n is 255; it must be from 1 to 254");
    view = good;
    for (const dtype type : {dtype::int4, dtype::int16, dtype::uint8, dtype::int32}) {
        view.type = type;
        CHECK(sizes_error(view) ==
              text("value_type is ", name_of(type), "; it must be int8, fp16, bf16, fp32 or e4m3"));
    }
    view = good;
    view.column_loc = nullptr;
    CHECK(sizes_error(view) == "column_loc is null; it must hold 24 elements");
    view = good;
    view.metadata = nullptr;
    CHECK(sizes_error(view) == "metadata is null; it must hold 40 elements");
    view = good;
    view.rows = -1;
    CHECK(sizes_error(view) == "rows is -1; a sparse matrix takes 0 to 2147483647");
    view = good;
    view.m = 512;
    view.column_loc = static_cast<const char*>(good.column_loc) + 1;
    CHECK(has(error_of([&] { validate_sizes(view); }, status::misaligned), "column_loc is"));
    view = good;
    view.rows = view.cols = INT32_MAX;
    view.vector_length = 1;
    view.n = 100;
    view.m = 102;
    CHECK(has(sizes_error(view), "overflows 64 bits"));
}

TEST_CASE("V:N:M: columns ascend inside their group") {
    {
        broken_matrix a;
        CHECK(a.error() == "");
        a.sample.set_loc(18, 1);  // block row 1, group 1, place 2; the places hold 0, 1, 1, 3
        CHECK(a.error() ==
              "A: column_loc[18] is 1 after 1; the columns of a group must ascend strictly (group "
              "1 of block row 1)");
        a.sample.set_loc(18, 8);
        CHECK(a.error() ==
              "A: column_loc[18] is 8; it must be below 8, the columns of group 1 (block row 1)");
    }
    broken_matrix a;
    a.sample.set_loc(11, 1);  // block row 0, group 2 of 3 columns: 0, 1, 2, 2
    CHECK(a.error() ==
          "A: column_loc[11] is 1; it must be 2, for group 2 (block row 0) has 3 columns: all of "
          "them in order, then the last again");
    a.sample.set_loc(11, 3);
    CHECK(has(a.error(), "A: column_loc[11] is 3; it must be 2"));
}

TEST_CASE("V:N:M: places ascend, and repeated columns hold 0") {
    {
        broken_matrix a;
        for (const int nibble : {0, 5, 1, 2, 6, 15}) {  // equal or descending places
            a.sample.metadata()[2 * 18] = static_cast<uint8_t>(nibble << 4 | 4);
            CHECK(
                has(a.error(), text("A: metadata gives row 18 place ", nibble >> 2, " after ",
                                    nibble & 3, " in group 1 (block row 1); places must ascend")));
        }
        a.sample.metadata()[2 * 18] = 0xd | 0xe << 4;
        CHECK(a.error() == "");
        a.sample.metadata()[2 * 18 + 1] |= 0xf0;  // no group's nibble
        CHECK(a.error() == "");
    }
    {
        broken_matrix a;
        a.sample.metadata()[2 * 5 + 1] = 0xc;  // places 0 and 3
        a.sample.values().set(5 * 6 + 5, 2);
        CHECK(
            a.error() ==
            "A: values[35] is 2; it must be 0, for row 5 (block row 0) has it at place 3 of group "
            "2, which repeats a column");
        a.sample.values().set(5 * 6 + 5, -0.0);
        CHECK(a.error() == "");
    }
    broken_matrix a(4, 8);  // a byte a place, six of them
    CHECK(a.error() == "");
    auto* row = a.sample.metadata().data() + 19 * 3 * 4;
    row[3] = 6;
    CHECK(a.error() ==
          "A: metadata gives row 19 place 6 in group 0 (block row 1); places are below 6");
    row[3] = row[2];
    CHECK(has(a.error(), "in group 0 (block row 1); places must ascend strictly"));
}
