// SPDX-License-Identifier: Apache-2.0
#include "magicube/matrix.h"

#include <doctest/doctest.h>

#include <cstdint>

#include "support/capi.hpp"
#include "support/descriptors.hpp"

using support::dn_mat;
using support::message_has;
using support::sp_mat;

namespace {

constexpr auto ok = MAGICUBE_STATUS_SUCCESS;
constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;
constexpr auto row_order = MAGICUBE_ORDER_ROW;

magicubeStatus_t make_dense(int64_t rows, int64_t cols, int64_t ld, void* values,
                            magicubeDataType_t type = MAGICUBE_FP32,
                            magicubeOrder_t order = row_order) {
    dn_mat d;
    const auto status = magicubeCreateDnMat(&d.value, rows, cols, ld, values, type, order);
    CHECK((d.value != nullptr) == (status == ok));
    return status;
}

// Arrays of a valid 4 x 6 CSR, BSR (2 x 3) and SR-BCRS (V = 2, S = 8).
struct arrays {
    int64_t offsets[5] = {0, 1, 2, 2, 3};
    int32_t columns[16] = {0, 3, 5, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1, -1};
    int64_t block_offsets[3] = {0, 1, 2};
    int32_t block_columns[2] = {1, 0};
    int64_t begin[2] = {0, 8};
    int64_t end[2] = {3, 9};
    float values[32] = {};
};

}  // namespace

TEST_CASE("dense: what was set is told, in full or in part") {
    float values[40] = {};
    dn_mat d;
    REQUIRE(magicubeCreateDnMat(&d.value, 5, 3, 8, values, MAGICUBE_FP32, MAGICUBE_ORDER_COL) ==
            ok);
    int64_t rows = 0, cols = 0, ld = 0, count = 0, stride = -1;
    const void* told = nullptr;
    magicubeDataType_t type{};
    magicubeOrder_t order{};
    REQUIRE(magicubeDnMatGet(d, &rows, &cols, &ld, &told, &type, &order) == ok);
    CHECK((rows == 5 && cols == 3 && ld == 8 && told == values));
    CHECK((type == MAGICUBE_FP32 && order == MAGICUBE_ORDER_COL));
    CHECK(magicubeDnMatGet(d, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr) == ok);
    REQUIRE(magicubeDnMatGetStridedBatch(d, &count, &stride) == ok);
    CHECK((count == 1 && stride == 0));

    REQUIRE(magicubeDnMatSetCols(d, 4, 6) == ok);
    REQUIRE(magicubeDnMatSetStridedBatch(d, 7, 24) == ok);
    REQUIRE(magicubeDnMatSetValues(d, values + 1) == ok);
    REQUIRE(magicubeDnMatGet(d, &rows, &cols, &ld, &told, nullptr, nullptr) == ok);
    REQUIRE(magicubeDnMatGetStridedBatch(d, &count, &stride) == ok);
    CHECK((rows == 5 && cols == 4 && ld == 6 && told == values + 1 && count == 7 && stride == 24));
}

TEST_CASE("dense: bad arguments are refused with argument, value and rule") {
    float values[40] = {};
    CHECK(magicubeCreateDnMat(nullptr, 1, 1, 1, values, MAGICUBE_FP32, row_order) == invalid);
    CHECK(message_has("magicubeCreateDnMat: matrix is null; it is required"));
    CHECK(make_dense(-1, 3, 3, values) == invalid);
    CHECK(message_has("rows is -1; it must be at least 0"));
    CHECK(make_dense(3, -1, 3, values) == invalid);
    CHECK(message_has("cols is -1"));
    CHECK(make_dense(3, 5, 4, values) == invalid);
    CHECK(message_has("ld is 4; it must be at least cols = 5 for order ROW"));
    CHECK(make_dense(3, 2, 2, values, MAGICUBE_FP32, MAGICUBE_ORDER_COL) == invalid);
    CHECK(message_has("ld is 2; it must be at least rows = 3 for order COL"));
    CHECK(make_dense(3, 5, 5, values, MAGICUBE_INT4) == invalid);
    CHECK(message_has("ld is 5; it must be even for int4"));
    CHECK(make_dense(INT64_MAX, INT64_MAX, INT64_MAX, values) == invalid);
    CHECK(message_has("overflows"));
    CHECK(make_dense(3, 5, 5, values, static_cast<magicubeDataType_t>(11)) == invalid);
    CHECK(message_has("type is 11; it must be a magicubeDataType_t"));
    CHECK(make_dense(3, 5, 5, values, static_cast<magicubeDataType_t>(0)) == invalid);
    CHECK(make_dense(3, 5, 5, values, MAGICUBE_FP32, static_cast<magicubeOrder_t>(3)) == invalid);
    CHECK(message_has("order is 3; it must be a magicubeOrder_t"));
    CHECK(make_dense(3, 5, 5, nullptr) == invalid);
    CHECK(message_has("values is null; it is required where the matrix is not empty (3 x 5)"));
    CHECK(make_dense(0, 5, 5, nullptr) == ok);
    CHECK(make_dense(5, 0, 0, nullptr) == ok);
    CHECK(make_dense(2, 2, 2, reinterpret_cast<char*>(values) + 2) == MAGICUBE_STATUS_MISALIGNED);
    CHECK(message_has("its address must be a multiple of 4 bytes"));
    CHECK(make_dense(2, 2, 2, reinterpret_cast<char*>(values) + 2, MAGICUBE_FP16) == ok);
    CHECK(make_dense(2, 2, 2, reinterpret_cast<char*>(values) + 1, MAGICUBE_E4M3) == ok);
}

