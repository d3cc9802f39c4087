// SPDX-License-Identifier: Apache-2.0
#include "magicube/convert.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "conversion.hpp"

using namespace support;

namespace {

constexpr auto ok = MAGICUBE_STATUS_SUCCESS;
constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;

}  // namespace

TEST_CASE("the example of the format's definition, literally") {
    cpu_handle handle;
    int16_t dense[4][10] = {};
    dense[0][1] = 10, dense[1][1] = 11;
    dense[0][5] = 20, dense[1][5] = 21;
    dense[0][9] = 30, dense[1][9] = 31;
    dense[2][4] = 40, dense[3][4] = 41;
    dn_mat d;
    REQUIRE(magicubeCreateDnMat(&d.value, 4, 10, 10, dense, MAGICUBE_INT16, MAGICUBE_ORDER_ROW) ==
            ok);
    conversion c(2, kind::int16, 2, 0);
    convert_dense(handle, d, nullptr, c);
    CHECK(c.begin.items() == std::vector<int64_t>{0, 16});
    CHECK(c.end.items() == std::vector<int64_t>{3, 17});
    std::vector<int32_t> columns(32, -1);
    columns[0] = 1, columns[1] = 5, columns[2] = 9, columns[16] = 4;
    CHECK(c.columns.items() == columns);
    std::vector<double> values(64, 0);
    values[0] = 10, values[1] = 20, values[2] = 30;
    values[16] = 11, values[17] = 21, values[18] = 31;
    values[32] = 40, values[48] = 41;
    for (int64_t i = 0; i < 64; ++i) CHECK(c.values.get(i) == values[static_cast<size_t>(i)]);
}

TEST_CASE("the default stride") {
    int32_t stride = 0;
    const auto is = [&](int32_t v, magicubeDataType_t type, int32_t wanted) {
        CHECK(magicubeSrBcrsDefaultStride(v, type, &stride) == ok);
        CHECK(stride == wanted);
    };
    is(8, MAGICUBE_INT8, 32);
    is(2, MAGICUBE_E4M3, 32);
    is(64, MAGICUBE_UINT8, 32);
    is(8, MAGICUBE_INT4, 32);
    is(1, MAGICUBE_INT4, 32);
    is(1, MAGICUBE_INT8, 1);
    is(1, MAGICUBE_FP32, 1);
    is(2, MAGICUBE_INT12, 16);
    is(16, MAGICUBE_FP32, 16);
    CHECK(magicubeSrBcrsDefaultStride(3, MAGICUBE_INT8, &stride) == invalid);
    CHECK(message_has("vector_length is 3"));
    CHECK(magicubeSrBcrsDefaultStride(8, static_cast<magicubeDataType_t>(99), &stride) == invalid);
    CHECK(message_has("type is 99"));
    CHECK(magicubeSrBcrsDefaultStride(8, MAGICUBE_INT8, nullptr) == invalid);
}

TEST_CASE("dense to SR-BCRS and back gives the same matrix: every V and type, odd shapes") {
    cpu_handle handle;
    generator random(60);
    for (int type = 1; type <= 10; ++type)
        for (const int32_t v : {1, 2, 4, 8, 16, 32, 64})
            for (const bool col_major : {false, true}) {
                const auto k = static_cast<kind>(type);
                CAPTURE(type);
                CAPTURE(v);
                dense_sample dense({k, 67, 35, col_major, 1, 2}, random);
                for (int64_t i = 0; i < 67; ++i)
                    for (int64_t j = 0; j < 35; ++j)
                        for (int64_t b = 0; b < 2; ++b)
                            if ((i + 3 * j + b) % 5 != 0) dense.set(b, i, j, 0);
                const dn_mat d(dense);
                conversion c(2 * ((67 + v - 1) / v), k, v, 0);
                convert_dense(handle, d, nullptr, c);
                sp_mat s;
                int32_t stride = 0;
                magicubeSrBcrsDefaultStride(v, c.arrays.value_type, &stride);
                REQUIRE(magicubeCreateSrBcrs(&s.value, 67, 35, v, stride, c.arrays.slots,
                                             c.begin.data(), c.end.data(), c.columns.data(),
                                             c.values.data(), MAGICUBE_INDEX_64,
                                             c.arrays.value_type) == ok);
                REQUIRE(magicubeSrBcrsSetPatternBatch(s, 2) == ok);
                CHECK(magicubeSpMatValidate(handle, s) == ok);
                dense_sample back({k, 67, 35, !col_major, 2, 2}, random);
                const dn_mat b(back);
                REQUIRE(magicubeSparseToDense(handle, s, b) == ok);
                bool same = true;
                for (int64_t batch = 0; batch < 2; ++batch)
                    for (int64_t i = 0; i < 67; ++i)
                        for (int64_t j = 0; j < 35; ++j)
                            same = same && back.at(batch, i, j) == dense.at(batch, i, j);
                CHECK(same);
            }
}

