// SPDX-License-Identifier: Apache-2.0
// What conversions refuse.
#include <doctest/doctest.h>

#include <cstdint>

#include "conversion.hpp"

using namespace support;

namespace {

constexpr auto ok = MAGICUBE_STATUS_SUCCESS;
constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;

}  // namespace

TEST_CASE("batches of an output must lie apart, those of an input need not") {
    cpu_handle handle;
    generator random(63);
    sparse_sample sample({kind::fp32, 6, 4, 2, 8, 0.5, false, false, 3, batch_kind::shared_values},
                         random);
    const sp_mat source(sample);
    const element_grid grid = grid_of(sample);
    packed_array values(kind::fp32, 100);
    dn_mat d;
    // Side by side in one line: [row][batch][col].
    REQUIRE(magicubeCreateDnMat(&d.value, 6, 4, 12, values.data(), MAGICUBE_FP32,
                                MAGICUBE_ORDER_ROW) == ok);
    REQUIRE(magicubeDnMatSetStridedBatch(d, 3, 4) == ok);
    CHECK(magicubeSparseToDense(handle, source, d) == ok);
    for (int64_t b = 0; b < 3; ++b)
        for (int64_t i = 0; i < 6; ++i)
            for (int64_t j = 0; j < 4; ++j)
                CHECK(values.get(i * 12 + b * 4 + j) == grid.values[grid.at(b, i, j)]);
    // One after another, but too close.
    REQUIRE(magicubeDnMatSetCols(d, 4, 4) == ok);
    REQUIRE(magicubeDnMatSetStridedBatch(d, 3, 23) == ok);
    CHECK(magicubeSparseToDense(handle, source, d) == invalid);
    CHECK(message_has("dense is a batch of 3 matrices, 23 elements apart, that share elements"));
    REQUIRE(magicubeDnMatSetStridedBatch(d, 3, 24) == ok);
    CHECK(magicubeSparseToDense(handle, source, d) == ok);
    // One matrix for the whole batch.
    REQUIRE(magicubeDnMatSetStridedBatch(d, 3, 0) == ok);
    CHECK(magicubeSparseToDense(handle, source, d) == invalid);
    CHECK(message_has("0 elements apart"));
    conversion c(9, kind::fp32, 2, 8);
    convert_dense(handle, d, nullptr, c);
    // Interleaved, but too close.
    REQUIRE(magicubeDnMatSetCols(d, 4, 11) == ok);
    REQUIRE(magicubeDnMatSetStridedBatch(d, 3, 4) == ok);
    CHECK(magicubeSparseToDense(handle, source, d) == invalid);
}

