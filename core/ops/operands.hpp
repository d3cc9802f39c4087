// SPDX-License-Identifier: Apache-2.0
// Checks of operands that the operations share. Each throws an error that names the argument, its
// value and the rule. Descriptors, their pointers and the batch of an output have been checked on
// their own (core/formats/validate.hpp).
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/device/context.hpp"
#include "core/formats/sparse.hpp"
#include "core/ops/epilogue.hpp"
#include "core/types/overlap.hpp"

namespace magicube {

// How a plan treats the values of its sparse operand. Same numbers as magicubeValueMode_t; capi
// asserts it.
enum class value_mode : int { fixed = 0, updatable = 1, per_call = 2 };

// A batch that fits the pattern's. `argument` is the pattern's name.
void check_batch(int64_t batch_count, const sparse_common& pattern, const char* argument);

// 0 <= lowest <= highest, named problem-><dimension>_min and _max.
void check_range(int64_t lowest, int64_t highest, const char* dimension);

// The size that an execution brings lies in the plan's range.
void check_in_range(int64_t size, int64_t lowest, int64_t highest, const char* argument);

// Granularities that an array of scales or summands may have, besides none.
void check_scale_shape(const scale_shape& shape, std::initializer_list<granularity> allowed,
                       int64_t batch_count, const char* argument);

// An array of an execution, `length` elements a matrix if it goes by row or column.
void check_summands(const scale_shape& shape, const float* data, int64_t length,
                    int64_t batch_count, const char* argument);

// The same, and every element is finite (and, if `divides`, not zero) where the context validates.
void check_scales(const context& ctx, const scale_shape& shape, const float* data, int64_t length,
                  int64_t batch_count, const char* argument, bool divides = false);

// What a plan expects of a dense operand.
struct dense_expectation {
    dtype type;
    order storage;
    int64_t rows;
    int64_t cols;
    int64_t batch_count;
};

void check_dense(const dense_view& view, const dense_expectation& expected, const char* argument);

// Elements between the value arrays of a batch with one pattern, where 0 stands for their length.
// Those of an output must not overlap.
int64_t value_stride(const sr_bcrs_view& pattern, int64_t given);
void check_value_stride(const sr_bcrs_view& pattern, int64_t given, dtype type, int64_t batch_count,
                        bool output, const char* argument);

// An array of `count` values of a pattern's layout.
void check_value_array(const void* values, dtype type, int64_t count, const char* argument);

// The value arrays of a batch, `stride` elements apart, as one-row matrices.
dense_view value_arrays(const sr_bcrs_view& pattern, const void* values, dtype type, int64_t stride,
                        int64_t batch_count);

}  // namespace magicube
