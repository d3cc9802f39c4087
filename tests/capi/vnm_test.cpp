// SPDX-License-Identifier: Apache-2.0
// V:N:M through the C ABI: descriptors and conversions.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/capi.hpp"
#include "support/descriptors.hpp"
#include "support/guarded.hpp"

using namespace support;

namespace {

constexpr auto ok = MAGICUBE_STATUS_SUCCESS;
constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;

// One row (0, 7, 0, 9, 5, 0), the example of matrix.h.
struct example {
    uint8_t column_loc[8] = {0, 1, 2, 3, 0, 1, 1, 1};
    uint8_t metadata[1] = {0x4d};
    float values[4] = {7, 9, 5, 0};
    sp_mat matrix;

    example() {
        REQUIRE_OK(magicubeCreateVnm(&matrix.value, 1, 6, 1, 2, 4, column_loc, metadata, values,
                                     MAGICUBE_FP32));
    }
};

magicubeVnmArrays_t arrays_of(int32_t v, int32_t n, int32_t m, magicubeDataType_t type) {
    magicubeVnmArrays_t arrays = MAGICUBE_VNM_ARRAYS_INIT;
    arrays.vector_length = v;
    arrays.n = n;
    arrays.m = m;
    arrays.value_type = type;
    return arrays;
}

}  // namespace