TEST_CASE("a mask alone gives a pattern; with values it keeps zeros") {
    cpu_handle handle;
    generator random(61);
    dense_sample mask({kind::uint8, 13, 21, false, 2}, random);
    element_grid grid(13, 21, 1);
    dense_sample dense({kind::fp16, 13, 21, true, 0}, random);
    for (int64_t i = 0; i < 13; ++i)
        for (int64_t j = 0; j < 21; ++j) {
            const bool kept = uniform(random, 0, 4) == 0;
            mask.set(0, i, j, kept ? static_cast<double>(uniform(random, 1, 255)) : 0);
            if (kept && j % 3 == 0) dense.set(0, i, j, 0);
            if (kept) grid.put(0, i, j, dense.at(0, i, j));
        }
    const dn_mat d(dense), m(mask);
    const sr_bcrs_arrays wanted = sr_bcrs_of(grid, kind::fp16, 4, 16);
    conversion c(4, kind::fp16, 4, 0);
    convert_dense(handle, d, m, c);
    CHECK(c.equals(wanted));

    magicubeConstDnMatDescr_t shape = nullptr;
    REQUIRE(magicubeCreateConstDnMat(&shape, 13, 21, 21, nullptr, MAGICUBE_FP16,
                                     MAGICUBE_ORDER_ROW) == ok);
    conversion pattern(4, kind::fp16, 4, 0);
    int64_t slots = 0;
    REQUIRE(magicubeDenseToSrBcrs_count(handle, shape, m, &pattern.arrays, &slots, nullptr, 0) ==
            ok);
    pattern.allocate(slots);
    CHECK(magicubeDenseToSrBcrs_fill(handle, shape, m, &pattern.arrays, nullptr, 0) == invalid);
    CHECK(message_has("dense has null values; they may be null only with a mask and without"));
    CHECK(magicubeDenseToSrBcrs_count(handle, shape, nullptr, &pattern.arrays, &slots, nullptr,
                                      0) == invalid);
    pattern.arrays.values = nullptr;
    REQUIRE(magicubeDenseToSrBcrs_fill(handle, shape, m, &pattern.arrays, nullptr, 0) == ok);
    CHECK(pattern.columns.items() == wanted.columns);
    CHECK(pattern.mask.items() == wanted.mask);

    // A pattern alone goes on to masks and patterns, not to values.
    sp_mat s;
    REQUIRE(magicubeCreateSrBcrs(&s.value, 13, 21, 4, 16, slots, pattern.begin.data(),
                                 pattern.end.data(), pattern.columns.data(), nullptr,
                                 MAGICUBE_INDEX_64, MAGICUBE_FP16) == ok);
    REQUIRE(magicubeSrBcrsSetElementMask(s, pattern.mask.data()) == ok);
    dense_sample ones({kind::uint8, 13, 21, true, 1}, random);
    const dn_mat o(ones);
    REQUIRE(magicubeSparseToMask(handle, s, o) == ok);
    bool same = true;
    for (int64_t i = 0; i < 13; ++i)
        for (int64_t j = 0; j < 21; ++j) same = same && ones.at(0, i, j) == (mask.at(0, i, j) != 0);
    CHECK(same);
    CHECK(magicubeSparseToDense(handle, s, d) == invalid);
    CHECK(message_has("source has null values (a pattern alone)"));
    conversion other(2, kind::fp16, 8, 8);
    REQUIRE(magicubeSparseToSrBcrs_count(handle, s, &other.arrays, &slots, nullptr, 0) == ok);
    other.allocate(slots);
    CHECK(magicubeSparseToSrBcrs_fill(handle, s, &other.arrays, nullptr, 0) == invalid);
    CHECK(message_has("arrays->values must be null too"));
    other.arrays.values = nullptr;
    CHECK(magicubeSparseToSrBcrs_fill(handle, s, &other.arrays, nullptr, 0) == ok);
    CHECK(other.columns.items() == sr_bcrs_of(grid, kind::fp16, 8, 8).columns);
    magicubeDestroyDnMat(shape);
}

