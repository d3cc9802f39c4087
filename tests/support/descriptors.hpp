// SPDX-License-Identifier: Apache-2.0
// Descriptors of the C ABI that destroy themselves, and of random matrices.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "magicube/magicube.h"
#include "support/samples.hpp"
#include "support/vnm_sample.hpp"

#define REQUIRE_OK(call) \
    REQUIRE_MESSAGE((call) == MAGICUBE_STATUS_SUCCESS, std::string(magicubeGetLastErrorMessage()))

namespace support {

struct dn_mat {
    magicubeDnMatDescr_t value = nullptr;

    dn_mat() = default;
    dn_mat(int64_t rows, int64_t cols, int64_t ld, void* values, magicubeDataType_t type,
           magicubeOrder_t order) {
        REQUIRE_OK(magicubeCreateDnMat(&value, rows, cols, ld, values, type, order));
    }
    explicit dn_mat(dense_sample& sample)
        : dn_mat(sample.shape().rows, sample.shape().cols, sample.ld(), sample.array().data(),
                 static_cast<magicubeDataType_t>(sample.shape().type),
                 sample.shape().col_major ? MAGICUBE_ORDER_COL : MAGICUBE_ORDER_ROW) {
        REQUIRE_OK(magicubeDnMatSetStridedBatch(value, sample.shape().batch, sample.stride()));
    }
    ~dn_mat() { magicubeDestroyDnMat(value); }
    dn_mat(const dn_mat&) = delete;
    dn_mat& operator=(const dn_mat&) = delete;
    operator magicubeDnMatDescr_t() const { return value; }
};

struct sp_mat {
    magicubeSpMatDescr_t value = nullptr;

    sp_mat() = default;
    explicit sp_mat(magicubeSpMatDescr_t owned) : value(owned) {}
    explicit sp_mat(sparse_sample& sample) {
        const auto& shape = sample.shape();
        REQUIRE_OK(
            magicubeCreateSrBcrs(&value, shape.rows, shape.cols, static_cast<int32_t>(shape.v),
                                 static_cast<int32_t>(shape.s), sample.slots(), sample.row_begin(),
                                 sample.row_end(), sample.cols(), sample.values().data(),
                                 shape.offsets32 ? MAGICUBE_INDEX_32 : MAGICUBE_INDEX_64,
                                 static_cast<magicubeDataType_t>(shape.type)));
        REQUIRE_OK(magicubeSrBcrsSetElementMask(value, sample.mask()));
        if (sample.different()) {
            REQUIRE_OK(magicubeSrBcrsSetPatternBatch(value, shape.batch));
        } else {
            REQUIRE_OK(magicubeSpMatSetStridedBatch(value, shape.batch, sample.values_stride()));
        }
    }
    explicit sp_mat(vnm_sample& sample) {
        const auto& shape = sample.shape();
        REQUIRE_OK(magicubeCreateVnm(&value, shape.rows, shape.cols, static_cast<int32_t>(shape.v),
                                     static_cast<int32_t>(shape.n), static_cast<int32_t>(shape.m),
                                     sample.column_loc(), sample.metadata().data(),
                                     sample.values().data(),
                                     static_cast<magicubeDataType_t>(shape.type)));
        REQUIRE_OK(magicubeSpMatSetStridedBatch(value, shape.batch, sample.values_stride()));
    }
    ~sp_mat() { magicubeDestroySpMat(value); }
    sp_mat(const sp_mat&) = delete;
    sp_mat& operator=(const sp_mat&) = delete;
    operator magicubeSpMatDescr_t() const { return value; }
};

// Element (i, j) of A * B[batch] for integers; a holds rows of k numbers.
inline int64_t exact_product(const std::vector<double>& a, int64_t k, int64_t i,
                             const dense_sample& b, int64_t batch, int64_t j) {
    int64_t sum = 0;
    for (int64_t l = 0; l < k; ++l)
        sum += static_cast<int64_t>(a[static_cast<size_t>(i * k + l)]) *
               static_cast<int64_t>(b.at(batch, l, j));
    return sum;
}

}  // namespace support
