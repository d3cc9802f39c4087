// SPDX-License-Identifier: Apache-2.0
// Conversions to V:n:M.
#pragma once

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"
#include "core/formats/sr_bcrs/convert.hpp"

namespace magicube {

// The arrays of the result, which the caller owns; their lengths follow from the source's shape.
struct vnm_target {
    int32_t vector_length = 1;
    int32_t n = 2;
    int32_t m = 4;
    dtype type = dtype::fp32;
    void* column_loc = nullptr;
    uint8_t* metadata = nullptr;
    void* values = nullptr;  // null: the pattern alone
};

// Checks shapes, types and the pointers that the step needs. One matrix, no batch.
void check_source(const dense_source& source, const vnm_target& target, conversion_step step);
void check_source(const sparse_view& source, const vnm_target& target, conversion_step step);

// Makes sure that the source is such a matrix and returns the number of its elements. The error for
// one that is not names the block row, the group, and the row or the columns that are too many.
int64_t count_vnm(const context& ctx, const dense_source& source, const vnm_target& target);
int64_t count_vnm(const context& ctx, const sparse_view& source, const vnm_target& target);

// Writes the arrays; refuses what count refuses. Places that the source's elements leave free go to
// the lowest columns and, in a row, to the lowest places, with values of 0.
void fill_vnm(const context& ctx, const dense_source& source, const vnm_target& target);
void fill_vnm(const context& ctx, const sparse_view& source, const vnm_target& target);

}  // namespace magicube