TEST_CASE("SR-BCRS to CSR and BSR and back") {
    cpu_handle handle;
    generator random(62);
    for (const kind type : {kind::int4, kind::int8, kind::fp32}) {
        sparse_sample sample({type, 45, 37, 8, 16, 0.3, true}, random);
        const element_grid grid = grid_of(sample);
        const sp_mat source(sample);
        const auto abi_type = static_cast<magicubeDataType_t>(type);
        const sr_bcrs_arrays again = sr_bcrs_of(grid, type, 8, 16);

        const csr_arrays csr = csr_of(grid, type);
        guarded_array<int32_t> offsets(46);
        int64_t nnz = -1;
        REQUIRE(magicubeSrBcrsToCsr_count(handle, source, MAGICUBE_INDEX_32, offsets.data(),
                                          &nnz) == ok);
        REQUIRE(nnz == static_cast<int64_t>(csr.columns.size()));
        guarded_array<int32_t> columns(nnz);
        packed_array values(type, nnz);
        REQUIRE(magicubeSrBcrsToCsr_fill(handle, source, MAGICUBE_INDEX_32, offsets.data(),
                                         columns.data(), values.data(), abi_type) == ok);
        CHECK(columns.items() == csr.columns);
        CHECK(values.bytes() == csr.values.bytes());
        sp_mat c;
        REQUIRE(magicubeCreateCsr(&c.value, 45, 37, nnz, offsets.data(), columns.data(),
                                  values.data(), MAGICUBE_INDEX_32, abi_type) == ok);
        conversion from_csr(6, type, 8, 16);
        convert_sparse(handle, c, from_csr);
        CHECK(from_csr.equals(again));

        const csr_arrays bsr = bsr_of(grid, type, 6, 4);
        guarded_array<int64_t> block_offsets(9);
        int64_t nnzb = -1;
        REQUIRE(magicubeSrBcrsToBsr_count(handle, source, 6, 4, MAGICUBE_INDEX_64,
                                          block_offsets.data(), &nnzb) == ok);
        CHECK(block_offsets.items() == bsr.offsets);
        guarded_array<int32_t> block_columns(nnzb);
        packed_array blocks(type, nnzb * 24);
        REQUIRE(magicubeSrBcrsToBsr_fill(handle, source, 6, 4, MAGICUBE_INDEX_64,
                                         block_offsets.data(), block_columns.data(), blocks.data(),
                                         abi_type) == ok);
        CHECK(block_columns.items() == bsr.columns);
        CHECK(blocks.bytes() == bsr.values.bytes());
        CHECK((columns.intact() && offsets.intact() && block_columns.intact()));
        sp_mat b;
        REQUIRE(magicubeCreateBsr(&b.value, 45, 37, 6, 4, nnzb, block_offsets.data(),
                                  block_columns.data(), blocks.data(), MAGICUBE_INDEX_64,
                                  abi_type) == ok);
        dense_sample dense({type, 45, 37, false, 1}, random);
        const dn_mat d(dense);
        REQUIRE(magicubeSparseToDense(handle, b, d) == ok);
        bool same = true;
        for (int64_t i = 0; i < 45; ++i)
            for (int64_t j = 0; j < 37; ++j)
                same = same && dense.at(0, i, j) == grid.values[grid.at(0, i, j)];
        CHECK(same);
        CHECK(magicubeSrBcrsToCsr_count(handle, b, MAGICUBE_INDEX_32, offsets.data(), &nnz) ==
              MAGICUBE_STATUS_NOT_SUPPORTED);
        CHECK(message_has("source is BSR"));
    }
}