TEST_CASE("V:N:M: the header's example reads as it says, from both sides") {
    cpu_handle handle;
    example e;
    REQUIRE_OK(magicubeSpMatValidate(handle, e.matrix));
    float row[6];
    dn_mat dense(1, 6, 6, row, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    REQUIRE_OK(magicubeSparseToDense(handle, e.matrix, dense));
    const float wanted[] = {0, 7, 0, 9, 5, 0};
    for (int i = 0; i < 6; ++i) CHECK(row[i] == wanted[i]);

    auto arrays = arrays_of(1, 2, 4, MAGICUBE_FP32);
    size_t bytes = 1;
    REQUIRE_OK(magicubeDenseToVnm_bufferSize(handle, dense, nullptr, &arrays, &bytes));
    CHECK(bytes == 0);
    int64_t elements = 0, loc_count = 0, metadata_count = 0, value_count = 0;
    REQUIRE_OK(magicubeDenseToVnm_count(handle, dense, nullptr, &arrays, &elements, nullptr, 0));
    CHECK(elements == 3);
    REQUIRE_OK(magicubeVnmLengths(1, 6, 1, 2, 4, &loc_count, &metadata_count, &value_count));
    CHECK((loc_count == 8 && metadata_count == 1 && value_count == 4));
    guarded_array<uint8_t> loc(8), metadata(1);
    guarded_array<float> values(4);
    arrays.column_loc = loc.data();
    arrays.metadata = metadata.data();
    arrays.values = values.data();
    REQUIRE_OK(magicubeDenseToVnm_fill(handle, dense, nullptr, &arrays, nullptr, 0));
    for (int i = 0; i < 8; ++i) CHECK(loc[i] == e.column_loc[i]);
    CHECK(metadata[0] == e.metadata[0]);
    for (int i = 0; i < 4; ++i) CHECK(values[i] == e.values[i]);
    CHECK((loc.intact() && metadata.intact() && values.intact()));
}

TEST_CASE("V:N:M: descriptors tell what was set, and setters that are refused change nothing") {
    example e;
    int32_t v = 0, n = 0, m = 0;
    const void* loc = nullptr;
    const uint8_t* metadata = nullptr;
    REQUIRE_OK(magicubeVnmGet(e.matrix, &v, &n, &m, &loc, &metadata));
    CHECK((v == 1 && n == 2 && m == 4 && loc == e.column_loc && metadata == e.metadata));
    REQUIRE_OK(magicubeVnmGet(e.matrix, nullptr, nullptr, nullptr, nullptr, nullptr));
    magicubeSparseFormat_t format{};
    int64_t rows = 0, cols = 0;
    magicubeDataType_t type{};
    const void* values = nullptr;
    REQUIRE_OK(magicubeSpMatGet(e.matrix, &format, &rows, &cols, &type, &values));
    CHECK((format == MAGICUBE_FORMAT_VNM && rows == 1 && cols == 6 && type == MAGICUBE_FP32 &&
           values == e.values));
    CHECK(magicubeVnmSetPointers(e.matrix, nullptr, e.metadata) == invalid);
    CHECK(message_has("column_loc is null; it must hold 8 elements"));
    uint8_t other[1];
    REQUIRE_OK(magicubeVnmSetPointers(e.matrix, e.column_loc, other));
    REQUIRE_OK(magicubeVnmGet(e.matrix, nullptr, nullptr, nullptr, nullptr, &metadata));
    CHECK(metadata == other);
    REQUIRE_OK(magicubeSpMatSetStridedBatch(e.matrix, 3, 4));
    int32_t different = 1;
    int64_t count = 0, stride = 0;
    REQUIRE_OK(magicubeSpMatGetBatch(e.matrix, &count, &stride, &different));
    CHECK((count == 3 && stride == 4 && different == 0));
    CHECK(magicubeSrBcrsSetPatternBatch(e.matrix, 2) == invalid);
    CHECK(message_has("matrix is not SR-BCRS"));

    magicubeConstSpMatDescr_t constant = nullptr;
    REQUIRE_OK(magicubeCreateConstVnm(&constant, 1, 6, 1, 2, 4, e.column_loc, e.metadata, e.values,
                                      MAGICUBE_FP32));
    CHECK(magicubeConstSpMatSetValues(constant, nullptr) == ok);
    CHECK(magicubeDestroySpMat(constant) == ok);
    CHECK(magicubeCreateVnm(nullptr, 1, 6, 1, 2, 4, e.column_loc, e.metadata, e.values,
                            MAGICUBE_FP32) == invalid);
    CHECK(message_has("magicubeCreateVnm: matrix is null"));
    sp_mat refused;
    CHECK(magicubeCreateVnm(&refused.value, 1, 6, 1, 2, 3, e.column_loc, e.metadata, e.values,
                            MAGICUBE_FP32) == invalid);
    CHECK(message_has("magicubeCreateVnm: m is 3; for n = 2 it must be from 4 to 65536"));
    CHECK(refused.value == nullptr);
    CHECK(magicubeCreateVnm(&refused.value, 1, 6, 1, 2, 4, e.column_loc, e.metadata, e.values,
                            no_enumerator<magicubeDataType_t>()) == invalid);
    CHECK(magicubeVnmLengths(1, -6, 1, 2, 4, nullptr, nullptr, nullptr) == invalid);
    CHECK(message_has("cols is -6"));
    CHECK(magicubeVnmLengths(1, 6, 3, 2, 4, nullptr, nullptr, nullptr) == invalid);
    CHECK(message_has("vector_length is 3; it must be 1, 16, 32, 64, 128 or 256"));
    CHECK(magicubeVnmLengths(INT32_MAX, INT32_MAX, 1, 200, 202, nullptr, nullptr, nullptr) ==
          invalid);
    CHECK(message_has("overflows 64 bits"));
}

TEST_CASE("V:N:M: a malformed matrix is refused by what reads it") {
    cpu_handle handle;
    example e;
    e.metadata[0] = 0x44;
    CHECK(magicubeSpMatValidate(handle, e.matrix) == ok);
    e.metadata[0] = 0x41;
    CHECK(magicubeSpMatValidate(handle, e.matrix) == invalid);
    CHECK(message_has("matrix: metadata gives row 0 place 0 after 1 in group 0 (block row 0)"));
    float row[6];
    dn_mat dense(1, 6, 6, row, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    CHECK(magicubeSparseToDense(handle, e.matrix, dense) == invalid);
    int64_t offsets[2], nnz = 0;
    CHECK(magicubeVnmToCsr_count(handle, e.matrix, MAGICUBE_INDEX_64, offsets, &nnz) == invalid);
    CHECK(message_has("source: metadata gives row 0"));
    e.metadata[0] = 0xcd;
    e.values[3] = 1;  // at place 3 of a group of two columns
    CHECK(magicubeSpMatValidate(handle, e.matrix) == invalid);
    CHECK(message_has("matrix: values[3] is 1; it must be 0"));
}

TEST_CASE("V:N:M: random matrices through dense, CSR and back") {
    cpu_handle handle;
    generator random(120);
    for (const int64_t n : {1, 2, 5})
        for (const int64_t m : {7, 16, 300}) {
            vnm_sample sample({kind::bf16, 150, 77, 64, m, n}, random);
            const sp_mat source(sample);
            std::vector<int64_t> offsets(151);
            int64_t nnz = 0;
            REQUIRE_OK(
                magicubeVnmToCsr_count(handle, source, MAGICUBE_INDEX_64, offsets.data(), &nnz));
            std::vector<int32_t> columns(static_cast<size_t>(nnz));
            packed_array values(kind::bf16, nnz);
            REQUIRE_OK(magicubeVnmToCsr_fill(handle, source, MAGICUBE_INDEX_64, offsets.data(),
                                             columns.data(), values.data(), MAGICUBE_BF16));
            sp_mat csr;
            REQUIRE_OK(magicubeCreateCsr(&csr.value, 150, 77, nnz, offsets.data(), columns.data(),
                                         values.data(), MAGICUBE_INDEX_64, MAGICUBE_BF16));
            auto arrays =
                arrays_of(64, static_cast<int32_t>(n), static_cast<int32_t>(m), MAGICUBE_FP32);
            int64_t elements = 0, loc_count = 0, metadata_count = 0, value_count = 0;
            size_t bytes = 1;
            REQUIRE_OK(magicubeSparseToVnm_bufferSize(handle, csr, &arrays, &bytes));
            REQUIRE_OK(magicubeSparseToVnm_count(handle, csr, &arrays, &elements, nullptr, 0));
            CHECK((elements == nnz && bytes == 0));
            REQUIRE_OK(magicubeVnmLengths(150, 77, 64, arrays.n, arrays.m, &loc_count,
                                          &metadata_count, &value_count));
            std::vector<uint16_t> loc(static_cast<size_t>(loc_count));
            std::vector<uint8_t> metadata(static_cast<size_t>(metadata_count));
            std::vector<float> again(static_cast<size_t>(value_count));
            arrays.column_loc = loc.data();
            arrays.metadata = metadata.data();
            arrays.values = again.data();
            REQUIRE_OK(magicubeSparseToVnm_fill(handle, csr, &arrays, nullptr, 0));
            sp_mat result;
            REQUIRE_OK(magicubeCreateVnm(&result.value, 150, 77, 64, arrays.n, arrays.m, loc.data(),
                                         metadata.data(), again.data(), MAGICUBE_FP32));
            REQUIRE_OK(magicubeSpMatValidate(handle, result));
            std::vector<float> dense(150 * 77);
            dn_mat target(150, 77, 77, dense.data(), MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
            REQUIRE_OK(magicubeSparseToDense(handle, result, target));
            const auto wanted = sample.dense(0);
            for (size_t i = 0; i < dense.size(); ++i)
                REQUIRE(static_cast<double>(dense[i]) == wanted[i]);
        }
}

TEST_CASE("conversions to V:N:M refuse bad input") {
    cpu_handle handle;
    generator random(121);
    dense_sample dense({kind::int8, 20, 8, false, 0}, random);
    for (int64_t i = 0; i < 20; ++i) dense.set_row(i, i == 17 ? 3 : 0);
    const dn_mat d(dense);
    auto arrays = arrays_of(16, 2, 8, MAGICUBE_INT8);
    int64_t elements = 0;
    CHECK(magicubeDenseToVnm_count(handle, d, nullptr, &arrays, &elements, nullptr, 0) == invalid);
    CHECK(message_has(
        "magicubeDenseToVnm_count: dense has 8 elements in group 0 of row 17 (block row 1)"));
    CHECK(magicubeDenseToVnm_fill(handle, d, nullptr, &arrays, nullptr, 0) == invalid);
    CHECK(message_has("arrays->column_loc is null; it must hold 8 elements"));
    arrays.m = 2;
    CHECK(magicubeDenseToVnm_count(handle, d, nullptr, &arrays, &elements, nullptr, 0) == invalid);
    CHECK(message_has("arrays->m is 2"));
    arrays = arrays_of(16, 2, 8, MAGICUBE_INT16);
    CHECK(magicubeDenseToVnm_count(handle, d, nullptr, &arrays, &elements, nullptr, 0) == invalid);
    CHECK(message_has("arrays->value_type is int16; it must be int8, fp16, bf16, fp32 or e4m3"));
    arrays = arrays_of(16, 2, 8, MAGICUBE_FP32);
    for (int64_t i = 0; i < 20; ++i) dense.set_row(i, 0);
    uint8_t loc[8], metadata[20];
    float values[40];
    arrays.column_loc = loc;
    arrays.metadata = metadata;
    arrays.values = values;
    CHECK(magicubeDenseToVnm_fill(handle, d, nullptr, &arrays, nullptr, 0) == invalid);
    CHECK(message_has("arrays->value_type is fp32; it must be int8, the type of dense"));
    arrays.value_type = MAGICUBE_INT8;
    CHECK(magicubeDenseToVnm_fill(handle, d, nullptr, &arrays, nullptr, 0) == ok);
    REQUIRE_OK(magicubeDnMatSetStridedBatch(d, 2, 0));
    CHECK(magicubeDenseToVnm_count(handle, d, nullptr, &arrays, &elements, nullptr, 0) == invalid);
    CHECK(message_has("dense is a batch of 2; a conversion to V:N:M takes one matrix"));
    CHECK(magicubeDenseToVnm_count(handle, d, nullptr, nullptr, &elements, nullptr, 0) == invalid);
    CHECK(message_has("arrays is null"));

    sparse_sample sparse({kind::fp32, 20, 8, 4, 8, 1.0}, random);
    const sp_mat source(sparse);
    arrays.value_type = MAGICUBE_FP32;
    CHECK(magicubeSparseToVnm_count(handle, source, &arrays, &elements, nullptr, 0) == invalid);
    CHECK(message_has("source has 8 elements in group 0 of row"));
    int64_t offsets[21], nnz = 0;
    CHECK(magicubeVnmToCsr_count(handle, source, MAGICUBE_INDEX_64, offsets, &nnz) == invalid);
    CHECK(message_has("source is not V:N:M"));
    example e;
    CHECK(magicubeSrBcrsToCsr_count(handle, e.matrix, MAGICUBE_INDEX_64, offsets, &nnz) ==
          MAGICUBE_STATUS_NOT_SUPPORTED);
    CHECK(message_has("source is V:N:M; this operation takes SR-BCRS or CSR"));
    CHECK(magicubeVnmGet(source, nullptr, nullptr, nullptr, nullptr, nullptr) == invalid);
    CHECK(message_has("matrix is not V:N:M"));
}