TEST_CASE("conversions refuse bad input") {
    cpu_handle handle;
    generator random(64);
    dense_sample dense({kind::fp32, 6, 5, false, 0}, random);
    sparse_sample sample({kind::fp32, 6, 5, 2, 8, 0.9}, random);
    const dn_mat d(dense);
    const sp_mat s(sample);
    conversion c(3, kind::fp32, 2, 8);
    int64_t slots = 0;
    size_t bytes = 0;
    const auto count = [&] {
        return magicubeDenseToSrBcrs_count(handle, d, nullptr, &c.arrays, &slots, nullptr, 0);
    };
    const auto fill = [&] {
        return magicubeDenseToSrBcrs_fill(handle, d, nullptr, &c.arrays, nullptr, 0);
    };
    CHECK(magicubeDenseToSrBcrs_count(nullptr, d, nullptr, &c.arrays, &slots, nullptr, 0) ==
          invalid);
    CHECK(message_has("handle is null"));
    CHECK(magicubeDenseToSrBcrs_count(handle, nullptr, nullptr, &c.arrays, &slots, nullptr, 0) ==
          invalid);
    CHECK(message_has("dense is null"));
    CHECK(magicubeDenseToSrBcrs_count(handle, d, nullptr, nullptr, &slots, nullptr, 0) == invalid);
    CHECK(message_has("arrays is null"));
    CHECK(magicubeDenseToSrBcrs_count(handle, d, nullptr, &c.arrays, nullptr, nullptr, 0) ==
          invalid);
    CHECK(message_has("slots is null"));
    CHECK(magicubeDenseToSrBcrs_bufferSize(handle, d, nullptr, &c.arrays, nullptr) == invalid);
    CHECK(magicubeSparseToSrBcrs_bufferSize(handle, nullptr, &c.arrays, &bytes) == invalid);
    CHECK(message_has("source is null"));
    c.arrays.struct_size = 0;
    CHECK(count() == invalid);
    CHECK(message_has("arrays->struct_size is 0"));
    c.arrays.struct_size = sizeof(c.arrays);
    c.arrays.vector_length = 5;
    CHECK(count() == invalid);
    CHECK(message_has("arrays->vector_length is 5; it must be 1, 2, 4, 8, 16, 32 or 64"));
    c.arrays.vector_length = 2;
    c.arrays.stride = -1;
    CHECK(count() == invalid);
    CHECK(message_has("arrays->stride is -1"));
    c.arrays.stride = 8;
    c.arrays.value_type = static_cast<magicubeDataType_t>(0);
    CHECK(count() == invalid);
    CHECK(message_has("arrays->value_type is 0"));
    c.arrays.value_type = MAGICUBE_FP32;
    c.arrays.offset_type = static_cast<magicubeIndexType_t>(7);
    CHECK(count() == invalid);
    CHECK(message_has("arrays->offset_type is 7"));
    c.arrays.offset_type = MAGICUBE_INDEX_64;
    c.arrays.row_end = nullptr;
    CHECK(count() == invalid);
    CHECK(message_has("arrays->row_end is null; it must hold 3 elements"));
    c.arrays.row_end = reinterpret_cast<char*>(c.end.data()) + 1;
    CHECK(count() == MAGICUBE_STATUS_MISALIGNED);
    c.arrays.row_end = c.end.data();
    REQUIRE(count() == ok);

    c.allocate(slots);
    c.arrays.slots = slots + 1;
    CHECK(fill() == invalid);
    CHECK(message_has("it must be a multiple of the stride 8"));
    c.arrays.slots = slots + 8;
    CHECK(fill() == invalid);
    CHECK(message_has("arrays->slots is"));
    c.arrays.slots = slots;
    c.arrays.col_indices = nullptr;
    CHECK(fill() == invalid);
    CHECK(message_has("arrays->col_indices is null"));
    c.arrays.col_indices = c.columns.data();
    c.arrays.value_type = MAGICUBE_INT8;
    CHECK(fill() == invalid);
    CHECK(message_has(
        "arrays->value_type is int8; it must be fp32, the type of dense, or another floating "
        "type"));
    c.arrays.value_type = MAGICUBE_FP16;
    CHECK(fill() == ok);

    dense_sample other({kind::uint8, 6, 4, false, 0}, random);
    const dn_mat m(other);
    CHECK(magicubeDenseToSrBcrs_count(handle, d, m, &c.arrays, &slots, nullptr, 0) == invalid);
    CHECK(message_has("mask is 6 x 4; it must be 6 x 5 as dense is"));
    CHECK(magicubeDenseToSrBcrs_count(handle, m, d, &c.arrays, &slots, nullptr, 0) == invalid);
    CHECK(message_has("mask is of type fp32; it must be uint8"));
    CHECK(magicubeSparseToDense(handle, s, m) == invalid);
    CHECK(message_has("dense is 6 x 4; it must be 6 x 5 as source is"));
    CHECK(magicubeSparseToMask(handle, s, d) == invalid);
    CHECK(message_has("mask is of type fp32; it must be uint8"));
    magicubeConstDnMatDescr_t constant = nullptr;
    REQUIRE(magicubeCreateConstDnMat(&constant, 6, 5, 5, dense.array().data(), MAGICUBE_FP32,
                                     MAGICUBE_ORDER_ROW) == ok);
    CHECK(magicubeSparseToDense(handle, s, const_cast<magicubeDnMatDescr_t>(constant)) == invalid);
    CHECK(message_has("an output needs magicubeCreateDnMat"));
    magicubeDestroyDnMat(constant);

    // The contents of arrays, under full validation and by magicubeSpMatValidate.
    sample.columns()[0] = 5;
    CHECK(magicubeSparseToDense(handle, s, d) == invalid);
    CHECK(message_has("source: col_indices[0] is 5; it must be at least 0 and below 5"));
    CHECK(magicubeSpMatValidate(handle, s) == invalid);
    CHECK(message_has("matrix: col_indices[0] is 5"));
    REQUIRE(magicubeSetValidation(handle, MAGICUBE_VALIDATION_BASIC) == ok);
    CHECK(magicubeSpMatValidate(handle, s) == invalid);
    REQUIRE(magicubeSetValidation(handle, MAGICUBE_VALIDATION_FULL) == ok);
    int64_t offsets[8] = {};
    CHECK(magicubeSrBcrsToCsr_count(handle, s, MAGICUBE_INDEX_64, offsets, &slots) == invalid);
    CHECK(magicubeSrBcrsToCsr_count(handle, s, MAGICUBE_INDEX_64, nullptr, &slots) == invalid);
    CHECK(message_has("offsets is null; it must hold 7 elements"));
    CHECK(magicubeSrBcrsToBsr_count(handle, s, 0, 2, MAGICUBE_INDEX_64, offsets, &slots) ==
          invalid);
    CHECK(message_has("block_rows is 0"));
    sparse_sample batch({kind::fp32, 6, 5, 2, 8, 0.5, false, false, 2}, random);
    const sp_mat two(batch);
    CHECK(magicubeSrBcrsToCsr_count(handle, two, MAGICUBE_INDEX_64, offsets, &slots) == invalid);
    CHECK(message_has("source is a batch of 2; this conversion takes one matrix"));
    CHECK(magicubeSparseToDense(handle, two, d) == invalid);
    CHECK(message_has("dense is a batch of 1; it must be one of 2 as source is"));
}