TEST_CASE("issue_06_matrices_without_elements_and_null_arrays_convert") {
    cpu_handle handle;
    for (const int64_t rows : {0, 5})
        for (const int64_t cols : {0, 7}) {
            if (rows != 0 && cols != 0) continue;
            CAPTURE(rows);
            CAPTURE(cols);
            dn_mat d;
            REQUIRE(magicubeCreateDnMat(&d.value, rows, cols, cols, nullptr, MAGICUBE_INT8,
                                        MAGICUBE_ORDER_ROW) == ok);
            conversion c(rows, kind::int8, 1, 8);
            if (rows == 0) c.arrays.row_begin = c.arrays.row_end = nullptr;
            int64_t slots = -1;
            REQUIRE(magicubeDenseToSrBcrs_count(handle, d, nullptr, &c.arrays, &slots, nullptr,
                                                0) == ok);
            CHECK(slots == 0);
            c.arrays.slots = 0;
            REQUIRE(magicubeDenseToSrBcrs_fill(handle, d, nullptr, &c.arrays, nullptr, 0) == ok);
            sp_mat s;
            REQUIRE(magicubeCreateSrBcrs(&s.value, rows, cols, 1, 8, 0, c.arrays.row_begin,
                                         c.arrays.row_end, nullptr, nullptr, MAGICUBE_INDEX_64,
                                         MAGICUBE_INT8) == ok);
            CHECK(magicubeSpMatValidate(handle, s) == ok);
            CHECK(magicubeSparseToDense(handle, s, d) == ok);
            int64_t offsets[6] = {-1, -1, -1, -1, -1, -1}, count = -1;
            REQUIRE(magicubeSrBcrsToCsr_count(handle, s, MAGICUBE_INDEX_64, offsets, &count) == ok);
            CHECK((count == 0 && offsets[0] == 0 && offsets[rows] == 0));
            CHECK(magicubeSrBcrsToCsr_fill(handle, s, MAGICUBE_INDEX_64, offsets, nullptr, nullptr,
                                           MAGICUBE_INT8) == ok);
            REQUIRE(magicubeSrBcrsToBsr_count(handle, s, 2, 2, MAGICUBE_INDEX_64, offsets,
                                              &count) == ok);
            CHECK(count == 0);
            CHECK(magicubeSrBcrsToBsr_fill(handle, s, 2, 2, MAGICUBE_INDEX_64, offsets, nullptr,
                                           nullptr, MAGICUBE_INT8) == ok);
            sp_mat csr;
            REQUIRE(magicubeCreateCsr(&csr.value, rows, cols, 0, rows ? offsets : nullptr, nullptr,
                                      nullptr, MAGICUBE_INDEX_64, MAGICUBE_INT8) == ok);
            REQUIRE(magicubeSparseToSrBcrs_count(handle, csr, &c.arrays, &slots, nullptr, 0) == ok);
            CHECK(slots == 0);
            CHECK(magicubeSrBcrsToCsr_count(handle, csr, MAGICUBE_INDEX_64, offsets, &count) == ok);
        }
}

TEST_CASE("issue_18_csr_of_any_number_of_columns_converts") {
    cpu_handle handle;
    const int32_t offsets[] = {0, 1, 3, 3};
    const int32_t columns[] = {INT32_MAX - 1, 70000, INT32_MAX - 1};
    const int16_t numbers[] = {-32768, 2, 32767};
    magicubeConstSpMatDescr_t csr = nullptr;
    REQUIRE_OK(magicubeCreateConstCsr(&csr, 3, INT32_MAX, 3, offsets, columns, numbers,
                                      MAGICUBE_INDEX_32, MAGICUBE_INT16));
    conversion c(2, kind::int16, 2, 8);
    convert_sparse(handle, csr, c);
    magicubeDestroySpMat(csr);
    CHECK(c.end.items() == std::vector<int64_t>{2, 8});
    CHECK(c.columns.items() == std::vector<int32_t>{70000, INT32_MAX - 1, -1, -1, -1, -1, -1, -1});
    CHECK(c.mask.items() == std::vector<uint8_t>{2, 3, 0, 0, 0, 0, 0, 0});
    CHECK((c.values.get(1) == -32768 && c.values.get(8) == 2 && c.values.get(9) == 32767));

    const sp_mat source([&] {
        magicubeSpMatDescr_t made = nullptr;
        REQUIRE_OK(magicubeCreateSrBcrs(&made, 3, INT32_MAX, 2, 8, 8, c.begin.data(), c.end.data(),
                                        c.columns.data(), c.values.data(), MAGICUBE_INDEX_64,
                                        MAGICUBE_INT16));
        return made;
    }());
    REQUIRE_OK(magicubeSrBcrsSetElementMask(source, c.mask.data()));
    int64_t block_offsets[3] = {}, blocks = 0;
    REQUIRE_OK(magicubeSrBcrsToBsr_count(handle, source, 2, 1000, MAGICUBE_INDEX_64, block_offsets,
                                         &blocks));
    CHECK(blocks == 2);
    int32_t block_columns[2] = {};
    packed_array values(kind::int16, 4000);
    REQUIRE_OK(magicubeSrBcrsToBsr_fill(handle, source, 2, 1000, MAGICUBE_INDEX_64, block_offsets,
                                        block_columns, values.data(), MAGICUBE_INT16));
    CHECK((block_columns[0] == 70 && block_columns[1] == 2147483));
    CHECK(values.get(1000) == 2);
    CHECK(values.get(2000 + 646) == -32768);
    CHECK(values.get(3000 + 646) == 32767);
}