TEST_CASE("dense: a setter that is refused changes nothing") {
    float values[40] = {};
    dn_mat d;
    REQUIRE(magicubeCreateDnMat(&d.value, 5, 3, 4, values, MAGICUBE_FP32, row_order) == ok);
    CHECK(magicubeDnMatSetCols(d, 5, 4) == invalid);
    CHECK(message_has("magicubeDnMatSetCols: ld is 4; it must be at least cols = 5"));
    CHECK(magicubeDnMatSetStridedBatch(d, -1, 20) == invalid);
    CHECK(message_has("count is -1"));
    CHECK(magicubeDnMatSetStridedBatch(d, 2, -20) == invalid);
    CHECK(message_has("stride is -20"));
    CHECK(magicubeDnMatSetStridedBatch(d, 3, INT64_MAX) == invalid);
    CHECK(message_has("overflows"));
    CHECK(magicubeDnMatSetValues(d, nullptr) == invalid);
    CHECK(magicubeConstDnMatSetValues(d, values) == invalid);
    CHECK(message_has("was made by magicubeCreateDnMat; magicubeDnMatSetValues sets its values"));
    int64_t cols = 0, ld = 0, count = 0, stride = -1;
    const void* told = nullptr;
    REQUIRE(magicubeDnMatGet(d, nullptr, &cols, &ld, &told, nullptr, nullptr) == ok);
    REQUIRE(magicubeDnMatGetStridedBatch(d, &count, &stride) == ok);
    CHECK((cols == 3 && ld == 4 && told == values && count == 1 && stride == 0));

    magicubeConstDnMatDescr_t constant = nullptr;
    REQUIRE(magicubeCreateConstDnMat(&constant, 5, 3, 4, values, MAGICUBE_INT4, row_order) == ok);
    CHECK(magicubeDnMatSetValues(const_cast<magicubeDnMatDescr_t>(constant), values) == invalid);
    CHECK(message_has("was made by magicubeCreateConstDnMat"));
    CHECK(magicubeConstDnMatSetValues(constant, values + 1) == ok);
    CHECK(magicubeDnMatSetStridedBatch(constant, 2, 13) == invalid);
    CHECK(message_has("stride is 13; it must be even for int4"));
    CHECK(magicubeDnMatSetStridedBatch(constant, 2, 0) == ok);
    CHECK(magicubeDestroyDnMat(constant) == ok);
    CHECK(magicubeDestroyDnMat(nullptr) == ok);
    CHECK(magicubeDnMatGet(nullptr, &cols, nullptr, nullptr, nullptr, nullptr, nullptr) == invalid);
    CHECK(message_has("matrix is null"));
    CHECK(magicubeDnMatSetCols(nullptr, 1, 1) == invalid);
}

