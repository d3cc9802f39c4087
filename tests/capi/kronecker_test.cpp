// SPDX-License-Identifier: Apache-2.0
// Kronecker-sparse factors and chains through the C ABI. Numbers in depth: tests/core/formats.
#include "magicube/kronecker.h"

#include <doctest/doctest.h>

#include <vector>

#include "support/capi.hpp"
#include "support/descriptors.hpp"

using namespace support;

namespace {

constexpr auto invalid = MAGICUBE_STATUS_INVALID_VALUE;

using shape = magicubeKroneckerShape_t;

struct kronecker {
    magicubeKroneckerDescr_t value = nullptr;

    kronecker(const std::vector<shape>& shapes, void* const* values,
              magicubeDataType_t type = MAGICUBE_FP32) {
        REQUIRE_OK(magicubeCreateKroneckerChain(&value, static_cast<int64_t>(shapes.size()),
                                                shapes.data(), values, type));
    }
    kronecker(const shape& s, void* values, magicubeDataType_t type = MAGICUBE_FP32) {
        REQUIRE_OK(magicubeCreateKronecker(&value, s.a, s.b, s.c, s.d, values, type));
    }
    ~kronecker() { magicubeDestroyKronecker(value); }
    kronecker(const kronecker&) = delete;
    kronecker& operator=(const kronecker&) = delete;
    operator magicubeKroneckerDescr_t() const { return value; }
};

}  // namespace

TEST_SUITE_BEGIN("kronecker");

TEST_CASE("Kronecker descriptors tell what they were made of") {
    float values[3][16] = {};
    void* const arrays[] = {values[0], values[1]};
    const kronecker chain({{1, 2, 2, 4}, {2, 2, 2, 2}}, arrays);
    int64_t count = 0, rows = 0, cols = 0;
    magicubeDataType_t type{};
    CHECK(magicubeKroneckerGet(chain, &count, &rows, &cols, &type) == MAGICUBE_STATUS_SUCCESS);
    CHECK(count == 2);
    CHECK(rows == 8);
    CHECK(cols == 8);
    CHECK(type == MAGICUBE_FP32);
    CHECK(magicubeKroneckerGet(chain, nullptr, nullptr, nullptr, nullptr) ==
          MAGICUBE_STATUS_SUCCESS);
    shape s{};
    const void* found = nullptr;
    CHECK(magicubeKroneckerSetValues(chain, 1, values[2]) == MAGICUBE_STATUS_SUCCESS);
    CHECK(magicubeKroneckerGetFactor(chain, 1, &s, &found) == MAGICUBE_STATUS_SUCCESS);
    CHECK(found == values[2]);
    CHECK(s.a == 2);
    CHECK(s.d == 2);
    CHECK(magicubeKroneckerGetFactor(chain, 2, &s, nullptr) == invalid);
    CHECK(message_has("index is 2; it must be from 0 to 1"));
    CHECK(magicubeKroneckerSetValues(chain, 0, reinterpret_cast<char*>(values) + 1) ==
          MAGICUBE_STATUS_MISALIGNED);
    CHECK(message_has("values[0]"));
    CHECK(magicubeConstKroneckerSetValues(chain, 0, values[0]) == invalid);
    CHECK(message_has("magicubeKroneckerSetValues sets its values"));

    int32_t chainable = 7, redundant = 7;
    int64_t rank = 7;
    CHECK(magicubeKroneckerGetPair(chain, 0, &chainable, &rank, &redundant) ==
          MAGICUBE_STATUS_SUCCESS);
    CHECK(chainable == 1);
    CHECK(rank == 1);
    CHECK(redundant == 0);
    CHECK(magicubeKroneckerGetPair(chain, 1, nullptr, nullptr, nullptr) == invalid);
    CHECK(message_has("index is 1; it must be from 0 to 0"));
    CHECK(magicubeKroneckerProductShape(chain, &s) == MAGICUBE_STATUS_SUCCESS);
    CHECK(s.b == 4);
    CHECK(magicubeDestroyKronecker(nullptr) == MAGICUBE_STATUS_SUCCESS);
}

