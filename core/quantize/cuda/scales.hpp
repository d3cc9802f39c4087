// SPDX-License-Identifier: Apache-2.0
// The scales of a matrix on CUDA, step by step.
#pragma once

#include "core/device/context.hpp"
#include "core/quantize/scales.hpp"
#include "core/types/view.hpp"

namespace magicube::cuda {

// Writes the largest magnitude of every group of one matrix; NaN is passed over.
void find_absmax(const context& ctx, const dense_view& matrix, int64_t batch, granularity per,
                 float* out);

// Largest magnitudes become the scales that follow from them.
void scales_from_absmax(const context& ctx, int64_t groups, dtype target, float* scales);

// Numbers of groups that lie one after another, per_group each.
struct grouped_numbers {
    const float* numbers;
    int64_t groups;
    int64_t per_group;
};

// Bytes of scratch of the two functions below, aligned to 16.
size_t search_scratch(int64_t groups, int64_t per_group);
size_t percentile_scratch(int64_t groups);

// Largest magnitudes become the scales of least squared error.
void search_scales(const context& ctx, const grouped_numbers& all, dtype target, float* scales,
                   void* scratch);

// The numbers are magnitudes; the largest of each group become the scales of a percentile.
void percentile_scales(const context& ctx, const grouped_numbers& all, double percentile,
                       dtype target, float* scales, void* scratch);

}  // namespace magicube::cuda