TEST_CASE("sparse: what was set is told") {
    arrays a;
    int64_t rows = 0, cols = 0, n = 0, block_rows = 0, block_cols = 0;
    const void *values = nullptr, *first = nullptr, *second = nullptr;
    const int32_t* columns = nullptr;
    magicubeSparseFormat_t format{};
    magicubeDataType_t type{};
    magicubeIndexType_t offset_type{};
    {
        sp_mat d;
        REQUIRE(magicubeCreateCsr(&d.value, 4, 6, 3, a.offsets, a.columns, a.values,
                                  MAGICUBE_INDEX_64, MAGICUBE_FP32) == ok);
        REQUIRE(magicubeSpMatGet(d, &format, &rows, &cols, &type, &values) == ok);
        CHECK((format == MAGICUBE_FORMAT_CSR && rows == 4 && cols == 6 && values == a.values));
        CHECK(type == MAGICUBE_FP32);
        REQUIRE(magicubeCsrGet(d, &n, &first, &columns, &offset_type) == ok);
        CHECK((n == 3 && first == a.offsets && columns == a.columns));
        CHECK(offset_type == MAGICUBE_INDEX_64);
        CHECK(magicubeBsrGet(d, nullptr, nullptr, &n, nullptr, nullptr, nullptr) == invalid);
        CHECK(message_has("magicubeBsrGet: matrix is not BSR"));
        CHECK(magicubeSrBcrsSetPatternBatch(d, 2) == invalid);
        CHECK(message_has("matrix is not SR-BCRS"));
        CHECK(magicubeSrBcrsSetElementMask(d, nullptr) == invalid);
    }
    {
        sp_mat d;
        REQUIRE(magicubeCreateBsr(&d.value, 4, 6, 2, 3, 2, a.block_offsets, a.block_columns,
                                  a.values, MAGICUBE_INDEX_64, MAGICUBE_FP16) == ok);
        REQUIRE(magicubeBsrGet(d, &block_rows, &block_cols, &n, &first, &columns, &offset_type) ==
                ok);
        CHECK((block_rows == 2 && block_cols == 3 && n == 2 && first == a.block_offsets));
        CHECK(magicubeSpMatGet(d, &format, nullptr, nullptr, nullptr, nullptr) == ok);
        CHECK(format == MAGICUBE_FORMAT_BSR);
        CHECK(magicubeCsrGet(d, &n, nullptr, nullptr, nullptr) == invalid);
    }
    sp_mat d;
    REQUIRE(magicubeCreateSrBcrs(&d.value, 4, 6, 2, 8, 16, a.begin, a.end, a.columns, a.values,
                                 MAGICUBE_INDEX_64, MAGICUBE_INT16) == ok);
    const uint8_t mask[16] = {};
    const uint8_t* told_mask = mask;
    int32_t v = 0, s = 0, different = -1;
    REQUIRE(magicubeSrBcrsGet(d, &v, &s, &n, &first, &second, &columns, &told_mask, &offset_type) ==
            ok);
    CHECK((v == 2 && s == 8 && n == 16 && first == a.begin && second == a.end));
    CHECK(told_mask == nullptr);
    REQUIRE(magicubeSrBcrsSetElementMask(d, mask) == ok);
    REQUIRE(magicubeSrBcrsGet(d, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, &told_mask,
                              nullptr) == ok);
    CHECK(told_mask == mask);
    int64_t count = 0, stride = -1;
    REQUIRE(magicubeSpMatSetStridedBatch(d, 3, 64) == ok);
    REQUIRE(magicubeSpMatGetBatch(d, &count, &stride, &different) == ok);
    CHECK((count == 3 && stride == 64 && different == 0));
    REQUIRE(magicubeSrBcrsSetPatternBatch(d, 1) == ok);
    REQUIRE(magicubeSpMatGetBatch(d, &count, &stride, &different) == ok);
    CHECK((count == 1 && stride == 0 && different == 1));
    REQUIRE(magicubeSpMatSetStridedBatch(d, 2, 32) == ok);
    REQUIRE(magicubeSpMatGetBatch(d, nullptr, nullptr, &different) == ok);
    CHECK(different == 0);
}