TEST_CASE("Kronecker descriptors refuse wrong arguments") {
    magicubeKroneckerDescr_t made = nullptr;
    const auto factor = [&](int64_t a, int64_t b, int64_t c, int64_t d) {
        return magicubeCreateKronecker(&made, a, b, c, d, nullptr, MAGICUBE_FP16);
    };
    CHECK(factor(1, 2, 0, 4) == invalid);
    CHECK(message_has("magicubeCreateKronecker: c is 0; it must be at least 1"));
    CHECK(factor(INT64_MAX, 2, 1, 1) == invalid);
    CHECK(message_has("a * b overflows 64 bits"));
    CHECK(factor(1, INT64_MAX, 1, 1) == invalid);
    CHECK(message_has("values in bytes overflows 64 bits"));
    CHECK(magicubeCreateKronecker(&made, 1, 1, 1, 1, nullptr,
                                  no_enumerator<magicubeDataType_t>()) == invalid);
    CHECK(message_has("type is 77"));
    CHECK(magicubeCreateKronecker(nullptr, 1, 1, 1, 1, nullptr, MAGICUBE_FP16) == invalid);
    const auto chain = [&](const std::vector<shape>& shapes) {
        return magicubeCreateKroneckerChain(&made, static_cast<int64_t>(shapes.size()),
                                            shapes.data(), nullptr, MAGICUBE_FP16);
    };
    CHECK(chain({{1, 2, 2, 2}, {2, 2, -1, 1}}) == invalid);
    CHECK(message_has("factors[1].c is -1; it must be at least 1"));
    CHECK(chain({{1, 2, 2, 2}, {2, 2, 2, 1}, {1, 3, 3, 1}}) == invalid);
    CHECK(message_has("factors[2] = (1, 3, 3, 1) has 3 rows; it must have 4"));
    CHECK(chain({{1, INT64_MAX, 1, 1}}) == invalid);
    CHECK(message_has("factors[0].values in bytes overflows"));
    CHECK(magicubeCreateKroneckerChain(&made, 0, nullptr, nullptr, MAGICUBE_FP16) == invalid);
    CHECK(message_has("count is 0"));
    CHECK(magicubeCreateKroneckerChain(&made, 1, nullptr, nullptr, MAGICUBE_FP16) == invalid);
    CHECK(message_has("factors is null"));
    CHECK(made == nullptr);
    int64_t count = 0;
    CHECK(magicubeKroneckerButterflyShapes(0, nullptr, 0, &count) == invalid);
    CHECK(message_has("log2_size is 0"));
    CHECK(magicubeKroneckerButterflyShapes(3, nullptr, 2, &count) == invalid);
    CHECK(message_has("shapes is null; it must hold 2 shapes"));
    shape two[2] = {};
    CHECK(magicubeKroneckerButterflyShapes(3, two, 2, &count) == MAGICUBE_STATUS_SUCCESS);
    CHECK(count == 3);
    CHECK(two[1].a == 2);
    CHECK(magicubeKroneckerMonarchShapes(12, 20, 5, 4, 3, two) == MAGICUBE_STATUS_SUCCESS);
    CHECK(two[0].c == 15);
    CHECK(two[1].b == 12);
    CHECK(magicubeKroneckerMonarchShapes(12, 20, INT64_MAX, 4, 3, two) == invalid);
    CHECK(message_has("it must divide cols = 20"));
}