TEST_CASE("sparse: values are set on the kind of descriptor that they are for") {
    arrays a;
    sp_mat d;
    REQUIRE(magicubeCreateCsr(&d.value, 4, 6, 3, a.offsets, a.columns, nullptr, MAGICUBE_INDEX_64,
                              MAGICUBE_FP32) == ok);
    CHECK(magicubeSpMatSetValues(d, a.values) == ok);
    CHECK(magicubeSpMatSetValues(d, reinterpret_cast<char*>(a.values) + 1) ==
          MAGICUBE_STATUS_MISALIGNED);
    CHECK(magicubeConstSpMatSetValues(d, a.values) == invalid);
    CHECK(message_has("magicubeSpMatSetValues sets its values"));
    magicubeConstSpMatDescr_t constant = nullptr;
    REQUIRE(magicubeCreateConstCsr(&constant, 4, 6, 3, a.offsets, a.columns, a.values,
                                   MAGICUBE_INDEX_64, MAGICUBE_FP32) == ok);
    CHECK(magicubeSpMatSetValues(const_cast<magicubeSpMatDescr_t>(constant), a.values) == invalid);
    CHECK(message_has("magicubeConstSpMatSetValues sets its values"));
    CHECK(magicubeConstSpMatSetValues(constant, a.values + 4) == ok);
    const void* told = nullptr;
    REQUIRE(magicubeSpMatGet(constant, nullptr, nullptr, nullptr, nullptr, &told) == ok);
    CHECK(told == a.values + 4);
    CHECK(magicubeDestroySpMat(constant) == ok);
    CHECK(magicubeDestroySpMat(nullptr) == ok);
    REQUIRE(magicubeCreateConstBsr(&constant, 4, 6, 2, 3, 2, a.block_offsets, a.block_columns,
                                   a.values, MAGICUBE_INDEX_64, MAGICUBE_FP16) == ok);
    CHECK(magicubeSpMatSetValues(const_cast<magicubeSpMatDescr_t>(constant), a.values) == invalid);
    magicubeDestroySpMat(constant);
    REQUIRE(magicubeCreateConstSrBcrs(&constant, 4, 6, 2, 8, 16, a.begin, a.end, a.columns,
                                      a.values, MAGICUBE_INDEX_64, MAGICUBE_INT16) == ok);
    CHECK(magicubeSpMatSetValues(const_cast<magicubeSpMatDescr_t>(constant), a.values) == invalid);
    magicubeDestroySpMat(constant);
}

TEST_CASE("sparse: index arrays are set on a descriptor of their format") {
    arrays a, b;
    const void *first = nullptr, *second = nullptr;
    const int32_t* columns = nullptr;
    int64_t count = 0;
    sp_mat csr, bsr, sr_bcrs;
    REQUIRE(magicubeCreateCsr(&csr.value, 4, 6, 3, a.offsets, a.columns, a.values,
                              MAGICUBE_INDEX_64, MAGICUBE_FP32) == ok);
    REQUIRE(magicubeCsrSetPointers(csr, 2, b.offsets, b.columns) == ok);
    REQUIRE(magicubeCsrGet(csr, &count, &first, &columns, nullptr) == ok);
    CHECK((count == 2 && first == b.offsets && columns == b.columns));
    CHECK(magicubeCsrSetPointers(csr, -1, a.offsets, a.columns) == invalid);
    CHECK(magicubeCsrSetPointers(csr, 1, nullptr, a.columns) == invalid);
    CHECK(magicubeBsrSetPointers(csr, 1, a.offsets, a.columns) == invalid);
    CHECK(message_has("matrix is not BSR"));
    REQUIRE(magicubeCsrGet(csr, &count, &first, &columns, nullptr) == ok);
    CHECK((count == 2 && first == b.offsets && columns == b.columns));

    REQUIRE(magicubeCreateBsr(&bsr.value, 4, 6, 2, 3, 2, a.block_offsets, a.block_columns, a.values,
                              MAGICUBE_INDEX_64, MAGICUBE_FP32) == ok);
    REQUIRE(magicubeBsrSetPointers(bsr, 1, b.block_offsets, b.block_columns) == ok);
    REQUIRE(magicubeBsrGet(bsr, nullptr, nullptr, &count, &first, &columns, nullptr) == ok);
    CHECK((count == 1 && first == b.block_offsets && columns == b.block_columns));

    REQUIRE(magicubeCreateSrBcrs(&sr_bcrs.value, 4, 6, 2, 8, 16, a.begin, a.end, a.columns,
                                 a.values, MAGICUBE_INDEX_64, MAGICUBE_FP32) == ok);
    REQUIRE(magicubeSrBcrsSetPointers(sr_bcrs, 8, b.begin, b.end, b.columns) == ok);
    REQUIRE(magicubeSrBcrsGet(sr_bcrs, nullptr, nullptr, &count, &first, &second, &columns, nullptr,
                              nullptr) == ok);
    CHECK((count == 8 && first == b.begin && second == b.end && columns == b.columns));
    CHECK(magicubeSrBcrsSetPointers(sr_bcrs, 9, a.begin, a.end, a.columns) == invalid);
}

TEST_CASE("sparse: bad arguments are refused with argument, value and rule") {
    arrays a;
    const auto csr = [&](int64_t rows, int64_t cols, int64_t nnz, const void* offsets,
                         int offset_type = MAGICUBE_INDEX_64, int type = MAGICUBE_FP32) {
        sp_mat d;
        return magicubeCreateCsr(&d.value, rows, cols, nnz, offsets, a.columns, a.values,
                                 static_cast<magicubeIndexType_t>(offset_type),
                                 static_cast<magicubeDataType_t>(type));
    };
    CHECK(csr(4, 6, 3, a.offsets) == ok);
    CHECK(csr(int64_t{1} << 31, 6, 3, a.offsets) == invalid);
    CHECK(message_has("rows is 2147483648; a sparse matrix takes 0 to 2147483647"));
    CHECK(csr(4, -6, 3, a.offsets) == invalid);
    CHECK(message_has("cols is -6"));
    CHECK(csr(4, 6, -1, a.offsets) == invalid);
    CHECK(message_has("nnz is -1"));
    CHECK(csr(4, 6, int64_t{1} << 31, a.offsets, MAGICUBE_INDEX_32) == invalid);
    CHECK(message_has("int32 offsets hold at most 2147483647 (use MAGICUBE_INDEX_64)"));
    CHECK(csr(4, 6, 3, nullptr) == invalid);
    CHECK(message_has("offsets is null; it must hold 5 elements"));
    CHECK(csr(0, 6, 0, nullptr) == ok);
    CHECK(csr(4, 6, 3, reinterpret_cast<char*>(a.offsets) + 4) == MAGICUBE_STATUS_MISALIGNED);
    CHECK(csr(4, 6, 3, reinterpret_cast<char*>(a.offsets) + 4, MAGICUBE_INDEX_32) == ok);
    CHECK(csr(4, 6, 3, a.offsets, 0) == invalid);
    CHECK(message_has("offset_type is 0; it must be a magicubeIndexType_t"));
    CHECK(csr(4, 6, 3, a.offsets, 3) == invalid);
    CHECK(csr(4, 6, 3, a.offsets, MAGICUBE_INDEX_64, -1) == invalid);
    CHECK(message_has("value_type is -1; it must be a magicubeDataType_t"));

    const auto sr_bcrs = [&](int32_t v, int32_t s, int64_t slots,
                             magicubeDataType_t type = MAGICUBE_FP32) {
        sp_mat d;
        return magicubeCreateSrBcrs(&d.value, 4, 6, v, s, slots, a.begin, a.end, a.columns,
                                    a.values, MAGICUBE_INDEX_64, type);
    };
    CHECK(sr_bcrs(2, 8, 16) == ok);
    CHECK(sr_bcrs(3, 8, 16) == invalid);
    CHECK(message_has("vector_length is 3; it must be 1, 2, 4, 8, 16, 32 or 64"));
    CHECK(sr_bcrs(128, 8, 16) == invalid);
    CHECK(sr_bcrs(2, 2, 16) == invalid);
    CHECK(message_has("stride is 2; it must be 1, 8, 16 or 32"));
    CHECK(sr_bcrs(2, 8, 15) == invalid);
    CHECK(message_has("slots is 15; it must be a multiple of the stride 8"));
    CHECK(sr_bcrs(1, 1, 16, MAGICUBE_INT4) == invalid);
    CHECK(message_has("int4 needs a stride of at least 8 or an even vector length"));
    CHECK(sr_bcrs(2, 1, 16, MAGICUBE_INT4) == ok);
    CHECK(sr_bcrs(64, 8, INT64_MAX / 16 * 8) == invalid);
    CHECK(message_has("slots times V overflows 64 bits"));

    sp_mat d;
    CHECK(magicubeCreateBsr(&d.value, 4, 6, 0, 3, 2, a.block_offsets, a.block_columns, a.values,
                            MAGICUBE_INDEX_64, MAGICUBE_FP32) == invalid);
    CHECK(message_has("block_rows is 0; it must be from 1 to 2147483647"));
    CHECK(d.value == nullptr);
    CHECK(magicubeCreateBsr(nullptr, 4, 6, 2, 3, 2, a.block_offsets, a.block_columns, a.values,
                            MAGICUBE_INDEX_64, MAGICUBE_FP32) == invalid);
    REQUIRE(magicubeCreateSrBcrs(&d.value, 4, 6, 2, 8, 16, a.begin, a.end, a.columns, a.values,
                                 MAGICUBE_INDEX_64, MAGICUBE_INT4) == ok);
    CHECK(magicubeSpMatSetStridedBatch(d, 2, 33) == invalid);
    CHECK(message_has("values_stride is 33; it must be even for int4"));
    CHECK(magicubeSpMatSetStridedBatch(d, -2, 32) == invalid);
    CHECK(message_has("count is -2"));
    CHECK(magicubeSpMatSetStridedBatch(d, 2, -32) == invalid);
    CHECK(magicubeSrBcrsSetPatternBatch(d, -1) == invalid);
    CHECK(magicubeSrBcrsSetPatternBatch(d, INT64_MAX) == invalid);
    CHECK(message_has("block rows of the batch overflows"));
}