TEST_CASE("Kronecker conversions, the header's example, and their refusals") {
    const cpu_handle handle;
    float w[] = {1, 2, 3, 4, 5, 6, 7, 8};
    float dense[16], back[8] = {};
    const kronecker k({1, 2, 2, 2}, w);
    const dn_mat matrix(4, 4, 4, dense, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    CHECK(magicubeKroneckerToDense(handle, k, matrix) == MAGICUBE_STATUS_SUCCESS);
    const float expected[] = {1, 0, 3, 0, 0, 2, 0, 4, 5, 0, 7, 0, 0, 6, 0, 8};
    CHECK(std::vector<float>(dense, dense + 16) == std::vector<float>(expected, expected + 16));
    const kronecker target({1, 2, 2, 2}, back);
    CHECK(magicubeDenseToKronecker(handle, matrix, target) == MAGICUBE_STATUS_SUCCESS);
    CHECK(std::vector<float>(back, back + 8) == std::vector<float>(w, w + 8));
    dense[1] = 9;
    CHECK(magicubeDenseToKronecker(handle, matrix, target) == invalid);
    CHECK(message_has("dense[0, 1] is 9; it lies outside the support of K = (1, 2, 2, 2)"));
    magicubeConstKroneckerDescr_t constant = nullptr;
    REQUIRE_OK(magicubeCreateConstKronecker(&constant, 1, 2, 2, 2, back, MAGICUBE_FP32));
    CHECK(magicubeDenseToKronecker(handle, matrix,
                                   const_cast<magicubeKroneckerDescr_t>(constant)) == invalid);
    CHECK(message_has("an output needs writable values"));
    magicubeDestroyKronecker(constant);
    const dn_mat small(4, 3, 4, dense, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    CHECK(magicubeKroneckerToDense(handle, k, small) == invalid);
    CHECK(message_has("dense is 4 x 3; it must be 4 x 4, the size of K"));
    const kronecker none({1, 2, 2, 2}, nullptr);
    CHECK(magicubeKroneckerToDense(handle, none, matrix) == invalid);
    CHECK(message_has("source: the factor has null values"));
    const dn_mat aliased(1, 8, 8, w, MAGICUBE_FP32, MAGICUBE_ORDER_ROW);
    const kronecker row({1, 1, 8, 1}, w);
    CHECK(magicubeKroneckerToDense(handle, row, aliased) == invalid);

    int32_t offsets[5] = {}, columns[8] = {};
    float values[8] = {};
    CHECK(magicubeKroneckerToCsr(handle, k, MAGICUBE_INDEX_32, offsets, columns, values,
                                 MAGICUBE_FP32) == MAGICUBE_STATUS_SUCCESS);
    CHECK(offsets[4] == 8);
    CHECK(columns[2] == 1);
    CHECK(values[2] == 2);
    sp_mat csr;
    REQUIRE_OK(magicubeCreateCsr(&csr.value, 4, 4, 8, offsets, columns, values, MAGICUBE_INDEX_32,
                                 MAGICUBE_FP32));
    back[0] = -1;
    CHECK(magicubeCsrToKronecker(handle, csr, target) == MAGICUBE_STATUS_SUCCESS);
    CHECK(back[0] == 1);
    CHECK(magicubeKroneckerToCsr(handle, k, MAGICUBE_INDEX_32, nullptr, columns, values,
                                 MAGICUBE_FP32) == invalid);
    CHECK(message_has("offsets is null"));

    float pair[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, product[4] = {};
    void* const arrays[] = {pair[0], pair[1]};
    const kronecker chain({{1, 2, 2, 1}, {1, 2, 2, 1}}, arrays);
    const kronecker merged({1, 2, 2, 1}, product);
    CHECK(magicubeKroneckerMultiply(handle, chain, merged) == MAGICUBE_STATUS_SUCCESS);
    CHECK(product[0] == 19);
    CHECK(product[3] == 50);
    CHECK(magicubeKroneckerMultiply(handle, chain, target) == invalid);
    CHECK(message_has("product is (1, 2, 2, 2); the product of chain is (1, 2, 2, 1)"));
    CHECK(magicubeKroneckerFillHadamard(handle, chain, 1) == MAGICUBE_STATUS_SUCCESS);
    CHECK(pair[1][3] == -1);
    CHECK(magicubeDenseToKronecker(handle, matrix, chain) == invalid);
    CHECK(message_has("target is a chain of 2 factors; this call takes one factor"));
    const kronecker bytes({1, 2, 2, 2}, back, MAGICUBE_INT8);
    CHECK(magicubeKroneckerToDense(handle, bytes, matrix) == invalid);
    CHECK(message_has("dense's type is fp32; it must be int8"));
}

TEST_SUITE_END();
